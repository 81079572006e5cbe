"""`drystone report`: one HTML file."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from drystone.cli.command import configuration, drop_option, say, source_argument, verb, waiting


@verb(
    ("drystone report moons", "moons/report.html: verdict, scores, weights, calibration, posteriors, advice"),
    ("drystone report moons --exact", "and how far from the exact posterior, if the task knows it"),
    (
        "drystone report table.zarr --score energy --out report.html",
        "half the rows to fit, half to test",
    ),
)
@source_argument
@click.option("--score", "scores", multiple=True, help="What to stack a table for; may be given again.  [log]")
@click.option("--seed", default=0, show_default=True, help="Seed that splits the rows of a table.")
@drop_option
@click.option("--exact", is_flag=True, help="Also measure the distance from the task's exact posterior.")
@click.option("--out", type=click.Path(path_type=Path), help="Where to write that of a table.  [report.html]")
def report(source: Path, scores: tuple[str, ...], seed: int, drop: bool, exact: bool, out: Path | None) -> None:
    """Write report.html.

    All there is to know about the fits in one HTML file that needs nothing else: the verdict, scores with standard
    errors, weights and their certificates, calibration, posteriors of two observations, and what to do next.
    """
    from drystone.cli.report_of_run import report_of_run, report_of_table
    from drystone.cli.tables import evaluate_table, is_table
    from drystone.runs import Run
    from drystone.runs.evaluation import evaluate

    command = _command(source, scores, seed, drop, exact, out)
    if is_table(source):
        with waiting("stacking, comparing and drawing"):
            evaluation = evaluate_table(source, scores, seed, exact, drop)
            path = report_of_table(out or Path("report.html"), evaluation, command)
    else:
        if scores or drop or out is not None:
            raise click.UsageError("--score, --drop and --out are for tables; a run has its own fits and report.")
        home = Run(source)
        with home.opened(), home.timed("report"):
            config = configuration(home)
            with waiting("comparing and drawing"):
                evaluation = evaluate(home, config, exact=exact)
                path = report_of_run(home, config, evaluation, command)
    say(f"{evaluation.verdict}\nReport: {path.resolve()}", report=path, verdict=evaluation.verdict)


def _command(source: Path, scores: tuple[str, ...], seed: int, drop: bool, exact: bool, out: Path | None) -> str:
    """What was asked for, to be pasted into a shell; defaults are left out."""
    words = ["drystone", "report", str(source)]
    for score in scores:
        words += ["--score", score]
    words += ["--seed", str(seed)] if seed else []
    words += ["--drop"] if drop else []
    words += ["--exact"] if exact else []
    words += ["--out", str(out)] if out is not None else []
    return shlex.join(words)
