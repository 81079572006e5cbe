"""`drystone train`: an ensemble of neural posteriors, or of likelihoods."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

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
from drystone.runs.config import FAMILIES, SWEEPS, Train


@command(
    ("drystone train moons --members 16 --family nsf", "sixteen spline flows with hyperparameters from the sweep"),
    ("drystone train moons --members 32", "sixteen more members; the finished ones are not trained again"),
    (
        "drystone train moons --cluster tcp://10.0.0.5:8786",
        "on a Dask cluster; see docs/cluster.md",
    ),
    (
        "drystone train moons --target likelihood",
        "likelihoods, beside the posteriors, with their own settings and defaults",
    ),
    ("drystone train moons --epochs 100 --force", "train all of them again with other settings"),
)
@run_argument
@click.option(
    "--target",
    type=click.Choice(("posterior", "likelihood")),
    default="posterior",
    show_default=True,
    help="Posteriors in members/, or likelihoods in likelihoods/.",
)
@setting(Train, "members", type=int, help="Number of members.")
@setting(Train, "family", type=click.Choice(FAMILIES), help="Affine or spline transforms.")
@setting(Train, "sweep", type=click.Choice(SWEEPS), help="Ranges of the hyperparameters.")
@setting(Train, "epochs", type=int, help="Maximum number of epochs.")
@setting(Train, "patience", type=int, help="Epochs without improvement before the next drop, or the end.")
@setting(Train, "lr_drops", type=int, help="Times that the learning rate is lowered.")
@setting(Train, "seed", type=int, help="Seed of training.")
@workers_option
@cluster_option
@trust_option
@force_option
def train(
    directory: Path,
    target: Literal["posterior", "likelihood"],
    members: int | None,
    family: str | None,
    sweep: str | None,
    epochs: int | None,
    patience: int | None,
    lr_drops: int | None,
    seed: int | None,
    workers: int | None,
    cluster: str | None,
    trust: bool,
    force: bool,
) -> None:
    """Train members on the training rows: writes members/ or likelihoods/.

    Each member is written when it is finished. A killed training continues with the missing members and ends with
    the same files. The options are stored in config.toml: those of posteriors in [train], those of likelihoods in
    [likelihoods], whose default is both families in turn.
    """
    from drystone.runs import Run, stages

    run = Run(directory)
    changes = {"members": members, "family": family, "epochs": epochs, "patience": patience, "seed": seed}
    with run.opened(), cluster_client(cluster, workers) as client:
        config = configuration(run)
        if target == "likelihood":
            if sweep is not None or lr_drops is not None:
                raise click.UsageError(
                    "--sweep and --lr-drops are for posteriors; likelihoods have a sweep and drops of their own."
                )
            path, config = run.likelihoods, config.changed("likelihoods", **changes)
        else:
            path, config = run.members, config.changed("train", sweep=sweep, lr_drops=lr_drops, **changes)
        ensemble = stages.train(
            run, config, target=target, workers=workers, client=client, force=force, trust=trust
        )
    losses = {name: min(ensemble[k].history.validation) for k, name in enumerate(ensemble.names)}
    text = f"{path}: {counted(len(ensemble), 'member')}"
    if ensemble.diverged:
        text += f", {len(ensemble.diverged)} diverged and left out"
    if losses:
        best = min(losses, key=losses.__getitem__)
        text += f"; lowest validation loss {losses[best]:.3f} ({best})"
    print_result(
        text,
        path=path,
        members=ensemble.names,
        diverged=ensemble.diverged,
        validation_loss=losses,
    )
