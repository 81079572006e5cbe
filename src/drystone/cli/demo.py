"""`drystone demo`: `drystone infer` on Two Moons, whose exact posterior is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from drystone.cli.command import JSON, command, command_line, workers_option

if TYPE_CHECKING:
    from drystone.runs import Config


@command(
    ("drystone demo", "in ./drystone-demo; some minutes on two cores"),
    ("drystone demo /tmp/moons --quick", "smaller and faster, with a worse posterior"),
)
@click.argument("directory", default="drystone-demo", metavar="[DIR]", type=click.Path(path_type=Path))
@click.option("--quick", is_flag=True, help="Fewer simulations, members and epochs.")
@workers_option
def demo(directory: Path, quick: bool, workers: int | None) -> None:
    """Simulate a small problem, infer its posterior, and report.

    Posteriors and likelihoods are trained, stacked, trained again on all simulations, and compared on simulations
    that had no part in any of it.

    Two Moons has an exact posterior, so the last lines give the gain of stacking and the gain that is still
    possible, in nats. The demo may be killed at any time: the same command continues it and ends with the same
    numbers.
    """
    import numpy as np

    import drystone as ds
    from drystone.cli.comparison_table import render
    from drystone.cli.infer import evaluate, print_inference, rows_of_run
    from drystone.runs import Run, stages
    from drystone.runs.run import INFERENCE
    from drystone.runs.task import load_task

    size = settings(quick)
    config, run = size.config, Run(directory)
    rows = config.simulate
    with run.opened(create=True):
        if run.config_file.exists() and run.config != config:
            raise ValueError(
                f"{run.config_file} is not the configuration of this demo and is not overwritten; give another "
                "directory."
            )
        run.check_tree(run.path / INFERENCE)
        task = load_task(config)
        n = rows.train + rows.stack + rows.test
        with _stage(1, "simulate", f"{n:,} draws from the prior of {rows.task}, each with its data"):
            simulations = stages.simulate(run, config)
        flows = f"{size.members} of each kind, posteriors and likelihoods, on {n - rows.test:,} of them"
        with _stage(2, "infer", f"{flows} (the first training on a machine compiles for some seconds)"):
            used, test = rows_of_run(simulations, config)
            inference = ds.infer(
                *used,
                prior=task.prior,
                test=test,
                members=size.members,
                epochs=size.epochs,
                directory=run.path / INFERENCE,
                parameters=task.parameters,
                workers=workers,
            )
        with _stage(3, "report", f"on the other {rows.test:,}, beside the exact posterior"):
            measured = inference.measured
            evaluation = evaluate(inference, task.log_posterior(measured.theta, np.asarray(measured.y, float)))
            inference.report(
                run.report, exact=evaluation.exact, task=task, title="Demo: Two Moons", command=command_line()
            )
    print_inference(inference, evaluation, render(evaluation), run.report)


@dataclass(frozen=True)
class Size:
    """The simulations of the demo (written to `config.toml`), and how much is trained."""

    config: Config
    members: int
    epochs: int


def settings(quick: bool = False) -> Size:
    """Return the size of the demo."""
    from drystone.runs.config import Config, Simulate

    if quick:
        return Size(Config(Simulate("two_moons", 1_800, 200, 200, seed=1)), members=2, epochs=20)
    return Size(Config(Simulate("two_moons", 8_000, 1_000, 500, seed=2)), members=4, epochs=1000)


@contextmanager
def _stage(number: int, name: str, text: str) -> Iterator[None]:
    """Print a line for a stage, and the seconds it took; print nothing with `--json`."""
    silent = click.get_current_context().meta.get(JSON, False)
    start = time.perf_counter()
    if not silent:
        click.echo(f"{number}/3 {click.style(f'{name:<10}', bold=True)}{text}")
    yield
    if not silent:
        click.echo(f"{'':14}{time.perf_counter() - start:.1f} s")
