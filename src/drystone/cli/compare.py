"""`drystone compare`: stacked against the best member and uniform weights."""

from __future__ import annotations

from dataclasses import asdict
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
    ("drystone compare moons", "the run's fits on its test rows"),
    ("drystone compare moons --exact", "also with the exact posterior, if the task has one"),
    (
        'drystone compare table.zarr --score log --score "log + 10*rank"',
        "half the rows to fit, half to test",
    ),
)
@source_argument
@click.option("--score", "scores", multiple=True, help="Score to stack a table by; may be repeated.  [log]")
@click.option("--seed", type=int, help="Seed that splits the rows of a table.  [0]")
@drop_option
@click.option("--exact", is_flag=True, help="Also measure the distance from the task's exact posterior, in nats.")
@trust_option
def compare(source: Path, scores: tuple[str, ...], seed: int | None, drop: bool, exact: bool, trust: bool) -> None:
    """Compare fits on test rows.

    Compares each fit with the best member and with uniform weights, with standard errors, on rows that no member
    and no fit has seen. The best member is chosen per metric on the stacking rows; gains are paired.
    """
    from drystone.cli.comparison_table import render
    from drystone.cli.tables import evaluate_table, is_table
    from drystone.runs import Run
    from drystone.runs.evaluation import evaluate

    if is_table(source):
        with waiting("stacking and comparing"):
            evaluation = evaluate_table(source, scores, seed or 0, exact, drop)
    else:
        if scores or drop or seed is not None:
            raise click.UsageError(
                "--score, --seed and --drop are for tables; a run's fits are made by `drystone stack`."
            )
        run = Run(source)
        with run.opened():
            config = configuration(run)
            with waiting("comparing"):
                evaluation = evaluate(run, config, exact=exact, trust=trust)
    text = str(evaluation.comparison)
    if evaluation.gaps:
        text += f"\n\n{render(evaluation)}"
    print_result(
        text,
        test_rows=evaluation.test.N,
        metrics=evaluation.comparison.frame.to_dict("records"),
        skipped=evaluation.comparison.skipped,
        nats_from_exact={name: asdict(gap) for name, gap in evaluation.gaps.items()},
    )
