"""Draws at one observation: what the report's pair plots show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from drystone.comparison import name_fits
from drystone.errors import IntractableError
from drystone.stacking.result import Stacking
from drystone.table import Table
from drystone.tasks import Task

__all__ = ["ROWS_SHOWN", "Observation", "observe", "observe_row", "observe_rows"]

# Rows of a table whose posteriors a report shows.
ROWS_SHOWN = 2


@dataclass(frozen=True, eq=False)
class Observation:
    """Posterior draws at one observation, by method.

    Attributes:
        label: as printed above the picture.
        draws: (S, d) by method: "best", "uniform", the fits' names, "exact". S may differ between them. Draws that
            are not finite are left out, and methods of which none are.
        truth: the parameters the observation was simulated with, (d,), or None.
        bounds: of the parameters by the prior, (d, 2), which pictures keep to; or None.

    Example:
        >>> import drystone as ds, tempfile
        >>> validation, test = ds.toy.table(200, seed=1), ds.toy.table(200, seed=2)
        >>> draws = {"left": ds.toy.MEMBERS["left"].sample(500, test.y[:1], seed=1)[:, 0]}
        >>> seen = ds.report.Observation("the first test row", draws, truth=test.theta[0])
        >>> path = ds.report.write(f"{tempfile.mkdtemp()}/report.html", validation=validation, test=test,
        ...                        fits=ds.stack(validation), observations=[seen])
        >>> "the first test row" in path.read_text()
        True
    """

    label: str
    draws: Mapping[str, np.ndarray]
    truth: np.ndarray | None = None
    bounds: np.ndarray | None = None

    def __post_init__(self) -> None:
        draws = {method: np.asarray(sample, float) for method, sample in self.draws.items()}
        truth = None if self.truth is None else np.asarray(self.truth, float)
        shapes = {method: sample.shape for method, sample in draws.items()}
        widths = {shape[1:] for shape in shapes.values()} | ({truth.shape} if truth is not None else set())
        if not draws or len(widths) != 1 or any(len(shape) != 2 for shape in shapes.values()):
            of_truth = f", `truth` {truth.shape}" if truth is not None else ""
            raise ValueError(
                f"`draws` of observation {self.label!r} must have shape (S, d) each, and `truth` (d,), with the "
                f"same d; got {shapes or 'none'}{of_truth}."
            )
        finite = {method: sample[np.isfinite(sample).all(1)] for method, sample in draws.items()}
        if not any(len(sample) for sample in finite.values()):
            raise ValueError(f"observation {self.label!r} has no finite draws; give at least one.")
        object.__setattr__(self, "draws", {method: sample for method, sample in finite.items() if len(sample)})
        object.__setattr__(self, "truth", truth)


def observe(
    label: str,
    y: Any,
    members: Mapping[str, Any] | Sequence[Any],
    fits: Mapping[str, Stacking] | Stacking,
    *,
    best: str | None = None,
    truth: Any = None,
    task: Task | None = None,
    draws: int = 2000,
    seed: int = 0,
) -> Observation:
    """Draw from the members and their stackings at one observation.

    Args:
        label: as printed above the picture.
        y: the observation.
        members: the members themselves, as for ``fit.posterior``.
        fits: stackings by name; those that are no samplers (intervals) are passed over.
        best: name of the member to show as the best, if any.
        truth: the parameters y was simulated with, (d,), if known.
        task: gives exact draws, if it has them.
        draws: how many of each.
        seed: same seed, same draws.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(200, seed=1))
        >>> observation = ds.report.observe("y = 2", 2.0, ds.toy.MEMBERS, fit, best="narrow", draws=500)
        >>> {method: draws.shape for method, draws in observation.draws.items()}
        {'best': (500, 1), 'uniform': (500, 1), 'stacked': (500, 1)}
    """
    fits = name_fits(fits)
    if task is not None and "exact" in fits:
        raise ValueError("`fits` may not be called 'exact' where a `task` gives exact draws; rename it.")
    checked = (fit.posterior(members).members for fit in fits.values())
    samplers = [member.name for of_fit in checked for member in of_fit if member.has("sample")]
    methods = {**_references(fits, best, samplers), **fits}
    found = {}
    for method, fit in methods.items():
        if _drawable(fit, samplers):
            found[method] = np.asarray(fit.posterior(members).sample((draws,), np.asarray(y), seed=seed))
    if task is not None:
        with suppress(IntractableError):  # of some tasks only the simulator is known
            found["exact"] = task.sample_posterior(np.asarray(y), draws, np.random.default_rng(seed))
    bounds = (fit.posterior(members).bounds for fit in fits.values())
    return Observation(label, found, truth, next((each for each in bounds if each is not None), None))


def observe_rows(
    table: Table,
    members: Mapping[str, Any],
    fits: Mapping[str, Stacking],
    *,
    best: str | None,
    task: Task | None,
    what: str = "test simulation",
) -> list[Observation]:
    """Draw from the members at the first rows of a table with y, whose true parameters are known."""
    y = np.asarray(table.y)
    return [
        observe(f"{what} {row}", y[row], members, fits, best=best, truth=table.theta[row], task=task)
        for row in range(min(ROWS_SHOWN, table.N))
    ]


def observe_row(
    label: str,
    table: Table,
    row: int,
    fits: Mapping[str, Stacking] | Stacking,
    *,
    best: str | None = None,
    seed: int = 0,
) -> Observation:
    """Return the same from the draws a table holds for one of its rows, without the members themselves.

    Example:
        >>> import drystone as ds
        >>> fit, test = ds.stack(ds.toy.table(200, seed=1)), ds.toy.table(200, seed=2)
        >>> observation = ds.report.observe_row("the first test row", test, 0, fit)
        >>> {method: draws.shape for method, draws in observation.draws.items()}
        {'uniform': (200, 1), 'stacked': (200, 1)}
    """
    fits = name_fits(fits)
    at_row = table.select(rows=[row])
    samplers = [name for name, able in zip(table.names, table.has("draws"), strict=True) if able]
    methods = {**_references(fits, best, samplers), **fits}
    found = {
        method: fit.apply(at_row).draws(seed=seed)[0]
        for method, fit in methods.items()
        if _drawable(fit, samplers)
    }
    return Observation(label, found, table.theta[row])


def _drawable(fit: Stacking, samplers: Sequence[str]) -> bool:
    """Return whether a fit has draws, and all members that it uses are among those that have."""
    active = (fit.names[k] for k in fit.form.active_members(fit.params)[0])
    return "draws" in fit.form.gives and set(samplers).issuperset(active)


def _references(fits: Mapping[str, Stacking], best: str | None, samplers: Sequence[str]) -> dict[str, Stacking]:
    """Return what stackings are held against: the best member alone, and equal weights of those with draws."""
    if not fits:
        raise ValueError("`fits` must hold at least one stacking; got none.")
    fit = next(iter(fits.values()))
    references = {"uniform": Stacking.uniform(fit.names, members=samplers, parameters=fit.parameters)}
    if best is not None:
        if best not in fit.names:
            raise ValueError(f"`best` must be the name of a member; got {best!r}, not one of {fit.names[:5]}….")
        references = {"best": Stacking.single(fit.names, best, parameters=fit.parameters), **references}
    return references
