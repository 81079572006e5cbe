"""`drystone infer`: from simulations to one posterior, with all stages in one command."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from drystone._defaults import LOG_Y, MEMBERS_OF_A_KIND
from drystone.cli.command import (
    cluster_client,
    cluster_option,
    command,
    command_line,
    configuration,
    print_result,
    run_argument,
    trust_option,
    workers_option,
)

if TYPE_CHECKING:
    import numpy as np

    from drystone.inference import Inference
    from drystone.runs import Config
    from drystone.runs.evaluation import Evaluation
    from drystone.simulation import Simulations


@command(
    ("drystone infer moons", "of the simulations in moons/: members, weights and moons/inference/report.html"),
    ("drystone infer moons --minutes 10 --at observed.npy", "in ten minutes, with the posterior at your data"),
    (
        "drystone infer mine --theta theta.npy --y y.npy --lower=0,-1 --upper=2,1 --parameters a,b",
        "of simulations made elsewhere, (N, d) and (N, m), with a uniform prior",
    ),
)
@run_argument
@click.option("--theta", type=click.Path(path_type=Path), help="Parameters of simulations made elsewhere (.npy).")
@click.option("--y", type=click.Path(path_type=Path), help="Their data (.npy), one row per simulation.")
@click.option("--lower", help="Lower bounds of a uniform prior, separated by commas.")
@click.option("--upper", help="Upper bounds of a uniform prior.")
@click.option("--parameters", help="Names of the parameters, separated by commas.")
@click.option("--at", type=click.Path(path_type=Path), help="Observed data (.npy), to show the posterior at.")
@click.option("--minutes", type=click.FloatRange(min=0, min_open=True), help="Time to aim at.")
@click.option("--members", type=click.IntRange(1), help=f"Members of each kind, at most.  [{MEMBERS_OF_A_KIND}]")
@click.option("--likelihoods", type=click.IntRange(1), help="Likelihoods, if not as many as posteriors.")
@click.option(
    "--target",
    type=click.Choice(("both", "posterior", "likelihood")),
    default="both",
    show_default=True,
    help="Kind of members.",
)
@click.option(
    "--log-y/--no-log-y", default=None, help="Take logarithms of the data.  [where their tails are heavy]"
)
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Seed of everything random.")
@workers_option
@cluster_option
@trust_option
def infer(
    directory: Path,
    theta: Path | None,
    y: Path | None,
    lower: str | None,
    upper: str | None,
    parameters: str | None,
    at: Path | None,
    minutes: float | None,
    members: int | None,
    likelihoods: int | None,
    target: str,
    log_y: bool | None,
    seed: int,
    workers: int | None,
    cluster: str | None,
    trust: bool,
) -> None:
    """Train, stack, refit, compare and report in one go: writes RUN/inference/.

    Of a run, the training and the stacking rows are used, and the test rows are kept to compare on. Of files, all
    rows are used, and the comparison is cross-fitted. A killed inference continues when the same command is called
    again, and ends with the same numbers; with --minutes, the members that finish in time depend on the machine.
    """
    import drystone as ds
    from drystone._arrays import rows_of_data
    from drystone.cli.comparison_table import render
    from drystone.inference.inputs import one_row
    from drystone.runs import Run, outputs
    from drystone.runs.imported import read_npy
    from drystone.runs.run import INFERENCE
    from drystone.runs.task import load_task, parameters_of, prior_of

    if (theta is None) != (y is None):
        raise click.UsageError("--theta and --y must be given together.")
    if theta is not None and (lower is None or upper is None):
        raise click.UsageError("--theta and --y need the prior: the bounds --lower and --upper of a uniform one.")
    if theta is None and not (lower is upper is parameters is None):
        raise click.UsageError("--lower, --upper and --parameters are for simulations made elsewhere (--theta).")
    observation = None if at is None else read_npy(at)
    # Before the directory is made, so that a wrong name leaves none.
    files = None if theta is None or y is None else (read_npy(theta), read_npy(y))
    run = Run(directory)
    with run.opened(create=files is not None), cluster_client(cluster, workers) as client:
        run.check_tree(run.path / INFERENCE)
        test, task = None, None
        if files is not None:
            simulations = files
            prior, names = bounds(lower, upper), _names(parameters)
        else:
            config = configuration(run)
            loaded = outputs.load_simulations(run, config)
            simulations, test = rows_of_run(loaded, config)
            prior = prior_of(config, trust)
            names = parameters_of(config, loaded, trust)
            task = load_task(config, trust) if config.simulate.task else None
        if observation is not None:  # now rather than after the training
            observation = one_row("at", observation, rows_of_data("y", simulations[1]))
        inference = ds.infer(
            *simulations,
            prior=prior,
            test=test,
            minutes=minutes,
            members=(members or MEMBERS_OF_A_KIND, likelihoods or members or MEMBERS_OF_A_KIND),
            target=target,  # pyright: ignore[reportArgumentType]  (click has checked it)
            seed=seed,
            directory=run.path / INFERENCE,
            parameters=names,
            log_y=LOG_Y if log_y is None else log_y,
            workers=workers,
            client=client,
        )
        if files is not None and not run.config_file.exists():
            # So that later commands know the prior: now that it is known to be that of the simulations.
            low, high = bounds(lower, upper)
            run.config.changed("train", lower=tuple(low), upper=tuple(high)).write(run.config_file)
        evaluation = evaluate(inference, None)
        report = inference.report(
            run.path / INFERENCE / "report.html",
            at=observation,
            title=f"Inference: {task.name if task is not None else run.path.resolve().name}",
            command=command_line(),
        )
    print_inference(inference, evaluation, render(evaluation), report)


def evaluate(inference: Inference, exact: np.ndarray | None) -> Evaluation:
    """Return the inference on its test rows, or cross-fitted, beside the exact posterior if that is known."""
    from drystone.comparison import gap_to_exact
    from drystone.runs.evaluation import Evaluation

    comparison, measured = inference.comparison, inference.measured
    gaps = {} if exact is None else gap_to_exact(exact, measured, comparison.fits, comparison.best)
    return Evaluation(inference.table, measured, comparison, exact, gaps)


def print_inference(inference: Inference, evaluation: Evaluation, table: str, report: Path) -> None:
    """Print the comparison, the verdict and where the report is."""
    from dataclasses import asdict

    notes = "".join(f"{note}\n" for note in inference.notes)
    print_result(
        f"\n{table}\n\n{notes}{click.style(evaluation.verdict, bold=True)}\nReport: {report.resolve()}",
        report=report,
        verdict=evaluation.verdict,
        notes=inference.notes,
        weights=inference.fit.member_weights,
        metrics=evaluation.comparison.frame.to_dict("records"),
        nats_from_exact={name: asdict(gap) for name, gap in evaluation.gaps.items()},
    )


def rows_of_run(
    simulations: Simulations, config: Config
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return the simulations of a run to train and stack on, and those to test on."""
    first = simulations.row < config.simulate.train + config.simulate.stack
    return (simulations.theta[first], simulations.y[first]), (simulations.theta[~first], simulations.y[~first])


def bounds(lower: str | None, upper: str | None) -> tuple[list[float], list[float]]:
    """Return the bounds of a uniform prior, as they were typed."""
    return _numbers("--lower", lower), _numbers("--upper", upper)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",")]


def _numbers(option: str, text: str | None) -> list[float]:
    try:
        return [float(number) for number in (text or "").split(",")]
    except ValueError:
        raise click.UsageError(f"{option} must be numbers separated by commas; got {text!r}.") from None
