"""Stacked posteriors in ArviZ's layout: groups of arrays with leading dimensions ``chain`` and ``draw``.

ArviZ from version 1 on works with an ``xarray.DataTree``, before that with its own ``InferenceData``; what is
returned is what the installed one takes. It need not be installed: a ``DataTree`` is xarray's.
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
    """Draws at one observation as groups ``posterior``, ``observed_data`` and ``sample_stats``.

    Args:
        parameters: names of θ, a variable each.
        draws: (S, d).
        y: the observation.
        log_prob: of each draw, (S,), to be called ``lp``; or None.
        member: which member each draw came from, (S,), or None.
        names: the members' names.
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
    """Ranks (N, d) of true parameters as group ``prior_sbc``, which ArviZ's ``plot_ecdf_pit`` reads."""
    return _tree({"prior_sbc": _chain(dict(zip(parameters, rank.T, strict=True)))})


def _chain(variables: Mapping[str, np.ndarray]) -> xarray.Dataset:
    """Arrays (S,) as one chain."""
    taken = [name for name in ("chain", "draw") if name in variables]
    if taken:
        raise ValueError(f"a parameter is called {taken[0]!r}, as a dimension of ArviZ is; rename it.")
    size = len(next(iter(variables.values())))
    arrays = {name: (("chain", "draw"), np.asarray(values)[None]) for name, values in variables.items()}
    return xarray.Dataset(arrays, {"chain": [0], "draw": np.arange(size)})


def _tree(groups: Mapping[str, xarray.Dataset]) -> Any:
    made = {"created_at": datetime.now(UTC).isoformat(), "inference_library": "drystone"}
    made["inference_library_version"] = __version__
    groups = {name: dataset.assign_attrs(made) for name, dataset in groups.items()}
    if find_spec("arviz_base") is None and find_spec("arviz") is not None:
        import arviz  # pyright: ignore[reportMissingImports]: older than 1.0, where that is what there is

        return arviz.InferenceData(**groups)
    return xarray.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
