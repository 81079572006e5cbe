"""Conditional autoregressive flows (MAF, NSF) as data, with compiled density, sampling and training.

A :class:`Flow` is a frozen :class:`Architecture` and a flat parameter vector, and is the same function as the
``zuko`` flow that :func:`to_zuko` returns. ``architecture`` defines the layout of that vector, ``kernels``
computes with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from drystone._messages import require
from drystone.flows.architecture import Architecture
from drystone.flows.flow import Flow

if TYPE_CHECKING:
    import zuko

__all__ = ["Architecture", "Flow", "from_zuko", "to_zuko"]


def to_zuko(flow: Flow) -> zuko.flows.Flow:
    """Return a ``zuko`` flow, a torch module, that is the same function as the flow."""
    return flow.to_zuko()


def from_zuko(module: zuko.flows.Flow) -> Flow:
    """Return the flow that is the same function as a conditional ``zuko.flows.MAF`` or ``NSF``."""
    require("zuko", "zuko", "from_zuko")
    from drystone.flows.zuko import from_zuko

    return from_zuko(module)
