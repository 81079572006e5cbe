"""Arrays in, weights out, with the core alone; whatever needs an extra says which one."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import drystone as ds
from helpers import extras

TESTS = Path(__file__).resolve().parents[1]
rng = np.random.default_rng(0)
THETA = rng.normal(size=(200, 1))
# Three normal members: one right, two off.
MEANS = np.array([0.0, 1.0, -2.0])
LOG_Q = -0.5 * (THETA[:, 0] - MEANS[:, None]) ** 2 - 0.5 * np.log(2 * np.pi)


@pytest.fixture(scope="module")
def tables():
    return ds.toy.table(300, seed=1), ds.toy.table(300, seed=2)


@pytest.fixture(scope="module")
def fit(tables):
    return ds.stack(tables[0])


def test_a_matrix_is_stacked():
    fit = ds.stack(ds.Table(THETA, log_q=LOG_Q))
    assert fit.weights.sum() == pytest.approx(1)
    assert fit.weights.argmax() == 0
    assert fit.gap < 1e-6


@pytest.mark.parametrize("score", ["EnergyScore", "IntervalScore", "LogScore", "MeanScore"])
def test_every_kind_of_score_is_solved(tables, score):
    assert np.isfinite(ds.stack(tables[0], score=getattr(ds, score)()).loss)


def test_a_fit_is_evaluated_and_compared(tables, fit):
    validation, test = tables
    assert fit.apply(test).log_q.shape == (300,)
    assert "log" in str(ds.compare(validation, test, {"log": fit}))


def test_a_posterior_is_made_of_members_in_memory(fit):
    posterior = fit.posterior(ds.toy.MEMBERS)
    assert posterior.sample((20,), x=[1.5], seed=0).shape == (20, 1)
    assert np.isfinite(posterior.log_prob([[0.3]], x=[1.5])).all()


def test_a_hybrid_is_tuned(tables):
    tuned = ds.tune(tables[0], lambda lam: ds.LogScore() + lam * ds.RankCvM(), [0.0, 10.0], folds=2)
    assert tuned.value in (0.0, 10.0)


def test_members_are_tabulated(tables):
    table = ds.tabulate(ds.toy.MEMBERS, tables[0].theta, tables[0].y, draws=20)
    np.testing.assert_allclose(table.log_q, tables[0].log_q)


def test_a_fit_is_saved_and_loaded(fit, tmp_path):
    fit.save(tmp_path / "fit.json")
    np.testing.assert_array_equal(ds.Stacking.load(tmp_path / "fit.json").weights, fit.weights)


def test_a_task_is_simulated():
    theta, y = ds.simulate(ds.tasks.get("slcp"), n=50, seed=1)
    assert theta.shape == (50, 5)
    assert y.shape == (50, 8)


def test_no_library_of_an_extra_was_imported():
    assert extras.ALL.isdisjoint(sys.modules)


NEEDS = {
    "Table.save .zarr": ("files", lambda fit, table, path: table.save(path / "table.zarr")),
    "Table.save .nc": ("files", lambda fit, table, path: table.save(path / "table.nc")),
    "Table.load": ("files", lambda fit, table, path: ds.Table.load(path / "table.zarr")),
    "Table.open": ("files", lambda fit, table, path: ds.Table.open(path / "table.zarr")),
    "Table.create": ("files", lambda fit, table, path: ds.Table.create(path / "t.zarr", rows=1, names=["a"])),
    "Table.to_xarray": ("files", lambda fit, table, path: table.to_xarray()),
    "simulate in a directory": ("files", lambda *a: ds.simulate(ds.tasks.get("slcp"), n=5, directory=a[-1])),
    "tabulate in a directory": (
        "files",
        lambda fit, table, path: ds.tabulate(ds.toy.MEMBERS, table.theta, table.y, directory=path),
    ),
    "to_file .zarr": ("files", lambda fit, table, path: ds.adapters.to_file(path / "m.zarr", log_q=LOG_Q[0])),
    "to_file .h5": ("files", lambda fit, table, path: ds.adapters.to_file(path / "m.h5", log_q=LOG_Q[0])),
    "from_files": ("files", lambda fit, table, path: ds.adapters.from_files([_empty(path / "m.h5")], theta=THETA)),
    "to_arviz": ("files", lambda fit, table, path: fit.posterior(ds.toy.MEMBERS).to_arviz([0.5])),
    "ranks to ArviZ": ("files", lambda fit, table, path: fit.apply(table).to_arviz()),
    "train": ("train", lambda fit, table, path: ds.train(THETA, THETA)),
    "flows": ("train", lambda fit, table, path: ds.flows.Flow),
    "plots": ("plots", lambda fit, table, path: ds.plots.weights(fit)),
    "report": ("report", lambda fit, table, path: ds.report.write),
    "c2st": ("diagnostics", lambda fit, table, path: ds.diagnostics.c2st(THETA, THETA)),
    "from_sbi": ("sbi", lambda fit, *_: ds.adapters.from_sbi(fit)),
    "to_sbi": ("sbi", lambda fit, table, path: fit.posterior(ds.toy.MEMBERS).to_sbi()),
}


def _empty(path):
    path.touch()
    return path


@pytest.mark.parametrize("what", NEEDS)
def test_what_needs_an_extra_says_which(what, fit, tables, tmp_path):
    extra, call = NEEDS[what]
    with pytest.raises(ImportError, match=rf"pip install 'drystone\[{extra}\]'"):
        call(fit, tables[0], tmp_path)


def test_the_command_says_what_to_install():
    # In a process of its own, which must find no extra either.
    code = "from helpers import extras; extras.hide(); import sys, drystone.__main__ as m; sys.exit(m.main())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=TESTS)
    assert run.returncode == 1
    assert run.stderr == (
        "drystone: the command needs click, which is not installed: pip install 'drystone[cli]'.\n"
    )
