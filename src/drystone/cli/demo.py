"""`drystone demo`: the whole way on Two Moons, whose exact posterior is known."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drystone.cli.command import JSON, say, verb, workers_option

if TYPE_CHECKING:
    from drystone.runs import Config


@verb(
    ("drystone demo", "in ./drystone-demo; two to three minutes on two cores"),
    ("drystone demo /tmp/moons --quick", "smaller: half a minute, and a worse posterior"),
)
@click.argument("directory", default="drystone-demo", metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="Fewer simulations, members and epochs.")
@workers_option
def demo(directory: Path, quick: bool, workers: int | None) -> None:
    """Go the whole way on a small problem.

    Simulate, train, tabulate, stack, compare and report, in front of your eyes.

    Two Moons has an exact posterior, so the last lines say in nats what stacking has gained and what is left to
    gain. Kill it whenever you like: the same command continues, and ends with the same numbers.
    """
    from drystone.cli.comparison_table import render
    from drystone.cli.report_of_run import report_of_run
    from drystone.cli.stack import fit_all
    from drystone.runs import Run, stages
    from drystone.runs.evaluation import evaluate

    config = settings(quick)
    home = Run(directory)
    asked = config.simulate
    with home.opened(create=True):
        if home.config_file.exists() and home.config != config:
            raise ValueError(f"{home.config_file} is not that of this demo, and is kept; give another directory.")
        n = asked.train + asked.stack + asked.test
        with _stage(1, "simulate", f"{n:,} draws from the prior of {asked.task}, each with its data"):
            drawn = stages.simulate(home, config)
        flows = f"{config.train.members} spline flows on {asked.train:,} of them"
        with _stage(2, "train", f"{flows} (the first time ever this compiles for 20 s)"):
            ensemble = stages.train(home, config, drawn=drawn, workers=workers)
        with _stage(3, "tabulate", f"what each says of the {asked.stack + asked.test:,} that none has seen"):
            table = stages.tabulate(home, config, drawn=drawn, ensemble=ensemble)
        with _stage(4, "stack", f"weights from {asked.stack:,} of these, for: {', '.join(config.fits)}"):
            fits = fit_all(home, config, config.fits, table=table)
        with _stage(5, "compare", f"on the other {asked.test:,}, which nothing was fitted to"):
            evaluation = evaluate(home, config, exact=True, table=table, fits=fits)
        with _stage(6, "report", "all of it, with pictures"):
            command = ["drystone", "demo", str(directory), *(["--quick"] if quick else [])]
            report_of_run(home, config, evaluation, shlex.join(command))
    say(
        f"\n{render(evaluation)}\n\n{click.style(evaluation.verdict, bold=True)}\nReport: {home.report.resolve()}",
        run=home.path,
        report=home.report,
        verdict=evaluation.verdict,
        metrics=evaluation.comparison.frame.to_dict("records"),
        nats_from_exact={name: asdict(gap) for name, gap in evaluation.gaps.items()},
    )


def settings(quick: bool = False) -> Config:
    """The demo's configuration: what `config.toml` of its directory says."""
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
def _stage(number: int, name: str, words: str) -> Iterator[None]:
    """Announce a stage, and say how long it took; silent when the answer is for a machine."""
    silent = click.get_current_context().meta.get(JSON, False)
    begun = time.perf_counter()
    if not silent:
        click.echo(f"{number}/6 {click.style(f'{name:<10}', bold=True)}{words}")
    yield
    if not silent:
        click.echo(f"{'':14}{time.perf_counter() - begun:.1f} s")
