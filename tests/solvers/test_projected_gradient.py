"""Mixtures for scores with kinks."""

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.forms.view import view_of


def table_of(*members, rows=300, n=60, seed=0):
    """A table of members (shift, spread) of a standard normal about y in two dimensions."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(rows, 2))
    theta = y + rng.normal(size=y.shape)
    noise = rng.normal(size=(len(members), rows, n, 2))
    return ds.Table(
        theta, draws=np.stack([y[:, None] + b + s * e for (b, s), e in zip(members, noise, strict=True)])
    )


def interval_score(table, weights):
    return float(ds.IntervalScore()(view_of(ds.Mixture(), {"weights": np.asarray(weights)}, table)))


@pytest.mark.parametrize("seed", range(3))
def test_the_interval_score_that_is_searched_is_the_one_that_is_reported(seed):
    rng = np.random.default_rng(seed)
    K, N, S = 6, 60, 30
    y = rng.normal(size=(N, 1))
    draws = 0.5 * y[None, :, None] + rng.normal(0, 0.3, (K, 1, 1, 1))
    draws = draws + rng.uniform(0.4, 1.2, (K, 1, 1, 1)) * rng.normal(size=(K, N, S, 1))
    table, score = ds.Table(0.5 * y + 0.7 * rng.normal(size=(N, 1)), y, draws=draws), ds.IntervalScore()
    fit = ds.stack(table, score=score)
    used = ds.stack(table.select(members=list(np.flatnonzero(fit.weights))), score=score)
    for weights in (fit.weights, fit.weights * (1 - 6e-9) + 1e-9):
        params = {"weights": torch.tensor(weights)}
        assert float(score(ds.Mixture().combine(params, table))) == pytest.approx(fit.loss, rel=1e-6)
    alone = [ds.Stacking.single(table, k).evaluate(table, score)["loss"] for k in range(K)]
    assert fit.loss <= min(alone)
    assert fit.loss == pytest.approx(used.loss, rel=0.01)


@pytest.mark.parametrize("members", [((-0.8, 0.7), (0.9, 0.8)), ((0.1, 2.5), (-0.4, 0.6))])
def test_two_members_for_intervals_are_near_the_best_of_all_weights(members):
    table = table_of(*members)
    best = min(interval_score(table, (w, 1 - w)) for w in np.linspace(0, 1, 201))
    assert ds.stack(table, score=ds.IntervalScore()).loss < 1.002 * best


def test_intervals_of_few_rows_and_draws_are_no_worse_than_those_of_random_weights():
    toy = ds.toy.table(40, seed=1, draws=8)
    random = np.random.default_rng(0).dirichlet(np.full(4, 0.5), 1000)
    best = min(interval_score(toy, weights) for weights in random)
    for scale in (1.0, 3.0, 7.0):  # other digits, other ways
        table = ds.Table(scale * toy.theta, draws=scale * np.asarray(toy.draws))
        assert ds.stack(table, score=ds.IntervalScore()).loss <= 1.001 * scale * best


def test_a_hopeless_member_costs_nothing_in_intervals():
    table = table_of((-0.8, 0.7), (0.9, 0.8), (0.1, 1.5), (1e6, 1.0))
    without = ds.stack(table.select(members=table.names[:3]), score=ds.IntervalScore())
    fit = ds.stack(table, score=ds.IntervalScore())
    assert fit.weights[-1] == 0
    assert fit.loss <= without.loss


def test_one_member_is_the_mixture_of_itself_by_its_intervals():
    table = ds.toy.table(50, seed=1).select(members=["narrow"])
    fit = ds.stack(table, score=ds.IntervalScore())
    np.testing.assert_array_equal(fit.weights, [1.0])


class Location(ds.forms.SimplexForm):
    """A Cauchy density about the members' weighted mean: weights on the simplex, but no mixture."""

    gives = frozenset({"log_q"})

    def requires(self, statistic):
        return "mean"

    def combine(self, params, table, softness=0.0):
        return LocationView(params["weights"], table)


class LocationView(ds.forms.View):
    def __init__(self, weights, table):
        super().__init__(table)
        self.weights = weights

    def log_q(self):
        center = torch.tensordot(self.weights, torch.as_tensor(self.table.mean), 1)
        return -torch.log1p(((self.theta - center) / 0.02) ** 2).sum(-1)


def test_a_score_that_is_convex_for_mixtures_is_not_certified_for_other_forms():
    rng = np.random.default_rng(0)
    theta = (rng.choice([0.0, 0.25], 200, p=[0.4, 0.6]) + 0.01 * rng.normal(size=200))[:, None]
    table = ds.Table(theta, mean=np.stack([np.zeros((200, 1)), np.ones((200, 1))]))
    fit = ds.stack(table, Location(), ds.LogScore())
    assert fit.gap is None
    assert fit.weights[1] == pytest.approx(0.25, abs=0.01)  # the higher of two maxima
