"""Tests for drystone.tasks.gaussian_mixture."""

import numpy as np
import pytest
import scipy.stats

from drystone.tasks import GaussianMixture


def test_every_simulation_tosses_its_own_coin_shared_by_its_coordinates():
    noise = GaussianMixture().simulate(np.full((10_000, 2), 3.0), np.random.default_rng(0)) - 3.0
    assert noise.std(0) == pytest.approx(np.sqrt((1 + 0.01) / 2), rel=0.03)
    # One scale for both coordinates correlates their sizes.
    assert np.corrcoef(np.log(np.abs(noise.T)))[0, 1] > 0.3


# In the middle, at a wall, outside the box: where the narrow Gaussian has no mass in double precision.
@pytest.mark.parametrize("y", [(3.1, -4.2), (9.95, 0.3), (11.3, -10.4), (14.2, 2.0)])
def test_the_posterior_integrates_to_one(y):
    # Gauss–Legendre in pieces about the narrow component.
    x, w = np.polynomial.legendre.leggauss(60)
    nodes, weights = [], []
    for centre in np.clip(y, -10, 10):
        cuts = np.unique(np.clip(centre + np.array([-20, -6, -2, -0.5, -0.2, 0, 0.2, 0.5, 2, 6, 20]), -10, 10))
        half = np.diff(cuts)[:, None] / 2
        nodes.append((cuts[:-1, None] + half * (x + 1)).ravel())
        weights.append((half * w).ravel())
    theta = np.stack(np.meshgrid(*nodes, indexing="ij"), -1).reshape(-1, 2)
    log_p = GaussianMixture().log_posterior(theta, np.tile(y, (len(theta), 1)))
    assert (np.exp(log_p) * np.outer(*weights).ravel()).sum() == pytest.approx(1, abs=1e-6)


def test_draws_against_the_wall_follow_the_truncated_mixture():
    y = np.array([9.9, 4.0])
    draws = GaussianMixture().sample_posterior(y, 5000, np.random.default_rng(2))
    scales = np.array([1.0, 0.1])
    mass = scipy.stats.norm.cdf((10 - y[0]) / scales)
    components = [scipy.stats.truncnorm(-np.inf, (10 - y[0]) / s, y[0], s) for s in scales]

    def cdf(x):
        return sum(m / mass.sum() * c.cdf(x) for m, c in zip(mass, components, strict=True))

    assert scipy.stats.kstest(draws[:, 0], cdf).pvalue > 1e-3
