"""`drystone tabulate`: every member on every simulation that none of them was trained on."""

from __future__ import annotations

from pathlib import Path

from drystone.cli.command import (
    cluster_client,
    cluster_option,
    configuration,
    force_option,
    run_argument,
    say,
    setting,
    verb,
    workers_option,
)
from drystone.runs.config import Tabulate


@verb(
    ("drystone tabulate moons", "densities, ranks, moments and quantiles of each"),
    ("drystone tabulate moons --draws 200 --keep-draws", "and draws: energy scores, aggregated samples need them"),
)
@run_argument
@setting(Tabulate, "draws", type=int, help="Draws per member and simulation.")
@setting(Tabulate, "keep_draws", "--keep-draws/--no-keep-draws", help="Whether the draws stay in the table.")
@setting(Tabulate, "seed", type=int, help="Seed of the draws.")
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
    """Evaluate members on unseen rows: writes table.zarr.

    They are evaluated on the stacking and the test rows, which none was trained on.
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
