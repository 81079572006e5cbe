"""`drystone refine`: further simulations at one observation, and a posterior that is better there."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from drystone._defaults import FEWEST_NEW_SIMULATIONS, NEW_SIMULATIONS
from drystone.cli.command import (
    cluster_client,
    cluster_option,
    command,
    command_line,
    configuration,
    print_result,
    run_argument,
    trust_option,
    waiting,
    workers_option,
)
from drystone.cli.infer import bounds, rows_of_run

if TYPE_CHECKING:
    import numpy as np

    from drystone import Refinement, StackedPosterior, Stacking, Table
    from drystone.runs import Config, Run

# Draws that are written, before and after.
DRAWS = 10_000


@command(
    ("drystone refine moons --at observed.npy", "2,000 simulations at your data: moons/refined/observed/"),
    (
        "drystone refine mine --at observed.npy --simulator model:simulate --n 5000",
        "with the function simulate(theta, rng) of model.py, where the run holds imported simulations",
    ),
    (
        "drystone refine mine --at observed.npy --simulator model:simulate --theta theta.npy --y y.npy "
        "--lower=0,-1 --upper=2,1",
        "after `drystone infer mine --theta theta.npy …`, whose files the run does not hold",
    ),
)
@run_argument
@click.option("--at", type=click.Path(path_type=Path), required=True, help="The observation (.npy).")
@click.option("--simulator", help="module:function (theta, rng) -> y, or module:task.  [the task of the run]")
@click.option(
    "--n",
    default=NEW_SIMULATIONS,
    show_default=True,
    type=click.IntRange(FEWEST_NEW_SIMULATIONS),
    help="Further simulations.",
)
@click.option("--fit", "name", help="Name of the fit.  [the first of config.toml whose file exists]")
@click.option("--theta", type=click.Path(path_type=Path), help="Parameters of simulations made elsewhere (.npy).")
@click.option("--y", type=click.Path(path_type=Path), help="Their data (.npy).")
@click.option("--lower", help="Lower bounds of a uniform prior, separated by commas.")
@click.option("--upper", help="Upper bounds of a uniform prior.")
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of everything random.")
@workers_option
@cluster_option
@trust_option
def refine(
    directory: Path,
    at: Path,
    simulator: str | None,
    n: int,
    name: str | None,
    theta: Path | None,
    y: Path | None,
    lower: str | None,
    upper: str | None,
    seed: int,
    workers: int | None,
    cluster: str | None,
    trust: bool,
) -> None:
    """Simulate where the posterior at one observation is, and train and stack again.

    Begins with a fit of the run or, if there is none, with RUN/inference/. Writes RUN/refined/NAME/, with the name
    of the observation's file: the simulations, the members that were trained again, the fit, `draws.npz` with
    draws before and after, and `report.html`. A killed refinement continues when the same command is called again.
    """
    import drystone as ds
    from drystone.runs import Run, outputs
    from drystone.runs.imported import read_npy
    from drystone.runs.run import REFINED
    from drystone.runs.task import load_simulator, load_task, prior_of

    if (theta is None) != (y is None):
        raise click.UsageError("--theta and --y must be given together.")
    if (lower is None) != (upper is None):
        raise click.UsageError("--lower and --upper must be given together.")
    if at.stem in (".", ".."):  # names of directories, which its files would land in
        raise click.UsageError(f"--at must have a name that a directory can have; got {at.name!r}.")
    observed = read_npy(at)
    run = Run(directory)
    with run.opened(), cluster_client(cluster, workers) as client, run.timed("refine"):
        config = configuration(run)
        prior = bounds(lower, upper) if lower is not None else prior_of(config, trust)
        simulate = load_simulator(simulator) if simulator is not None else load_task(config, trust)
        if theta is not None and y is not None:
            simulations = read_npy(theta), read_npy(y)
        else:
            simulations = rows_of_run(outputs.load_simulations(run, config), config)[0]
        beginning = _beginning(run, config, name, simulations, prior, trust)
        home = run.path / REFINED / at.stem
        run.check_inside(run.path / REFINED)
        run.check_tree(home)
        refined = ds.refine(
            beginning.posterior,
            at=observed,
            simulator=simulate,
            n=n,
            simulations=simulations,
            prior=prior,
            seed=seed,
            directory=home,
            workers=workers,
            client=client,
        )
        _write_draws(refined, home, seed)
        with waiting("checking and drawing"):
            report = ds.report.write(
                home / "report.html",
                validation=beginning.validation,
                test=beginning.test,
                fits=beginning.fit,
                at=refined.at(simulator=simulate),
                title=f"Refinement: {at.stem}",
                notes=refined.notes,
                command=command_line(),
            )
    print_result(
        f"{refined}\nDraws: {home / 'draws.npz'}\nReport: {report.resolve()}",
        path=home,
        report=report,
        gain={"value": refined.gain.value, "se": refined.gain.se},
        posterior_sbc={"before": refined.calibration_before.p_value, "after": refined.calibration.p_value},
        weights=refined.fit.member_weights,
        notes=refined.notes,
    )


@dataclass(frozen=True)
class Beginning:
    """What a refinement begins with.

    Attributes:
        posterior: with the test rows as reference.
        fit: of all members.
        validation: the rows that it was made on.
        test: the rows that it is measured on.
    """

    posterior: StackedPosterior
    fit: Stacking
    validation: Table
    test: Table


def _beginning(
    run: Run,
    config: Config,
    name: str | None,
    simulations: tuple[np.ndarray, np.ndarray],
    prior: object,
    trust: bool,
) -> Beginning:
    """Return a fit of the run or, if there is none, its inference."""
    from drystone._messages import unknown
    from drystone.inference.stored import stored_posterior, stored_tables
    from drystone.runs import outputs
    from drystone.runs.run import INFERENCE
    from drystone.runs.task import with_prior

    names = [each for each in config.fits if run.fit(each).exists()]
    if name is not None and name not in names:
        raise ValueError(unknown("fit", name, names))
    if not names and (run.path / INFERENCE).is_dir():
        run.check_tree(run.path / INFERENCE)
        fit, posterior = stored_posterior(run.path / INFERENCE, prior, simulations)
        # The others would be evaluated at every new simulation.
        carrying = {m.name: m.posterior for m in posterior.members if m.name in fit.member_weights}
        posterior = fit.posterior(carrying)
        validation, test = stored_tables(run.path / INFERENCE)
    else:
        name = name or (names or list(config.fits))[0]
        fit = with_prior(outputs.load_fits(run, config, [name])[name], config, trust)
        members = outputs.load_stacked_members(run, config, trust)
        posterior = fit.posterior({each: members[each] for each in fit.member_weights})
        validation, test = outputs.load_split(run, config)
    reference = test.select(members=list(posterior.fit.names))
    return Beginning(replace(posterior, reference=reference), fit, validation, test)


def _write_draws(refined: Refinement, home: Path, seed: int) -> None:
    """Write draws before and after."""
    import numpy as np

    from drystone._files import replacing

    draws: dict[str, Any] = {
        "draws": refined.posterior.sample((DRAWS,), refined.y, seed=seed),
        "before": refined.before.sample((DRAWS,), refined.y, seed=seed),
        "x": refined.y,
        "parameters": np.array(refined.fit.parameters),
    }
    with replacing(home / "draws.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, **draws)
