"""Quantiles of a mixture from its members' points."""

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.forms.mixture import MixtureView
from drystone.forms.quantiles import POINTS, pool_lines, pool_steps
from helpers.tables import make_table

K, N, S, d = 4, 7, 30, 2


def points():
    rng = np.random.default_rng(3)
    draws = rng.normal(rng.normal(size=(K, N, 1, d)), rng.uniform(0.5, 2, (K, 1, 1, d)), (K, N, S, d))
    return draws, ds.Table(rng.normal(size=(N, d)), draws=draws)


def by_hand(draws, w, n, j):
    """All members' draws of a row and a parameter in ascending order, and the weight of each."""
    # The i-th smallest of S stands at level i/(S + 1), and for what is nearer to it than to its neighbours.
    share = np.r_[1.5, np.ones(S - 2), 1.5] / (S + 1)
    values, mass = np.sort(draws[:, n, :, j], 1).ravel(), np.outer(w[n], share).ravel()
    order = np.argsort(values)
    return values[order], mass[order]


@pytest.mark.parametrize("shared", [True, False])
def test_a_soft_quantile_is_the_average_of_the_quantiles_around_it(shared):
    draws, table = points()
    pooled = pool_steps(table, POINTS)
    w = np.random.default_rng(4).dirichlet(np.ones(K), 1 if shared else N)
    found = pooled.quantiles(torch.tensor(w[0] if shared else w), (0.1, 0.8)).numpy()
    for n, j in np.ndindex(N, d):
        values, mass = by_hand(draws, np.broadcast_to(w, (N, K)), n, j)
        for i, (a, b) in enumerate([(0.05, 0.15), (0.7, 0.9)]):
            levels = np.linspace(a, b, 40_001)[:-1] + (b - a) / 80_000
            quantiles = values[np.searchsorted(np.cumsum(mass), levels)]
            assert found[n, j, i] == pytest.approx(quantiles.mean(), abs=1e-3)


def test_the_slope_of_a_soft_quantile_is_that_of_differences():
    pooled = pool_steps(points()[1])
    rng = np.random.default_rng(5)
    w = torch.tensor(rng.dirichlet(np.ones(K)), requires_grad=True)
    weight = torch.tensor(rng.normal(size=(N, d, 2)))
    (slope,) = torch.autograd.grad((weight * pooled.quantiles(w, (0.1, 0.8))).sum(), w)
    along = torch.tensor(rng.normal(size=K))
    along -= along.mean()  # within the simplex
    step = 1e-6
    up, down = ((weight * pooled.quantiles(w.detach() + s * along, (0.1, 0.8))).sum() for s in (step, -step))
    assert float(slope @ along) == pytest.approx(float(up - down) / (2 * step), rel=1e-5)


def test_a_quantile_inverts_the_members_distribution_functions_mixed():
    draws, table = points()
    w = np.random.default_rng(6).dirichlet(np.ones(K), N)
    found = pool_lines(table).quantiles(torch.tensor(w), (0.05, 0.5)).numpy()
    # The i-th smallest of S stands at i/(S + 1); nothing lies beyond the outermost.
    levels, of_points = np.arange(S + 2) / (S + 1), np.clip(np.arange(S + 2) - 1, 0, S - 1)
    for n, j in np.ndindex(N, d):
        places = np.sort(draws[:, n, :, j], None)
        places = np.sort(np.r_[places - 1e-11, places + 1e-11])  # just below and above jumps
        of_members = [np.interp(places, np.sort(draws[k, n, :, j])[of_points], levels) for k in range(K)]
        np.testing.assert_allclose(found[n, j], np.interp([0.05, 0.5], w[n] @ of_members, places), atol=1e-9)


def test_the_slope_of_a_quantile_is_that_of_differences():
    pooled = pool_lines(points()[1])
    rng = np.random.default_rng(7)
    w = torch.tensor(rng.dirichlet(np.ones(K)), requires_grad=True)
    weight, along = torch.tensor(rng.normal(size=(N, d, 2))), torch.tensor(rng.normal(size=K))
    (slope,) = torch.autograd.grad((weight * pooled.quantiles(w, (0.1, 0.8))).sum(), w)
    along -= along.mean()
    step = 1e-8
    up, down = ((weight * pooled.quantiles(w.detach() + s * along, (0.1, 0.8))).sum() for s in (step, -step))
    assert float(slope @ along) == pytest.approx(float(up - down) / (2 * step), rel=1e-5)


def test_the_slope_of_a_quantile_within_a_jump_is_finite():
    # At level 2/5 the first member's function is flat for 1e-12: its draws are one point but for rounding.
    wide = [-1.0, 0.5, 1.0, 2.0]
    draws = np.array([[0.0, 1e-12, 2e-12, 3.0], wide, wide])[:, None, :, None]
    w = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64, requires_grad=True)
    quantile = pool_lines(ds.Table(np.zeros((1, 1)), draws=draws)).quantiles(w, (2 / 5,))
    (slope,) = torch.autograd.grad(quantile.sum(), w)
    assert float(quantile.detach()) == pytest.approx(0, abs=1e-11)
    assert (slope.abs() < 100).all()


KINDS = {
    "continuous": lambda draws: draws,
    "discrete": np.round,
    "discrete up to rounding": lambda draws: np.round(draws) / 10 + 1 - 1 + 0.3 - 0.1 * 3,
    "heavy tails": lambda draws: np.sinh(6 * draws),
    "far from zero": lambda draws: 1e6 + draws,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [4, 20, 40, 300])
@pytest.mark.parametrize("weight", [0.0, 1e-9])
def test_members_without_weight_change_nothing_and_with_little_weight_little(weight, size, kind):
    rng = np.random.default_rng(size)
    scale = np.array([1.0, 0.5, 3.0, 0.1]).reshape(4, 1, 1, 1)
    table = ds.Table(np.zeros((50, 1)), draws=KINDS[kind](scale * rng.normal(size=(4, 50, size, 1))))
    w = torch.tensor([0.4, 0.6, weight, weight], dtype=torch.float64)
    found = MixtureView(w, table).interval(0.1)
    alone = MixtureView(w[:2], table.select(members=[0, 1])).interval(0.1)
    typical = float(np.median(np.ptp(table.draws, 2)))
    # Where the distribution function is flat, as between discrete values, a quantile may go either way.
    flat = ((found - alone).abs() > 1e-5 * typical).double().mean()
    assert flat <= (0.05 if "discrete" in kind or size == 4 else 0)


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
