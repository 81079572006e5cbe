"""`drystone report`: one HTML file."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from drystone.cli.command import (
    command,
    configuration,
    drop_option,
    print_result,
    source_argument,
    trust_option,
    waiting,
)


@command(
    ("drystone report moons", "moons/report.html: verdict, scores, weights, calibration, posteriors, advice"),
    ("drystone report moons --exact", "also the distance from the exact posterior, if the task has one"),
    (
        "drystone report table.zarr --score energy --out report.html",
        "half the rows to fit, half to test",
    ),
)
@source_argument
@click.option("--score", "scores", multiple=True, help="Score to stack a table by; may be repeated.  [log]")
@click.option("--seed", default=0, show_default=True, help="Seed that splits the rows of a table.")
@drop_option
@click.option("--exact", is_flag=True, help="Also measure the distance from the task's exact posterior.")
@trust_option
@click.option("--out", type=click.Path(path_type=Path), help="File of the report of a table.  [report.html]")
def report(
    source: Path, scores: tuple[str, ...], seed: int, drop: bool, exact: bool, trust: bool, out: Path | None
) -> None:
    """Write report.html.

    The report is one self-contained HTML file: the verdict, scores with standard errors, weights and their
    certificates, calibration, posteriors of two observations, and advice.
    """
    from drystone.cli.report_of_run import report_of_run, report_of_table
    from drystone.cli.tables import evaluate_table, is_table
    from drystone.runs import Run
    from drystone.runs.evaluation import evaluate

    command_line = _command_line(source, scores, seed, drop, exact, out)
    if is_table(source):
        with waiting("stacking, comparing and drawing"):
            evaluation = evaluate_table(source, scores, seed, exact, drop)
            path = report_of_table(out or Path("report.html"), evaluation, command_line)
    else:
        if scores or drop or out is not None:
            raise click.UsageError("--score, --drop and --out are for tables; a run has its own fits and report.")
        run = Run(source)
        with run.opened(), run.timed("report"):
            config = configuration(run)
            with waiting("comparing and drawing"):
                evaluation = evaluate(run, config, exact=exact, trust=trust)
                path = report_of_run(run, config, evaluation, command_line, trust)
    print_result(f"{evaluation.verdict}\nReport: {path.resolve()}", report=path, verdict=evaluation.verdict)


def _command_line(
    source: Path, scores: tuple[str, ...], seed: int, drop: bool, exact: bool, out: Path | None
) -> str:
    """Return the command line of this call, quoted for a shell; defaults are left out."""
    words = ["drystone", "report", str(source)]
    for score in scores:
        words += ["--score", score]
    words += ["--seed", str(seed)] if seed else []
    words += ["--drop"] if drop else []
    words += ["--exact"] if exact else []
    words += ["--out", str(out)] if out is not None else []
    return shlex.join(words)
