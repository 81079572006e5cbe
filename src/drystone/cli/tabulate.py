"""`drystone tabulate`: what every member says of every simulation none of them was trained on."""

from __future__ import annotations

from pathlib import Path

import click

from drystone.cli.command import (
    cluster_client,
    cluster_option,
    configuration,
    force_option,
    run_argument,
    say,
    verb,
    workers_option,
)


@verb(
    ("drystone tabulate moons", "densities, ranks, moments, quantiles and 200 draws of each"),
    ("drystone tabulate moons --draws 1000 --no-keep-draws", "better statistics, smaller file"),
)
@run_argument
@click.option("--draws", type=int, help="Draws a member and simulation.  [200]")
@click.option("--keep-draws/--no-keep-draws", default=None, help="Whether the draws stay in the table.  [keep]")
@click.option("--seed", type=int, help="Seed of the draws.  [0]")
@workers_option
@cluster_option
@force_option
def tabulate(
    run: Path,
    draws: int | None,
    keep_draws: bool | None,
    seed: int | None,
    workers: int | None,
    cluster: str | None,
    force: bool,
) -> None:
    """Ask members about unseen rows: writes table.zarr.

    They are asked about the stacking and the test rows, which none was trained on.
    All members in members/ take part: remove a member's files to leave it out.
    """
    from drystone.runs import Run, stages

    home = Run(run)
    with home.opened(), cluster_client(cluster, workers) as client:
        config = configuration(home).changed("tabulate", draws=draws, keep_draws=keep_draws, seed=seed)
        table = stages.tabulate(home, config, workers=workers or 1, client=client, force=force)
    say(
        f"{home.table}: {table}",
        path=home.table,
        members=table.names,
        simulations=table.N,
        parameters=table.parameters,
        gives=sorted(table.gives),
    )
