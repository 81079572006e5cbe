"""`drystone simulate`: parameters from the prior, data from the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drystone._messages import counted
from drystone.cli.command import (
    cluster_client,
    cluster_option,
    command,
    configuration,
    force_option,
    print_result,
    run_argument,
    setting,
    trust_option,
    workers_option,
)
from drystone.runs.config import Simulate

if TYPE_CHECKING:
    from drystone.runs import Config


@command(
    (
        "drystone simulate moons --task two_moons",
        "13,000 simulations: 10,000 to train, 1,000 to stack, 2,000 to test",
    ),
    (
        "drystone simulate moons --train 50000 --workers 8 --force",
        "again with more rows, of the task in config.toml, in eight processes",
    ),
    (
        "drystone simulate mine --theta theta.npy --y y.npy --train 4000 --stack 500",
        "import simulations made elsewhere, (N, d) and (N, m); the remaining rows are for testing",
    ),
)
@run_argument
@click.option("--task", help="A name of `drystone tasks`, or module:object for a task of your own.")
@setting(Simulate, "train", type=int, help="Rows to train on.")
@setting(Simulate, "stack", type=int, help="Rows to fit weights to.")
@setting(Simulate, "test", type=int, help="Rows to test on.")
@setting(Simulate, "seed", type=int, help="Seed of the simulations.")
@click.option("--theta", type=click.Path(path_type=Path), help="Parameters of simulations made elsewhere (.npy).")
@click.option("--y", type=click.Path(path_type=Path), help="Their data (.npy), one row per simulation.")
@workers_option
@cluster_option
@trust_option
@force_option
def simulate(
    directory: Path,
    task: str | None,
    train: int | None,
    stack: int | None,
    test: int | None,
    seed: int | None,
    theta: Path | None,
    y: Path | None,
    workers: int | None,
    cluster: str | None,
    trust: bool,
    force: bool,
) -> None:
    """Simulate, or import simulations: writes simulations.zarr.

    The rows to train on come first, then those to stack on, then those to test on. A killed simulation continues
    with the blocks that are missing.
    """
    from drystone.runs import Run, stages
    from drystone.runs.imported import import_arrays, read_arrays
    from drystone.runs.task import load_task

    if (theta is None) != (y is None):
        raise click.UsageError("--theta and --y must be given together.")
    run = Run(directory)
    trust = trust or task is not None  # the name was typed

    def settings() -> Config:
        return configuration(run).changed("simulate", task=task, train=train, stack=stack, test=test, seed=seed)

    # Before the directory is made, so that a wrong name leaves none.
    files = None if theta is None or y is None else read_arrays(theta, y, settings().simulate)
    if files is None and not run.path.exists():
        load_task(settings(), trust)
    with run.opened(create=True), cluster_client(cluster, workers) as client:
        config = settings()
        if files is not None:
            simulations = import_arrays(run, config, *files, force=force)
        else:
            simulations = stages.simulate(
                run, config, workers=workers or 1, client=client, force=force, trust=trust
            )
    (rows, d), m = simulations.theta.shape, simulations.y.shape[1]
    failed = sum(simulations.left_out.values())
    print_result(
        f"{run.simulations}: {counted(rows, 'simulation')} of {counted(d, 'parameter')} "
        f"and {counted(m, 'data value')}" + (f"; {failed} failed and are left out" if failed else ""),
        path=run.simulations,
        rows=rows,
        parameters=d,
        data=m,
        failed=failed,
    )
