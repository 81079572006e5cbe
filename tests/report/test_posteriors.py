"""Draws for the pair plots."""

import re

import numpy as np
import pytest

import drystone as ds
from drystone.plots.palette import method_styles
from drystone.report.pictures import pair_picture


@pytest.fixture(scope="module")
def fits():
    table = ds.toy.table(400, seed=1)
    return {
        "log": ds.stack(table),
        "samples": ds.stack(table, ds.SampleAggregation("diagonal"), ds.MeanScore()),
        "interval": ds.stack(table, ds.IntervalAggregation(), ds.IntervalScore()),
    }


def test_observe_draws_from_each_method_that_is_a_sampler(fits):
    seen = ds.report.observe("at 1.5", [1.5], ds.toy.MEMBERS, fits, best="narrow", truth=[1.1], draws=4000)
    assert list(seen.draws) == ["best", "uniform", "log", "samples"]
    assert {sample.shape for sample in seen.draws.values()} == {(4000, 1)}
    shifts, sds = (np.array([getattr(m, name) for m in ds.toy.MEMBERS.values()]) for name in ("shift", "sd"))
    assert seen.draws["best"].mean() == pytest.approx(1.5, abs=0.05)
    assert seen.draws["best"].std() == pytest.approx(0.56, abs=0.03)
    assert seen.draws["uniform"].mean() == pytest.approx(1.5 + shifts.mean(), abs=0.1)
    w = fits["log"].weights
    variance = w @ (sds**2 + shifts**2) - (w @ shifts) ** 2
    assert seen.draws["log"].std() == pytest.approx(np.sqrt(variance), rel=0.05)


def test_observe_takes_exact_draws_of_a_task_that_has_them(fits):
    class Exact(ds.tasks.Task):
        name, parameters, y_dim = "toy", ("theta",), 1
        prior = ds.tasks.Uniform([-20], [20])

        def simulate(self, theta, rng):
            return theta + rng.normal(size=theta.shape)

        def sample_posterior(self, y, n, rng):
            return y + rng.normal(size=(n, 1))

    class Simulator(ds.tasks.Task):
        name, parameters, y_dim, prior = "toy", ("theta",), 1, Exact.prior
        simulate = Exact.simulate

    seen = ds.report.observe("a", [1.5], ds.toy.MEMBERS, fits["log"], task=Exact(), draws=3000)
    assert seen.draws["exact"].mean() == pytest.approx(1.5, abs=0.1)
    assert "exact" not in ds.report.observe("a", [1.5], ds.toy.MEMBERS, fits, task=Simulator(), draws=10).draws
    with pytest.raises(ValueError, match="may not be called 'exact'"):
        ds.report.observe("a", [1.5], ds.toy.MEMBERS, {"exact": fits["log"]}, task=Exact())


def test_observe_row_uses_the_draws_of_the_table(fits):
    table = ds.toy.table(30, seed=5)
    seen = ds.report.observe_row("row 7", table, 7, fits, best="left")
    np.testing.assert_array_equal(np.sort(seen.draws["best"], 0), np.sort(table.draws[1, 7], 0))
    np.testing.assert_array_equal(seen.truth, table.theta[7])


def test_the_best_must_be_a_member(fits):
    with pytest.raises(ValueError, match="`best` must be the name of a member; got 'nobody'"):
        ds.report.observe("a", [1.5], ds.toy.MEMBERS, fits, best="nobody")


@pytest.mark.parametrize(
    ("draws", "truth"),
    [
        ({}, None),
        ({"a": np.ones(3)}, None),
        ({"a": np.ones((3, 2)), "b": np.ones((4, 3))}, None),
        ({"a": np.ones((3, 2))}, np.ones(3)),
    ],
)
def test_draws_and_truth_must_agree(draws, truth):
    with pytest.raises(
        ValueError, match=re.escape("must have shape (S, d) each, and `truth` (d,), with the same d")
    ):
        ds.report.Observation("odd", draws, truth)


def test_draws_that_are_not_finite_are_left_out():
    sample = np.arange(12.0).reshape(6, 2)
    broken = np.where(np.arange(6)[:, None] == 2, np.nan, sample)
    seen = ds.report.Observation("half", {"a": broken, "b": sample, "c": np.full((3, 2), np.inf)})
    assert {method: len(draws) for method, draws in seen.draws.items()} == {"a": 5, "b": 6}
    with pytest.raises(ValueError, match="'none' has no finite draws"):
        ds.report.Observation("none", {"a": np.full((3, 2), np.nan)})


@pytest.mark.parametrize("scale", [0.15, 1e-3, 3.0, 4000.0])
def test_the_name_of_an_axis_stands_beside_its_numbers(scale):
    draws = scale * np.random.default_rng(0).normal(size=(3000, 2))
    seen = ds.report.Observation("x", {"stacked": draws})
    picture = str(pair_picture(seen, ("a", "b"), method_styles(["stacked"])).svg)
    (name,) = re.findall(r"translate\(([\d.]+) [\d.]+\) rotate\(-90\)[^>]*>b<", picture)
    numbers = re.findall(r'x="([\d.]+)" y="[\d.]+" text-anchor="end">([^<]+)<', picture)
    assert numbers
    # At a size of 11 a digit is 7 wide, a point and a minus are less.
    begins = min(float(x) - 6.4 * len(text) for x, text in numbers)
    assert 8 <= float(name) < begins
