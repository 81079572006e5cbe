"""From tables and fits to one HTML file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from drystone import diagnostics
from drystone._files import replacing
from drystone.comparison import Comparison, compare, gap_to_exact, name_fits
from drystone.errors import IntractableError
from drystone.plots.palette import Style, method_styles
from drystone.report.fits import certificate
from drystone.report.members import members_table
from drystone.report.metric_tables import metric_tables
from drystone.report.page import Page, provenance, render
from drystone.report.pictures import Picture, coverage_pictures, pair_picture, rank_pictures
from drystone.report.posteriors import ROWS_SHOWN, Observation, observe_row
from drystone.report.tables import with_error
from drystone.report.verdict import tiles, tone_of, verdict
from drystone.report.your_observation import your_observation
from drystone.stacking.result import Stacking
from drystone.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from drystone.advice import Advice

__all__ = ["write"]

# Curves of so many members stand behind those of the methods: the heaviest ones. More are a grey patch.
BACKGROUND = 40


def write(
    path: str | os.PathLike[str],
    *,
    validation: Table,
    test: Table,
    fits: Mapping[str, Stacking] | Stacking,
    comparison: Comparison | None = None,
    members: pd.DataFrame | None = None,
    at: diagnostics.PosteriorAt | None = None,
    observations: Sequence[Observation] | None = None,
    exact: ArrayLike | None = None,
    advice: Advice | Sequence[str] = (),
    title: str = "Stacking report",
    command: str = "",
    notes: Sequence[str] = (),
) -> Path:
    """Write what was stacked, how good it is and how that is known, as one HTML file that needs nothing else.

    Args:
        path: the file, written whole or not at all.
        validation: the rows the fits were made on.
        test: untouched rows on which everything is measured; ``validation`` itself if there are none and the fits
            are cross-fitted, which the page then says.
        fits: stackings by name; the headline is about the first.
        comparison: what ``ds.compare`` gave for these tables and fits; None to compare here.
        members: a row per member, indexed by name, as ``Ensemble.frame``: hyperparameters and how training went.
        at: what ``posterior.at(y_o)`` gave for the first fit: the page then begins with your observation.
        observations: posterior draws to show as pair plots (see :func:`observe`); None for two test rows, if the
            table has draws.
        exact: exact log posterior density at the test truths, (N_test,), if it is known.
        advice: what ``ds.advise`` gave, or sentences of your own.
        title: of the page.
        command: the command line that made the run, to be repeated by whoever reads.
        notes: sentences to print with the versions.

    Returns:
        The path.

    Example:
        >>> import drystone as ds, tempfile
        >>> validation, test = ds.toy.table(300, seed=1), ds.toy.table(500, seed=2)
        >>> path = write(f"{tempfile.mkdtemp()}/report.html", validation=validation, test=test,
        ...              fits=ds.stack(validation))
        >>> path.name
        'report.html'
    """
    fits = name_fits(fits)
    if not fits:
        raise ValueError("`fits` must hold at least one stacking; got none.")
    comparison = compare(validation, test, fits) if comparison is None else comparison
    if not set(fits) <= set(comparison.fits):
        missing = [name for name in fits if name not in comparison.fits]
        raise ValueError(f"`comparison` does not have {missing}; it has {list(comparison.fits)}.")
    contributions = {name: fit.shares(test) for name, fit in fits.items()}
    name, fit = next(iter(fits.items()))
    best = comparison.best
    gaps = {} if exact is None else gap_to_exact(exact, test, fits, best)
    if observations is None:
        observations = _some_rows(test, fits, best)
    styles = _styles(fits, observations)
    ranks, coverage, background = _calibration(test, fits, best, styles, contributions[name].values)
    page = Page(
        title=title,
        at=None if at is None else your_observation(at, name, styles),
        validation=validation,
        test=test,
        untouched=comparison.untouched,
        verdict=verdict(comparison, name, test, gaps, _faults(test, name, fit)),
        tiles=tiles(comparison, name, fit, contributions[name], gaps),
        alarms=_alarms(fits, validation.left_out | test.left_out),
        advice=_sentences(advice),
        metric_tables=metric_tables(comparison),
        skipped=comparison.skipped,
        certificates=[
            certificate(name, fit, contributions[name], test, styles[name].name) for name, fit in fits.items()
        ],
        members_table=members_table(test, fits, contributions, members, styles),
        ranks=ranks,
        coverage=coverage,
        background=background,
        recalibration=_recalibration(validation, test, name, fit),
        pairs=[pair_picture(observation, test.parameters, styles) for observation in observations],
        styles=styles,
        exact=name in gaps,
        provenance=provenance(command),
        notes=tuple(notes),
    )
    with replacing(path) as temporary:
        temporary.write_text(render(page), encoding="utf-8")
    return Path(path)


def _some_rows(test: Table, fits: Mapping[str, Stacking], best: str) -> list[Observation]:
    """Return the first test rows: chosen before anything was seen of them."""
    if "draws" not in test.gives:
        return []
    rows = range(min(ROWS_SHOWN, test.N))
    return [observe_row(f"test simulation {row}", test, row, fits, best=best) for row in rows]


def _styles(fits: Mapping[str, Stacking], observations: Sequence[Observation]) -> dict[str, Style]:
    """Return the look of each method; anything that only an observation shows looks as a member."""
    shown = dict.fromkeys(method for observation in observations for method in observation.draws)
    styles = method_styles(fits)
    return {**dict.fromkeys(shown, styles["members"]), **styles}


def _calibration(
    test: Table, fits: Mapping[str, Stacking], best: str, styles: Mapping[str, Style], heaviness: np.ndarray
) -> tuple[list[Picture], list[Picture], str]:
    """Return pictures of ranks and of coverage, and what the grey curves in them are."""
    if "rank" not in test.gives:
        return [], [], ""
    names = next(iter(fits.values())).names
    drawn = [names[k] for k in np.argsort(-heaviness, kind="stable")[:BACKGROUND]]
    background = "members" if len(drawn) == test.K else f"{len(drawn)} heaviest of {test.K} members"
    ranks = rank_pictures(diagnostics.rank_ecdf(test, fits), best, styles, drawn)
    if test.S == 1:  # no interval has a width
        return ranks, [], background
    return ranks, coverage_pictures(diagnostics.coverage(test, fits), best, styles, drawn), background


def _faults(test: Table, name: str, fit: Stacking) -> diagnostics.Faults | None:
    """Return bias and width of a fit on the test rows, if it has ranks there."""
    return diagnostics.faults(test, {name: fit}).get(name) if "rank" in test.gives else None


def _recalibration(validation: Table, test: Table, name: str, fit: Stacking) -> str:
    """Return a sentence on margins that a map of ranks, fitted to the validation rows, mends on the test rows."""
    if "rank" not in validation.gives or "rank" not in test.gives:
        return ""
    try:
        found = diagnostics.recalibration(validation, fit)
        on_test = found.gain_on(test, fit)
    except IntractableError:  # a form, or members, without ranks
        return ""
    gains = zip(found.parameters, found.helps, on_test, strict=True)
    wins = [
        f"{parameter} ({with_error(gain, '+')} nats)"
        for parameter, helps, gain in gains
        if helps and tone_of(gain) == "better"
    ]
    if not wins:
        return ""
    return (
        f"Recalibration would help: a monotone map of the ranks of “{name}”, fitted to the validation rows,"
        f" gains on the test rows in {', '.join(wins)}. ds.diagnostics.recalibration(validation, fit) has it for "
        "draws and intervals."
    )


def _sentences(advice: Advice | Sequence[str]) -> tuple[str, ...]:
    """Return sentences one by one, without the dashes that advice prints them with, and with true minuses."""
    lines = advice if isinstance(advice, Sequence) else str(advice).splitlines()
    return tuple(re.sub(r"(?<![^\s(])-(?=\d)", "−", line.removeprefix("- ")) for line in lines)


def _alarms(fits: Mapping[str, Stacking], left_out: Mapping[str, str]) -> list[str]:
    """Return what the reader must not miss."""
    unconverged = [
        f"“{name}” did not converge: {fit.solver} stopped after {fit.iterations} steps."
        for name, fit in fits.items()
        if not fit.converged
    ]
    return [*unconverged, *(f"Member {name} could not be tabulated: {why}" for name, why in left_out.items())]
