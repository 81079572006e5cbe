"""`drystone demo`: all stages on Two Moons, whose exact posterior is known."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drystone.cli.command import JSON, command, print_result, workers_option

if TYPE_CHECKING:
    from drystone.runs import Config


@command(
    ("drystone demo", "in ./drystone-demo; two to three minutes on two cores"),
    ("drystone demo /tmp/moons --quick", "smaller: half a minute, and a worse posterior"),
)
@click.argument("directory", default="drystone-demo", metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="Fewer simulations, members and epochs.")
@workers_option
def demo(directory: Path, quick: bool, workers: int | None) -> None:
    """Run all stages on a small problem.

    Simulate, train, tabulate, stack, compare and report, printing each step.

    Two Moons has an exact posterior, so the last lines give the gain of stacking and the gain that is still
    possible, in nats. The demo may be killed at any time: the same command continues it and ends with the same
    numbers.
    """
    from drystone.cli.comparison_table import render
    from drystone.cli.report_of_run import report_of_run
    from drystone.cli.stack import fit_all
    from drystone.runs import Run, stages
    from drystone.runs.evaluation import evaluate

    config = settings(quick)
    run = Run(directory)
    rows = config.simulate
    with run.opened(create=True):
        if run.config_file.exists() and run.config != config:
            raise ValueError(
                f"{run.config_file} is not the configuration of this demo and is not overwritten; give another "
                "directory."
            )
        n = rows.train + rows.stack + rows.test
        with _stage(1, "simulate", f"{n:,} draws from the prior of {rows.task}, each with its data"):
            simulations = stages.simulate(run, config)
        flows = f"{config.train.members} spline flows on {rows.train:,} of them"
        with _stage(2, "train", f"{flows} (the first training on a machine compiles for 20 s)"):
            ensemble = stages.train(run, config, simulations=simulations, workers=workers)
        with _stage(3, "tabulate", f"all members on the {rows.stack + rows.test:,} rows not used in training"):
            table = stages.tabulate(run, config, simulations=simulations, ensemble=ensemble)
        with _stage(4, "stack", f"weights from {rows.stack:,} of these rows, by fit: {', '.join(config.fits)}"):
            fits = fit_all(run, config, config.fits, table=table)
        with _stage(5, "compare", f"on the other {rows.test:,} rows, to which nothing was fitted"):
            evaluation = evaluate(run, config, exact=True, table=table, fits=fits)
        with _stage(6, "report", "one page with all results and plots"):
            words = ["drystone", "demo", str(directory), *(["--quick"] if quick else [])]
            report_of_run(run, config, evaluation, shlex.join(words))
    print_result(
        f"\n{render(evaluation)}\n\n{click.style(evaluation.verdict, bold=True)}\nReport: {run.report.resolve()}",
        run=run.path,
        report=run.report,
        verdict=evaluation.verdict,
        metrics=evaluation.comparison.frame.to_dict("records"),
        nats_from_exact={name: asdict(gap) for name, gap in evaluation.gaps.items()},
    )


def settings(quick: bool = False) -> Config:
    """Return the configuration of the demo, which is written to `config.toml` of its directory."""
    from drystone.runs.config import Config, Fit, Simulate, Tabulate, Train

    fits = {
        "log": Fit(score="log"),
        "log + rank": Fit(score="log + 10*rank"),
        "energy": Fit(score="energy"),
        "moment": Fit(score="moment"),
        "local": Fit(form="local", score="log"),
        "interval": Fit(form="interval", score="interval"),
    }
    if quick:
        return Config(
            Simulate("two_moons", 2_000, 500, 500, seed=1),
            Train(members=4, epochs=10),
            Tabulate(draws=100, keep_draws=True),
            fits,
        )
    return Config(
        Simulate("two_moons", 10_000, 1_000, 2_000, seed=1),
        Train(members=16, epochs=100),
        Tabulate(draws=200, keep_draws=True),
        fits,
    )


@contextmanager
def _stage(number: int, name: str, text: str) -> Iterator[None]:
    """Print a line for a stage, and the seconds it took; print nothing with `--json`."""
    silent = click.get_current_context().meta.get(JSON, False)
    start = time.perf_counter()
    if not silent:
        click.echo(f"{number}/6 {click.style(f'{name:<10}', bold=True)}{text}")
    yield
    if not silent:
        click.echo(f"{'':14}{time.perf_counter() - start:.1f} s")
