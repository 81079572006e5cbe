"""Files that version 0.1 wrote are still read, and its interrupted work continues."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import drystone as ds
from drystone.cli.stack import fit_all
from drystone.runs import Run, stages


@pytest.fixture
def old(tmp_path):
    """What version 0.1 wrote: a finished run, a fit of each form, tables, and three interrupted directories."""
    shutil.unpack_archive(Path(__file__).parent / "data" / "written_by_0.1.zip", tmp_path)
    return tmp_path


def contents(directory):
    skipped = {".lock", "log.jsonl", "timings.jsonl"}
    files = [path for path in sorted(directory.rglob("*")) if path.is_file() and path.name not in skipped]
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.parametrize("form", ["mixture", "local", "sample", "interval"])
def test_a_fit_has_its_loss_again(old, form):
    fit, table = ds.Stacking.load(old / "fits" / f"{form}.json"), ds.toy.table(40, seed=3, draws=9)
    # Version 0.1 read quantiles off draws by NumPy's default.
    levels = (0.05, 0.15, 0.85, 0.95)
    quantiles = {level: np.quantile(table.draws, level, axis=2) for level in levels}
    table = ds.Table(
        table.theta, table.y, log_q=table.log_q, draws=table.draws, names=table.names, quantiles=quantiles
    )
    assert fit.evaluate(table)["loss"] == pytest.approx(fit.loss, rel=1e-9)


@pytest.mark.parametrize("suffix", ["zarr", "nc"])
def test_a_table_has_its_arrays_again(old, suffix):
    table, expected = ds.Table.load(old / f"table.{suffix}"), ds.toy.table(40, seed=3, draws=9)
    expected = expected.select(rows=slice(0, 7))
    assert table.names == expected.names
    for name in ("theta", "y", "log_q", "draws", "rank", "mean"):
        np.testing.assert_allclose(getattr(table, name), getattr(expected, name), err_msg=name)


def test_a_finished_run_is_left_as_it_is(old):
    run = Run(old / "run")
    before, config = contents(run.path), run.config
    with run.opened():
        stages.simulate(run, config)
        ensemble = stages.train(run, config, workers=1)
        stages.tabulate(run, config)
        fit_all(run, config, config.fits)
    assert ensemble.names == ("maf-000", "maf-001")
    assert contents(run.path) == before


def test_a_run_trains_on_with_more_members(old):
    run = Run(old / "run")
    before = contents(run.members)
    config = replace(run.config, train=replace(run.config.train, members=3))
    with run.opened():
        stages.train(run, config, workers=1)
    after = contents(run.members)
    assert {name: after[name] for name in before} == before
    assert "maf-002.json" in after


def test_interrupted_simulations_continue(old):
    task, simulated = ds.tasks.get("two_moons"), []

    class Watched(type(task)):
        def simulate(self, theta, rng):
            simulated.append(len(theta))
            return super().simulate(theta, rng)

    found = ds.simulate(Watched(), n=30, seed=1, directory=old / "interrupted_simulate", block=10)
    expected = ds.simulate(task, n=30, seed=1, block=10)
    assert sum(simulated) == 10
    np.testing.assert_allclose(found.y, expected.y)


def test_interrupted_training_continues(old):
    directory = old / "interrupted_train"
    before, simulations = contents(directory), ds.simulate(ds.tasks.get("two_moons"), n=40, seed=1)
    ensemble = ds.train(
        simulations.theta, simulations.y, members=2, family="nsf", sweep=ds.Sweep(), seed=5,
        prior=ds.tasks.get("two_moons").prior, epochs=1, patience=20, validation=0.1, log_y=False, clip_y=6.0,
        directory=directory, workers=1,
    )  # fmt: skip
    assert ensemble.names == ("nsf-000", "nsf-001")
    assert {name: contents(directory)[name] for name in before} == before


def test_an_interrupted_tabulation_continues(old):
    class Forbidden:
        def log_prob(self, theta, y):
            raise AssertionError("this member was tabulated already")

        sample = log_prob

    theta, y = ds.toy.simulate(20, seed=2)
    members = {"right": Forbidden(), "left": ds.toy.MEMBERS["left"]}
    directory = old / "interrupted_tabulate"
    table = ds.tabulate(members, theta, y, draws=5, levels=(0.05, 0.95), seed=4, directory=directory, chunk=10)
    assert table.names == ("right", "left")
    np.testing.assert_allclose(table.log_q[0], ds.toy.MEMBERS["right"].log_prob(theta, y))
