"""`drystone compare`: stacked against the best member and uniform weights."""

from __future__ import annotations

from pathlib import Path

import click

from drystone.cli.verb import configuration, say, verb


@verb(
    ("drystone compare moons", "the run's fits, judged on its test rows"),
    ("drystone compare moons --exact", "and against the exact posterior, if the task knows it"),
    ('drystone compare table.zarr --score log --score "log + 0.1*rank"', "half the rows to fit, half to judge"),
)
@click.argument("source", metavar="RUN|TABLE", type=click.Path(path_type=Path))
@click.option("--score", "scores", multiple=True, help="What to stack a table for; may be given again.  [log]")
@click.option("--seed", default=0, show_default=True, help="Seed that splits the rows of a table.")
@click.option("--exact", is_flag=True, help="Also measure the distance from the task's exact posterior, in nats.")
def compare(source: Path, scores: tuple[str, ...], seed: int, exact: bool) -> None:
    """Judge fits on rows that nothing was fitted to, with standard errors.

    The best member is chosen for each metric on the stacking rows; gains are paired.
    """
    from drystone.cli import objectives

    asked = {text: objectives.check_score(text) for text in scores}
    import drystone as ds
    from drystone.runs import Run, stages
    from drystone.runs.exact import distances, exact_log_density

    truth = None
    if source.suffix in (".zarr", ".nc"):
        if exact:
            raise click.UsageError("--exact is for runs, whose task is known.")
        validation, test = ds.Table.load(source).split(0.5, seed=seed)
        fits = {text: ds.stack(validation, score=objectives.score(text)) for text in asked} or None
    else:
        if scores:
            raise click.UsageError("--score is for tables; a run's fits are made by `drystone stack`.")
        home = Run(source)
        with home.opened():
            config = configuration(home)
            validation, test = stages.split(home, config)
            fits = stages.fits(home, config)
            truth = exact_log_density(stages.task(config), test) if exact else None
    comparison = ds.compare(validation, test, fits)
    words, facts = str(comparison), {"test_rows": test.N, "metrics": comparison.frame.to_dict("records")}
    if truth is not None:
        gaps = distances(truth, comparison.fits, test)
        lines = [f"  {name:<32}{gap.mean:.4f} ± {gap.standard_error:.4f}" for name, gap in gaps.items()]
        words += "\n\n" + "\n".join(["nats from the exact posterior", *lines])
        facts["nats_from_exact"] = {name: gap._asdict() for name, gap in gaps.items()}
    say(words, left_out=comparison.left_out, **facts)
