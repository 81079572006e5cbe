"""`drystone train`: an ensemble of neural posteriors."""

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
    setting,
    verb,
    workers_option,
)
from drystone.runs.config import FAMILIES, SWEEPS, Train


@verb(
    ("drystone train moons --members 16 --family nsf", "sixteen spline flows with hyperparameters from the sweep"),
    ("drystone train moons --members 32", "sixteen more: those that are finished are kept"),
    (
        "drystone train moons --cluster tcp://10.0.0.5:8786",
        "on a Dask cluster; see docs/cluster.md",
    ),
    ("drystone train moons --epochs 100 --force", "train all of them again with other settings"),
)
@run_argument
@setting(Train, "members", type=int, help="How many.")
@setting(Train, "family", type=click.Choice(FAMILIES), help="Affine or spline transforms.")
@setting(Train, "sweep", type=click.Choice(SWEEPS), help="Hyperparameters' ranges.")
@setting(Train, "epochs", type=int, help="The most epochs.")
@setting(Train, "patience", type=int, help="Epochs without gain before stopping.")
@setting(Train, "seed", type=int, help="Seed of training.")
@workers_option
@cluster_option
@force_option
def train(
    run: Path,
    members: int | None,
    family: str | None,
    sweep: str | None,
    epochs: int | None,
    patience: int | None,
    seed: int | None,
    workers: int | None,
    cluster: str | None,
    force: bool,
) -> None:
    """Train members on the training rows: writes members/.

    Each member is written when it is finished; a killed training continues with those that are missing, and ends
    with the same files. The flags are kept in config.toml.
    """
    from drystone.runs import Run, stages

    home = Run(run)
    with home.opened(), cluster_client(cluster, workers) as client:
        config = configuration(home).changed(
            "train", members=members, family=family, sweep=sweep, epochs=epochs, patience=patience, seed=seed
        )
        ensemble = stages.train(home, config, workers=workers, client=client, force=force)
    losses = {name: min(ensemble[k].history.validation) for k, name in enumerate(ensemble.names)}
    words = f"{home.members}: {len(ensemble)} members"
    if ensemble.diverged:
        words += f", {len(ensemble.diverged)} diverged and left out"
    if losses:
        best = min(losses, key=losses.__getitem__)
        words += f"; lowest validation loss {losses[best]:.3f} ({best})"
    say(
        words,
        path=home.members,
        members=ensemble.names,
        diverged=ensemble.diverged,
        validation_loss=losses,
    )
