"""`drystone sample`: draws from the stacked posterior."""

from __future__ import annotations

from pathlib import Path

import click

from drystone.cli.command import command, configuration, print_result, run_argument, trust_option, waiting


@command(
    ("drystone sample moons --at observed.npy --out draws.npz", "1000 draws at the data in a file"),
    ("drystone sample moons --row 3 --fit log --draws 5000 --out draws.npz", "at the data of the 4th test row"),
)
@run_argument
@click.option(
    "--at", "--x", "x", type=click.Path(path_type=Path), help="Observed data, (m,) or (1, m), in a .npy file."
)
@click.option("--row", type=click.IntRange(0), help="Or a test row of the run, counted from 0.")
@click.option("--fit", "name", help="Name of the fit.  [the first of config.toml whose file exists]")
@click.option("--draws", default=1000, show_default=True, type=click.IntRange(1), help="Number of draws.")
@click.option("--seed", default=0, show_default=True, help="Seed of the draws.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The .npz file to write.")
@trust_option
def sample(
    directory: Path,
    x: Path | None,
    row: int | None,
    name: str | None,
    draws: int,
    seed: int,
    out: Path,
    trust: bool,
) -> None:
    """Draw from the stacked posterior of a fit or, in a run without fits, of RUN/inference/.

    For one observation, writes an .npz file that holds `draws` (S, d), `x`, the names of the `parameters` and,
    with --row, the true `theta`.
    """
    import numpy as np

    from drystone._files import replacing
    from drystone._messages import unknown
    from drystone.cli.tables import is_table
    from drystone.inference.stored import stored_posterior, stored_tables
    from drystone.runs import Run, outputs
    from drystone.runs.imported import read_npy
    from drystone.runs.run import INFERENCE
    from drystone.runs.task import prior_of, with_prior

    if (x is None) == (row is None):
        raise click.UsageError("give either --at or --row.")
    if is_table(directory):
        raise click.UsageError(f"{directory} is a table, which has no members to draw from; give a run.")
    run = Run(directory)
    run.check_exists()
    config = configuration(run)
    fits = [each for each in config.fits if run.fit(each).exists()]
    inferred = name is None and not fits and (run.path / INFERENCE).is_dir()
    if name is None:
        name = INFERENCE if inferred else (fits or list(config.fits))[0]
    elif name not in config.fits:
        raise ValueError(unknown("fit", name, config.fits))
    if inferred:
        run.check_tree(run.path / INFERENCE)
        fit, posterior = stored_posterior(run.path / INFERENCE, prior_of(config, trust))
    else:
        fit = with_prior(outputs.load_fits(run, config, [name])[name], config, trust)
        if not any((*run.members.glob("*.json"), *run.likelihoods.glob("*.json"))):
            raise ValueError(
                f"{run.path} has no members to draw from. In Python, with your own members: "
                f'ds.Stacking.load("{run.fit(name)}").posterior(members).sample(...).'
            )
        posterior = fit.posterior(outputs.load_stacked_members(run, config, trust))
    arrays = {}
    if x is not None:
        observed = read_npy(x).squeeze()
    else:
        _, test = stored_tables(run.path / INFERENCE) if inferred else outputs.load_split(run, config)
        if test.y is None:
            raise ValueError(f"{run.table} holds no data `y`, which --row needs; give the data with --at.")
        if row is None or row >= test.N:
            raise ValueError(f"--row must be below {test.N}, the number of test rows; got {row}.")
        observed, arrays["theta"] = np.asarray(test.y)[row], test.theta[row]
    with waiting("drawing"):
        theta = posterior.sample((draws,), x=observed, seed=seed)
    arrays |= {"draws": theta, "x": observed, "parameters": np.array(fit.parameters)}
    with replacing(out) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)
    mean, deviation = theta.mean(0), theta.std(0)
    lines = [
        f"  {parameter:<16}{m: .4g} ± {s:.2g}"
        for parameter, m, s in zip(fit.parameters, mean, deviation, strict=True)
    ]
    print_result(
        "\n".join([f"{out}: {draws} draws of the stacked posterior ({name}); mean ± standard deviation", *lines]),
        path=out,
        fit=name,
        draws=draws,
        mean=dict(zip(fit.parameters, mean.tolist(), strict=True)),
        standard_deviation=dict(zip(fit.parameters, deviation.tolist(), strict=True)),
    )
