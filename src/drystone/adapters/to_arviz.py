"""Stacked posteriors in ArviZ's layout: groups of arrays with leading dimensions ``chain`` and ``draw``.

ArviZ works with an ``xarray.DataTree`` from version 1 on, before that with its own ``InferenceData``; the
functions return the type of the installed version. ArviZ need not be installed: a ``DataTree`` is xarray's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import numpy as np
import xarray

from drystone import __version__

__all__ = ["posterior_groups", "ranks_group"]


def posterior_groups(
    parameters: Sequence[str],
    draws: np.ndarray,
    y: np.ndarray,
    log_prob: np.ndarray | None,
    member: np.ndarray | None,
    names: Sequence[str],
) -> Any:
    """Return draws at one observation as groups ``posterior``, ``observed_data`` and ``sample_stats``.

    Args:
        parameters: Names of θ, one variable per parameter.
        draws: Draws, (S, d).
        y: The observation.
        log_prob: Log density of each draw, (S,), stored as ``lp``; or None.
        member: Index of the member of each draw, (S,), or None.
        names: Names of the members.
    """
    groups = {"posterior": _chain(dict(zip(parameters, draws.T, strict=True)))}
    statistics = {"lp": log_prob, "member": member}
    statistics = {name: values for name, values in statistics.items() if values is not None}
    if statistics:
        groups["sample_stats"] = _chain(statistics)
    if member is not None:
        groups["sample_stats"]["member"].attrs["names"] = list(names)
    groups["observed_data"] = xarray.Dataset({"y": ([f"y_dim_{i}" for i in range(y.ndim)], y)})
    return _tree(groups)


def ranks_group(parameters: Sequence[str], rank: np.ndarray) -> Any:
    """Return ranks (N, d) of true parameters as group ``prior_sbc``, which ArviZ's ``plot_ecdf_pit`` reads."""
    return _tree({"prior_sbc": _chain(dict(zip(parameters, rank.T, strict=True)))})


def _chain(variables: Mapping[str, np.ndarray]) -> xarray.Dataset:
    """Return a dataset of arrays (S,) as one chain."""
    reserved = [name for name in ("chain", "draw") if name in variables]
    if reserved:
        raise ValueError(f"a parameter has the name {reserved[0]!r} of a dimension of ArviZ; rename it.")
    size = len(next(iter(variables.values())))
    arrays = {name: (("chain", "draw"), np.asarray(values)[None]) for name, values in variables.items()}
    return xarray.Dataset(arrays, {"chain": [0], "draw": np.arange(size)})


def _tree(groups: Mapping[str, xarray.Dataset]) -> Any:
    attributes = {"created_at": datetime.now(UTC).isoformat(), "inference_library": "drystone"}
    attributes["inference_library_version"] = __version__
    groups = {name: dataset.assign_attrs(attributes) for name, dataset in groups.items()}
    if find_spec("arviz_base") is None and find_spec("arviz") is not None:
        import arviz  # pyright: ignore[reportMissingImports]: older than 1.0, without DataTree

        return arviz.InferenceData(**groups)
    return xarray.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
