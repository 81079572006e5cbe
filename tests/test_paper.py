"""What the paper states and can be tested, on its toy (App. D.1)."""

import numpy as np
import pytest
from scipy.stats import norm

import drystone as ds


def kl_from_truth(weights):
    """KL(N(0, 1) ‖ mixture), by quadrature on a grid."""
    t = np.linspace(-12, 12, 4001)
    p = norm.pdf(t)
    q = sum(w * norm.pdf(t, m.shift, m.sd) for w, m in zip(weights, ds.toy.MEMBERS.values(), strict=True))
    return np.trapezoid(p * (norm.logpdf(t) - np.log(q)), t)


def test_the_four_members_are_equally_far_from_the_truth():
    for weights in np.eye(4):
        assert kl_from_truth(weights) == pytest.approx(0.5, abs=0.02)


def test_their_95_percent_intervals_cover_73_to_100_percent():
    z = norm.ppf(0.975)
    coverage = [norm.cdf(m.shift + z * m.sd) - norm.cdf(m.shift - z * m.sd) for m in ds.toy.MEMBERS.values()]
    assert min(coverage) == pytest.approx(0.73, abs=0.01)
    assert max(coverage) == pytest.approx(1.0, abs=0.01)


def test_stacking_is_consistent_as_simulations_grow():
    """Prop. 1: the excess loss of the fitted weights vanishes, about as 1/N."""
    best = min(kl_from_truth(ds.stack(ds.toy.table(200_000, seed=s, draws=2)).weights) for s in (0, 1))
    excess = {
        N: np.mean([kl_from_truth(ds.stack(ds.toy.table(N, seed=s, draws=2)).weights) - best for s in range(20)])
        for N in (50, 500, 5000)
    }
    assert excess[50] > 3 * excess[500] > 9 * excess[5000] > 0


def test_ranks_of_a_mixture_are_linear_in_the_weights():
    table = ds.toy.table(30, seed=3, draws=5000)
    fit = ds.stack(table, ds.Mixture(concentration=2.0))
    applied = fit.apply(table)
    drawn = (applied.draws(5000, seed=1) <= table.theta[:, None]).mean(1)
    np.testing.assert_allclose(drawn, applied.rank, atol=0.03)


def test_underconfident_members_stay_underconfident_in_a_mixture():
    """Members whose intervals over-cover: whatever the weights, so do the mixture's."""
    rng = np.random.default_rng(0)
    N, S = 4000, 400
    y = rng.normal(size=(N, 1))
    theta = y + rng.normal(size=(N, 1))
    sd = np.array([1.5, 2.0, 3.0])
    draws = y[:, None] + sd[:, None, None, None] * rng.normal(size=(3, N, S, 1))
    table = ds.Table(theta, draws=draws)
    for weights in rng.dirichlet(np.ones(3), 10):
        inside = np.mean(np.abs(np.tensordot(weights, table.rank, 1) - 0.5) <= 0.45)
        assert inside > 0.9
