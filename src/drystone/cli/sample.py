"""`drystone sample`: draws from the stacked posterior."""

from __future__ import annotations

from pathlib import Path

import click

from drystone.cli.command import configuration, run_argument, say, verb, waiting


@verb(
    ("drystone sample moons --x observed.npy --out draws.npz", "1000 draws given the data in a file"),
    ("drystone sample moons --row 3 --fit log --draws 5000 --out draws.npz", "given those of the 4th test row"),
)
@run_argument
@click.option("--x", type=click.Path(path_type=Path), help="The observed data, (m,) or (1, m), in a .npy file.")
@click.option("--row", type=click.IntRange(0), help="Or a test row of the run, counted from 0.")
@click.option("--fit", "name", help="Which of the run's fits.  [the first in config.toml that is made]")
@click.option("--draws", default=1000, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--seed", default=0, show_default=True, help="Seed of the draws.")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The .npz file to write.")
def sample(run: Path, x: Path | None, row: int | None, name: str | None, draws: int, seed: int, out: Path) -> None:
    """Draw from the stacked posterior.

    Given one observation, writes an .npz file that holds `draws` (S, d), `x`, the names of the `parameters` and,
    with --row, the true `theta`.
    """
    import numpy as np

    from drystone._files import replacing
    from drystone._messages import unknown
    from drystone.cli.tables import is_table
    from drystone.runs import Run, stages
    from drystone.runs.imported import read_npy

    if (x is None) == (row is None):
        raise click.UsageError("give either --x or --row.")
    if is_table(run):
        raise click.UsageError(f"{run} is a table, which has no members to draw from; give a run.")
    home = Run(run)
    home.check_exists()
    config = configuration(home)
    if name is None:
        name = next((each for each in config.fits if home.fit(each).exists()), next(iter(config.fits)))
    if name not in config.fits:
        raise ValueError(unknown("fit", name, config.fits))
    fit = stages.fits(home, config, [name])[name]
    arrays = {}
    if x is not None:
        observed = read_npy(x).squeeze()
    else:
        _, test = stages.split(home, config)
        if test.y is None:
            raise ValueError(f"{home.table} holds no data `y`, which --row needs; give the data with --x.")
        if row is None or row >= test.N:
            raise ValueError(f"--row must be below {test.N}, the number of test rows; got {row}.")
        observed, arrays["theta"] = np.asarray(test.y)[row], test.theta[row]
    if not any(home.members.glob("*.json")):
        raise ValueError(
            f"{home.path} has no members of its own to draw from. In Python, with those you have: "
            f'ds.Stacking.load("{home.fit(name)}").posterior(members).sample(...).'
        )
    ensemble = stages.members(home, config)
    posterior = fit.posterior(dict(zip(ensemble.names, ensemble, strict=True)))
    with waiting("drawing"):
        drawn = posterior.sample((draws,), x=observed, seed=seed)
    arrays |= {"draws": drawn, "x": observed, "parameters": np.array(fit.parameters)}
    with replacing(out) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)
    mean, spread = drawn.mean(0), drawn.std(0)
    lines = [
        f"  {parameter:<16}{m: .4g} ± {s:.2g}"
        for parameter, m, s in zip(fit.parameters, mean, spread, strict=True)
    ]
    say(
        "\n".join([f"{out}: {draws} draws of the stacked posterior ({name}); mean ± standard deviation", *lines]),
        path=out,
        fit=name,
        draws=draws,
        mean=dict(zip(fit.parameters, mean.tolist(), strict=True)),
        standard_deviation=dict(zip(fit.parameters, spread.tolist(), strict=True)),
    )
