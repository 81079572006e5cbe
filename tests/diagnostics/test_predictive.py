"""Data simulated from the posterior against the observation."""

import numpy as np
import pytest
from scipy.stats import norm

import drystone as ds

predictive = ds.diagnostics.predictive


def simulate(theta, rng):
    """Two numbers about θ."""
    return theta + rng.normal(size=(len(theta), 2))


DRAWS = np.random.default_rng(0).normal(size=(4000, 1)) * 0.5


def test_summaries_follow_the_predictive_distribution():
    found = predictive(DRAWS, [0.3, -0.2], simulate, n=4000)
    # y_i ~ N(0, 0.5² + 1²).
    assert found.simulated.mean(0) == pytest.approx([0, 0], abs=0.08)
    assert found.interval[0] == pytest.approx(np.hypot(0.5, 1) * norm.ppf([0.05, 0.95]), abs=0.12)
    np.testing.assert_array_equal(found.observed, [0.3, -0.2])
    assert found.checks[0].p_value == pytest.approx(2 * norm.sf(0.3 / np.hypot(0.5, 1)), abs=0.05)
    assert [each.name for each in found.checks] == ["y[0]", "y[1]"]
    assert "look like the observation" in str(found)


def test_an_observation_that_the_posterior_does_not_explain_is_noticed():
    found = predictive(DRAWS, [0.3, 8.0], simulate)
    assert found.alarm
    assert "do not look like the observation" in str(found)
    assert "y[1]" in str(found)


def test_summaries_may_be_ones_own_and_simulators_may_take_one_argument():
    generator = np.random.default_rng(3)
    found = predictive(
        DRAWS, [0.0, 0.0], lambda theta: simulate(theta, generator), summaries={"spread": lambda y: np.ptp(y, 1)}
    )
    assert [each.name for each in found.checks] == ["spread"]
    assert found.simulated.min() >= 0


def test_many_entries_are_summed_up():
    found = predictive(DRAWS, np.zeros((3, 10)), lambda theta, rng: rng.normal(size=(len(theta), 3, 10)))
    assert [each.name for each in found.checks][:2] == ["mean of y", "standard deviation of y"]
    assert found.alarm  # the observation has no noise at all


def test_simulations_that_fail_are_left_out_and_counted():
    def fails(theta, rng):
        y = simulate(theta, rng)
        y[:7] = np.nan
        return y

    found = predictive(DRAWS, [0.0, 0.0], fails, n=100)
    assert (found.failed, len(found.simulated)) == (7, 93)
    with pytest.raises(ValueError, match="no simulation from the posterior has finite data"):
        predictive(DRAWS, [0.0, 0.0], lambda theta, rng: np.full((len(theta), 2), np.nan))
    with pytest.raises(ValueError, match=r"must return one data set per row of theta, \(500, 2\); got \(500, 3\)"):
        predictive(DRAWS, [0.0, 0.0], lambda theta, rng: np.zeros((len(theta), 3)))
    with pytest.raises(TypeError, match="a task or a function"):
        predictive(DRAWS, [0.0, 0.0], 7)


def test_at_an_observation_a_task_is_a_simulator():
    task = ds.tasks.get("two_moons")
    theta, y = (np.asarray(a) for a in ds.simulate(task, n=30, seed=1))

    class Exact:
        def sample(self, n, y, seed=None):
            rng = np.random.default_rng(seed)
            return np.stack([task.sample_posterior(row, n, rng) for row in y], 1)

    table = ds.Table(theta, y=y, log_q=np.zeros((1, 30)), names=["exact"], parameters=list(task.parameters))
    fit = ds.Stacking.single(["exact"], 0, parameters=list(task.parameters))
    here = fit.posterior([Exact()], reference=table).at(y[0], simulator=task, draws=300)
    assert here.predictive.p_value > 0.01
    assert str(here.predictive) in str(here)


def test_an_entry_that_no_simulation_has_is_seen_beside_others():
    draws = np.random.default_rng(0).normal(size=(2000, 1))

    def simulator(theta, rng):
        return np.column_stack([rng.normal(theta[:, 0]), np.zeros(len(theta))])

    assert ds.diagnostics.predictive(draws, [0.3, 1000.0], simulator).p_value < 0.01
    assert ds.diagnostics.predictive(draws, [0.3, 0.0], simulator).p_value > 0.05
