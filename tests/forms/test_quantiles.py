"""Quantiles of a mixture from its members' points."""

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.forms.quantiles import pool_points

K, N, S, d = 4, 7, 30, 2


def points():
    rng = np.random.default_rng(3)
    draws = rng.normal(rng.normal(size=(K, N, 1, d)), rng.uniform(0.5, 2, (K, 1, 1, d)), (K, N, S, d))
    return draws, pool_points(ds.Table(rng.normal(size=(N, d)), draws=draws))


def by_hand(draws, w, n, j):
    """All members' draws of a row and a parameter in ascending order, and the weight of each."""
    values, mass = draws[:, n, :, j].ravel(), np.repeat(w[n] / S, S)
    order = np.argsort(values)
    return values[order], mass[order]


@pytest.mark.parametrize("shared", [True, False])
def test_a_soft_quantile_is_the_average_of_the_quantiles_around_it(shared):
    draws, pooled = points()
    w = np.random.default_rng(4).dirichlet(np.ones(K), 1 if shared else N)
    found = pooled.soft_quantiles(torch.tensor(w[0] if shared else w), (0.1, 0.8)).numpy()
    for n, j in np.ndindex(N, d):
        values, mass = by_hand(draws, np.broadcast_to(w, (N, K)), n, j)
        for i, (a, b) in enumerate([(0.05, 0.15), (0.7, 0.9)]):
            levels = np.linspace(a, b, 40_001)[:-1] + (b - a) / 80_000
            quantiles = values[np.searchsorted(np.cumsum(mass), levels)]
            assert found[n, j, i] == pytest.approx(quantiles.mean(), abs=1e-3)


def test_the_slope_of_a_soft_quantile_is_that_of_differences():
    _, pooled = points()
    rng = np.random.default_rng(5)
    w = torch.tensor(rng.dirichlet(np.ones(K)), requires_grad=True)
    weight = torch.tensor(rng.normal(size=(N, d, 2)))
    (slope,) = torch.autograd.grad((weight * pooled.soft_quantiles(w, (0.1, 0.8))).sum(), w)
    along = torch.tensor(rng.normal(size=K))
    along -= along.mean()  # within the simplex
    step = 1e-6
    up, down = ((weight * pooled.soft_quantiles(w.detach() + s * along, (0.1, 0.8))).sum() for s in (step, -step))
    assert float(slope @ along) == pytest.approx(float(up - down) / (2 * step), rel=1e-5)


def test_a_quantile_interpolates_between_the_mid_points_of_the_stretches():
    draws, pooled = points()
    w = np.random.default_rng(6).dirichlet(np.ones(K), N)
    found = pooled.quantiles(torch.tensor(w), (0.05, 0.5)).numpy()
    for n, j in np.ndindex(N, d):
        values, mass = by_hand(draws, w, n, j)
        expected = np.interp([0.05, 0.5], np.cumsum(mass) - mass / 2, values)
        np.testing.assert_allclose(found[n, j], expected, rtol=1e-12)


def test_quantiles_of_a_mixture_reach_into_the_tails():
    table = ds.toy.table(30, seed=1, draws=2000)
    fit = ds.stack(table)
    member = list(ds.toy.MEMBERS)[int(np.argmax(fit.weights))]
    alone = ds.Stacking(**{**vars(fit), "params": {"weights": np.eye(4)[list(ds.toy.MEMBERS).index(member)]}})
    for alpha in (0.004, 0.02, 0.2):
        got = alone.apply(table).interval(alpha)[:, 0, 0]
        k = table.names.index(member)
        np.testing.assert_allclose(got, table.quantile(alpha / 2)[k, :, 0], atol=0.25)
