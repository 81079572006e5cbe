"""`drystone tabulate`: the statistics of every member on the simulations that are not training rows."""

from __future__ import annotations

from pathlib import Path

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
from drystone.runs.config import Tabulate


@command(
    ("drystone tabulate moons", "densities, ranks, moments and quantiles of each"),
    (
        "drystone tabulate moons --draws 200 --keep-draws",
        "also the draws, for energy scores and aggregated samples",
    ),
)
@run_argument
@setting(Tabulate, "draws", type=int, help="Draws per member and simulation.")
@setting(Tabulate, "keep_draws", "--keep-draws/--no-keep-draws", help="Store the draws in the table.")
@setting(Tabulate, "points", type=int, help="Shared points per simulation, for --form product.")
@setting(Tabulate, "seed", type=int, help="Seed of the draws.")
@workers_option
@cluster_option
@trust_option
@force_option
def tabulate(
    directory: Path,
    draws: int | None,
    keep_draws: bool | None,
    points: int | None,
    seed: int | None,
    workers: int | None,
    cluster: str | None,
    trust: bool,
    force: bool,
) -> None:
    """Evaluate members on held-out rows: writes table.zarr.

    The members are evaluated on the stacking and the test rows, on which none was trained. All members in members/
    take part: remove a member's files to leave it out. Those in likelihoods/ take part as posteriors, normalized
    at points that the stacked posteriors propose (normalizer.json).
    """
    from drystone.runs import Run, stages

    run = Run(directory)
    with run.opened(), cluster_client(cluster, workers) as client:
        settings = {"draws": draws, "keep_draws": keep_draws, "points": points, "seed": seed}
        config = configuration(run).changed("tabulate", **settings)
        table = stages.tabulate(run, config, workers=workers or 1, client=client, force=force, trust=trust)
    print_result(
        f"{run.table}: {table}",
        path=run.table,
        members=table.names,
        simulations=table.N,
        parameters=table.parameters,
        gives=sorted(table.gives),
    )
