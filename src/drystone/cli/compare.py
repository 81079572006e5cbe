"""`drystone compare`: stacked against the best member and uniform weights."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from drystone.cli.command import configuration, drop_option, say, source_argument, verb, waiting


@verb(
    ("drystone compare moons", "the run's fits on its test rows"),
    ("drystone compare moons --exact", "and against the exact posterior, if the task knows it"),
    (
        'drystone compare table.zarr --score log --score "log + 10*rank"',
        "half the rows to fit, half to test",
    ),
)
@source_argument
@click.option("--score", "scores", multiple=True, help="What to stack a table for; may be given again.  [log]")
@click.option("--seed", default=0, show_default=True, help="Seed that splits the rows of a table.")
@drop_option
@click.option("--exact", is_flag=True, help="Also measure the distance from the task's exact posterior, in nats.")
def compare(source: Path, scores: tuple[str, ...], seed: int, drop: bool, exact: bool) -> None:
    """Compare fits on untouched rows.

    With the best member and uniform weights, with standard errors, on rows that nothing was fitted to.
    The best member is chosen for each metric on the stacking rows; gains are paired.
    """
    from drystone.cli.comparison_table import render
    from drystone.cli.tables import evaluate_table, is_table
    from drystone.runs import Run
    from drystone.runs.evaluation import evaluate

    if is_table(source):
        with waiting("stacking and comparing"):
            evaluation = evaluate_table(source, scores, seed, exact, drop)
    else:
        if scores or drop:
            raise click.UsageError("--score and --drop are for tables; a run's fits are made by `drystone stack`.")
        home = Run(source)
        with home.opened():
            config = configuration(home)
            with waiting("comparing"):
                evaluation = evaluate(home, config, exact=exact)
    words = str(evaluation.comparison)
    if evaluation.gaps:
        words += f"\n\n{render(evaluation)}"
    say(
        words,
        test_rows=evaluation.test.N,
        metrics=evaluation.comparison.frame.to_dict("records"),
        skipped=evaluation.comparison.skipped,
        nats_from_exact={name: asdict(gap) for name, gap in evaluation.gaps.items()},
    )
