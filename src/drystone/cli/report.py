"""`drystone report`: one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from drystone.cli.command import (
    command,
    command_line,
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
    ("drystone report moons --at observed.npy", "beginning with your observation: can the posterior be believed?"),
    (
        "drystone report table.zarr --score energy --out report.html",
        "half the rows to fit, half to test",
    ),
)
@source_argument
@click.option("--score", "scores", multiple=True, help="Score to stack a table by; may be repeated.  [log]")
@click.option("--seed", type=int, help="Seed that splits the rows of a table.  [0]")
@drop_option
@click.option("--exact", is_flag=True, help="Also measure the distance from the task's exact posterior.")
@click.option(
    "--at",
    type=click.Path(path_type=Path),
    help="Your observation, in a .npy file, of the shape of one simulation.",
)
@trust_option
@click.option("--out", type=click.Path(path_type=Path), help="File of the report of a table.  [report.html]")
def report(
    source: Path,
    scores: tuple[str, ...],
    seed: int | None,
    drop: bool,
    exact: bool,
    at: Path | None,
    trust: bool,
    out: Path | None,
) -> None:
    """Write report.html.

    The report is one self-contained HTML file: the verdict, scores with standard errors, weights and their
    certificates, calibration, posteriors of two observations, and advice. With --at it begins with your
    observation: whether it is like the simulations, whether members agree there, a credible set, and data
    simulated from the posterior.
    """
    from drystone.cli.report_of_run import report_of_run, report_of_table
    from drystone.cli.tables import evaluate_table, is_table
    from drystone.runs import Run
    from drystone.runs.evaluation import evaluate

    if is_table(source):
        if at is not None:
            raise click.UsageError("--at needs the members themselves; give a run, not a table.")
        with waiting("stacking, comparing and drawing"):
            evaluation = evaluate_table(source, scores, seed or 0, exact, drop)
            path = report_of_table(out or Path("report.html"), evaluation, command_line())
    else:
        if scores or drop or seed is not None or out is not None:
            raise click.UsageError(
                "--score, --seed, --drop and --out are for tables; a run has its own fits, rows and report."
            )
        run = Run(source)
        with run.opened(), run.timed("report"):
            config = configuration(run)
            with waiting("comparing and drawing"):
                evaluation = evaluate(run, config, exact=exact, trust=trust)
                path = report_of_run(run, config, evaluation, command_line(), trust, at)
    print_result(f"{evaluation.verdict}\nReport: {path.resolve()}", report=path, verdict=evaluation.verdict)
