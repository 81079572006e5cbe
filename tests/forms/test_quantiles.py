"""Quantiles of a mixture from its members' points."""

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.forms.quantiles import pool_points
from helpers.tables import make_table

K, N, S, d = 4, 7, 30, 2


def points():
    rng = np.random.default_rng(3)
    draws = rng.normal(rng.normal(size=(K, N, 1, d)), rng.uniform(0.5, 2, (K, 1, 1, d)), (K, N, S, d))
    return draws, pool_points(ds.Table(rng.normal(size=(N, d)), draws=draws))


def by_hand(draws, w, n, j):
    """All members' draws of a row and a parameter in ascending order, and the weight of each."""
    # The i-th smallest of S stands at level i/(S + 1), and for what is nearer to it than to its neighbours.
    share = np.r_[1.5, np.ones(S - 2), 1.5] / (S + 1)
    values, mass = np.sort(draws[:, n, :, j], 1).ravel(), np.outer(w[n], share).ravel()
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


def test_a_quantile_interpolates_the_distribution_function_at_the_points():
    draws, pooled = points()
    w = np.random.default_rng(6).dirichlet(np.ones(K), N)
    found = pooled.quantiles(torch.tensor(w), (0.05, 0.5)).numpy()
    half = np.tile(np.r_[np.full(S - 1, 0.5), 1.0] / (S + 1), K)  # from a point's level to the end of its share
    for n, j in np.ndindex(N, d):
        values, mass = by_hand(draws, w, n, j)
        order = np.argsort(np.sort(draws[:, n, :, j], 1).ravel())
        level = np.cumsum(mass) - (np.repeat(w[n], S) * half)[order]
        np.testing.assert_allclose(found[n, j], np.interp([0.05, 0.5], level, values), rtol=1e-12)


@pytest.mark.parametrize("S", [5, 20, 50, 200])
def test_a_mixture_of_one_member_has_the_members_own_interval(S):
    table = make_table(K=1, N=30, S=S, seed=1)
    alone = ds.Mixture().combine({"weights": torch.ones(1, dtype=torch.float64)}, table)
    expected = np.stack([table.quantile(0.05)[0], table.quantile(0.95)[0]], -1)
    np.testing.assert_allclose(alone.interval(0.1).numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("S", [19, 20, 50, 200])
def test_intervals_of_exact_members_cover_what_they_say(S):
    rng = np.random.default_rng(S)
    N, alpha = 20_000, 0.1
    theta, draws = rng.normal(size=(N, 1)), rng.normal(size=(1, N, S, 1))
    table = ds.Table(theta, draws=draws)
    inside = (table.quantile(alpha / 2)[0] <= theta) & (theta <= table.quantile(1 - alpha / 2)[0])
    # Between two draws the definition interpolates, which costs a little where the tails are curved.
    assert inside.mean() == pytest.approx(1 - alpha, abs=3 * np.sqrt(alpha * (1 - alpha) / N) + 0.1 / S)


@pytest.mark.parametrize("S", [5, 10, 40, 41])
def test_a_member_with_hardly_any_weight_hardly_moves_the_ends(S):
    table = make_table(K=2, N=30, S=S, seed=2)
    weights = torch.tensor([1e-9, 1 - 1e-9], dtype=torch.float64)
    found = ds.Mixture().combine({"weights": weights}, table).interval(0.1).numpy()
    expected = np.stack([table.quantile(0.05)[1], table.quantile(0.95)[1]], -1)
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_levels_beyond_those_that_are_tabulated_are_refused():
    table = make_table(K=2, N=30, S=50, seed=1)
    levels = np.arange(1, 20) / 20
    tabulated = ds.Table(table.theta, quantiles={float(level): table.quantile(level) for level in levels})
    mixture = ds.Stacking.uniform(tabulated.names).apply(tabulated)
    assert np.isfinite(mixture.interval(0.1)).all()
    with pytest.raises(ValueError, match=r"quantile at level 0\.025 needs draws.* has them from 0\.05 to 0\.95"):
        mixture.interval(0.05)
