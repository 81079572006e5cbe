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
    """Return a ``zuko`` flow, a torch module, that is the same function as the flow.

    Example:
        >>> import drystone as ds, numpy as np, torch
        >>> flow = ds.flows.Flow.initial(ds.flows.Architecture("maf", features=2, context=3, units=8), seed=0)
        >>> theta, y = np.ones((5, 2)), np.zeros((5, 3))
        >>> module = ds.flows.to_zuko(flow).double()
        >>> log_prob = module(torch.as_tensor(y)).log_prob(torch.as_tensor(theta))
        >>> np.allclose(log_prob.detach(), flow.log_prob(theta, y))
        True
    """
    return flow.to_zuko()


def from_zuko(module: zuko.flows.Flow) -> Flow:
    """Return the flow that is the same function as a conditional ``zuko.flows.MAF`` or ``NSF``.

    Example:
        >>> import drystone as ds, numpy as np, zuko
        >>> flow = ds.flows.from_zuko(zuko.flows.MAF(2, context=3, hidden_features=[16, 16]))
        >>> flow.architecture.units, flow.sample(7, np.zeros((5, 3)), seed=1).shape
        (16, (7, 5, 2))
    """
    require("zuko", "zuko", "from_zuko")
    from drystone.flows.zuko import from_zuko

    return from_zuko(module)
