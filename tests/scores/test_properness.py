"""Interval and moment scores are proper: the exact posterior has the least expected score."""

import numpy as np
import pytest

import drystone as ds

# Ways of being wrong that leave nothing else changed: (shift, factor of the spread, loss of y in the mean).
WRONG = {
    "shifted up": (0.3, 1.0, 0.0),
    "shifted down": (-0.3, 1.0, 0.0),
    "too narrow": (0.0, 0.8, 0.0),
    "too wide": (0.0, 1.25, 0.0),
    "blind to part of the data": (0.0, 1.0, 0.3),
    "shifted and narrow": (0.2, 0.8, 0.0),
}
SCORES = [
    ds.IntervalScore(0.1),
    ds.IntervalScore((0.05, 0.5)),
    ds.MomentScore(),
    ds.MomentScore(diagonal=True),
    ds.MeanScore(),
]


def exact_and_wrong(kind, N=20_000):
    """Members 0, exact, and 1, wrong, of a correlated Gaussian posterior, by their exact moments and quantiles."""
    from scipy.stats import norm

    rng = np.random.default_rng(3)
    cov = np.array([[1.0, 0.6], [0.6, 1.5]])
    y = 2 * rng.normal(size=(N, 2))
    theta = y + rng.multivariate_normal(np.zeros(2), cov, size=N)
    shift, factor, lost = WRONG[kind]
    mean = np.stack([y, (1 - lost) * y + shift])
    covs = np.stack([np.broadcast_to(scale**2 * cov, (N, 2, 2)) for scale in (1.0, factor)])
    sd = np.sqrt(np.diagonal(covs, axis1=-2, axis2=-1))
    quantiles = {level: mean + norm.ppf(level) * sd for level in (0.025, 0.05, 0.25, 0.75, 0.95, 0.975)}
    return ds.Table(theta, mean=mean, cov=covs, quantiles=quantiles)


@pytest.mark.parametrize("score", SCORES, ids=repr)
@pytest.mark.parametrize("kind", WRONG)
def test_no_wrong_posterior_scores_better_than_the_exact_one(score, kind):
    table = exact_and_wrong(kind)
    interval = isinstance(score, ds.IntervalScore)
    form = ds.IntervalAggregation(score.alpha, weights="convex") if interval else ds.Mixture()

    def loss(k):
        levels = () if not interval or isinstance(score.alpha, float) else (len(score.alpha),)
        weights, none = np.tile(np.eye(2)[k], (*levels, 2, 1)), np.zeros((*levels, 2))
        ends = {"lower": weights, "upper": weights, "lower_intercept": none, "upper_intercept": none}
        params = ends if interval else {"weights": np.eye(2)[k]}
        single = ds.Stacking.single(table.names, k, parameters=table.parameters, score=score)
        return ds.Stacking(**{**vars(single), "form": form, "params": params}).evaluate(table)["loss"]

    if isinstance(score, ds.MeanScore) and WRONG[kind][0] == WRONG[kind][2] == 0:
        assert loss(0) == pytest.approx(loss(1))  # it sees the mean alone
    else:
        assert loss(0) < loss(1)
