"""Each score against its definition, at a fixed generic mixture."""

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm

import drystone as ds
from helpers.tables import make_table

WEIGHTS = np.array([0.31, 0.07, 0.23, 0.28, 0.11])


def view(table, weights=WEIGHTS):
    return ds.Mixture().combine({"weights": torch.tensor(weights)}, table)


def test_log_score_is_the_mean_negative_log_density(weighted_table):
    by_hand = -weighted_table.row_weights @ logsumexp(weighted_table.log_q, axis=0, b=WEIGHTS[:, None])
    assert float(ds.LogScore()(view(weighted_table))) == pytest.approx(by_hand)


@pytest.mark.parametrize("row_weights", [False, True])
def test_rank_distance_is_the_integral_it_stands_for(row_weights):
    table = make_table(N=23, d=2, row_weights=row_weights)
    ranks = np.tensordot(WEIGHTS, table.rank, 1)

    def integral(column):
        steps = np.sort(column)
        pieces = zip(np.r_[0, steps], np.r_[steps, 1], strict=True)

        def below(t):
            return table.row_weights @ (column <= t)

        return sum(quad(lambda t, a=a, b=b: (below((a + b) / 2) - t) ** 2, a, b)[0] for a, b in pieces)

    by_quadrature = np.mean([integral(column) for column in ranks.T])
    assert float(ds.RankCvM()(view(table))) == pytest.approx(by_quadrature, abs=1e-10)


def test_rank_distance_equals_the_closed_form_printed_in_the_paper(table):
    r = np.tensordot(WEIGHTS, table.rank, 1)
    printed = (r**2).mean(0) - np.maximum(r[:, None], r[None]).mean((0, 1)) + 1 / 3
    assert float(ds.RankCvM()(view(table))) == pytest.approx(printed.mean())


def test_calibrated_ranks_have_the_distance_their_noise_floor_says():
    rng = np.random.default_rng(5)
    N = 200
    distances = []
    for _ in range(300):
        uniform = ds.Table(np.zeros((N, 1)), rank=rng.random((1, N, 1)))
        distances.append(float(ds.RankCvM()(view(uniform, np.ones(1)))))
    floor, error = 1 / (6 * N), np.std(distances) / np.sqrt(300)
    assert abs(np.mean(distances) - floor) < 4 * error


def test_ranks_of_a_quantity_of_interest_can_be_scored(table):
    def norm(theta, y):
        return np.linalg.norm(theta, axis=-1)

    alone = ds.Table(table.theta, rank=np.repeat(table.rank_of(norm), 3, axis=2))
    for score in (ds.RankCvM, ds.RankMoments):
        assert score(statistic=norm).needs == {"draws"}
        of_ranks = (
            ds.RankMoments(draws=41) if score is ds.RankMoments else ds.RankCvM()
        )  # as many as the table has
        assert float(score(statistic=norm)(view(table))) == pytest.approx(float(of_ranks(view(alone))))


def test_rank_moments_take_the_logarithm_of_the_mixed_rank(table):
    r = np.tensordot(WEIGHTS, table.rank, 1)
    smoothed = (41 * r + 0.5) / 42
    by_hand = (r.mean(0) - 0.5) ** 2 + (np.log(smoothed).mean(0) + 1) ** 2
    assert float(ds.RankMoments()(view(table))) == pytest.approx(by_hand.mean())
    lowest = ds.Table(table.theta, rank=np.zeros_like(table.rank))
    assert np.isfinite(float(ds.RankMoments()(view(lowest))))


@pytest.mark.parametrize("diagonal", [False, True])
def test_moment_score_is_dawid_sebastiani(table, diagonal):
    rows = ds.MomentScore(diagonal=diagonal).rows(view(table)).numpy()
    n = 13
    mean = WEIGHTS @ table.mean[:, n]
    gap = table.mean[:, n] - mean
    cov = np.einsum("k,kij->ij", WEIGHTS, table.cov[:, n] + gap[:, :, None] * gap[:, None, :])
    error = table.theta[n] - mean
    full = np.log(np.linalg.det(cov)) + error @ np.linalg.inv(cov) @ error
    margins = np.mean(np.log(np.diag(cov)) + error**2 / np.diag(cov))
    assert rows[n] == pytest.approx(margins if diagonal else full)


def test_covariance_survives_means_far_from_zero(table):
    far = ds.Table(table.theta + 1e6, mean=table.mean + 1e6, cov=table.cov)
    near = ds.Table(table.theta, mean=table.mean, cov=table.cov)
    np.testing.assert_allclose(view(far).cov(), view(near).cov(), atol=1e-8)


def test_a_singular_covariance_says_what_to_do():
    table = make_table(S=2, d=7, K=2)
    assert ds.MomentScore()(view(table, np.array([0.4, 0.6]))) == np.inf
    with pytest.raises(ValueError, match=r"MomentScore\(\) is infinite: the stacked covariance is not positive"):
        ds.Stacking.uniform(table.names).evaluate(table, ds.MomentScore())


def test_mean_score_is_the_squared_error_in_units_of_the_scale(table):
    scale = (0.5, 2.0, 3.0)
    error = (table.theta - np.tensordot(WEIGHTS, table.mean, 1)) / scale
    assert float(ds.MeanScore(scale)(view(table))) == pytest.approx((error**2).sum(1).mean())
    with pytest.raises(ValueError, match="`scale` must hold d = 3 positive numbers"):
        ds.MeanScore((1.0, 2.0))(view(table))


def test_energy_score_agrees_with_its_closed_form_for_a_gaussian():
    # d = 1: the energy score is the CRPS, known for N(μ, σ²) (Gneiting & Raftery 2007).
    rng = np.random.default_rng(2)
    N, S, mu, sd = 400, 400, 0.4, 1.7
    theta = rng.normal(size=(N, 1))
    table = ds.Table(theta, draws=mu + sd * rng.normal(size=(1, N, S, 1)))
    z = (theta[:, 0] - mu) / sd
    crps = sd * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi))
    rows = ds.EnergyScore(draws=S).rows(view(table, np.ones(1))).numpy()
    error = np.std(rows - crps) / np.sqrt(N)
    assert abs((rows - crps).mean()) < 4 * error
    assert error < 0.01


@pytest.mark.parametrize("draws", [100, 400])
def test_energy_score_of_a_markov_chain_is_that_of_independent_draws(draws):
    rng = np.random.default_rng(3)
    N, S, rho = 400, 400, 0.8
    theta, chain = rng.normal(size=(N, 1)), rng.normal(size=(N, S))
    for s in range(1, S):
        chain[:, s] = rho * chain[:, s - 1] + np.sqrt(1 - rho**2) * chain[:, s]
    score = ds.EnergyScore(draws=draws)
    of_chain, independent = (
        score.rows(view(ds.Table(theta, draws=of[None, :, :, None]), np.ones(1))).numpy()
        for of in (chain, rng.normal(size=(N, S)))
    )
    difference = of_chain - independent
    assert abs(difference.mean()) < 4 * difference.std() / np.sqrt(N) < 0.04


def test_draws_that_are_true_or_false_are_scored_as_numbers():
    rng = np.random.default_rng(0)
    theta, draws = rng.random((60, 1)) > 0.5, rng.random((2, 60, 30, 1)) > 0.3
    found, expected = (
        ds.stack(ds.Table(t, draws=s), score=ds.EnergyScore())
        for t, s in ((theta, draws), (theta.astype(float), draws.astype(float)))
    )
    assert found.loss == pytest.approx(expected.loss, rel=1e-12)
    np.testing.assert_allclose(found.weights, expected.weights)


def test_energy_score_of_rows_averages_to_the_score(weighted_table):
    score = ds.EnergyScore(scale=(1.0, 2.0, 0.7), draws=23)
    q = view(weighted_table)
    assert float(score(q)) == pytest.approx(float(q.average(score.rows(q))))


def test_scores_add_and_scale(table):
    q = view(table)
    total = ds.LogScore() + 0.3 * (ds.MeanScore() + 2 * ds.RankCvM())
    parts = ds.LogScore()(q) + 0.3 * ds.MeanScore()(q) + 0.6 * ds.RankCvM()(q)
    assert float(total(q)) == pytest.approx(float(parts))
    assert repr(total) == "LogScore() + 0.3*MeanScore() + 0.6*RankCvM()"
    assert total.needs == {"log_q", "mean", "rank"}
    assert sum([ds.LogScore(), ds.MeanScore()]) == ds.LogScore() + ds.MeanScore()
    assert len(ds.LogScore() + 0 * ds.MeanScore()) == 1


def test_a_score_cannot_be_asked_to_be_bad():
    with pytest.raises(ValueError, match=r"coefficients .* must be ≥ 0.*-1.*LogScore\(\)"):
        -1 * ds.LogScore()
    with pytest.raises(TypeError, match="scores are added"):
        ds.LogScore() * ds.LogScore()


GRADIENTS = [
    ds.LogScore(),
    ds.RankCvM(),
    ds.RankMoments(),
    ds.MomentScore(),
    ds.MomentScore(diagonal=True),
    ds.MeanScore(),
    ds.EnergyScore(),
]


@pytest.mark.parametrize("score", GRADIENTS, ids=repr)
def test_gradients_are_right(weighted_table, score):
    def of_weights(w):
        return score(ds.Mixture().combine({"weights": w}, weighted_table))

    w = torch.tensor(WEIGHTS, requires_grad=True)
    assert torch.autograd.gradcheck(of_weights, w, eps=1e-7, atol=1e-5)


def test_options_are_checked_when_written():
    with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\); got 0"):
        ds.IntervalScore(alpha=0)
    with pytest.raises(ValueError, match="`draws` must be at least 2"):
        ds.EnergyScore(draws=1)
    with pytest.raises(
        TypeError, match=r"`scale` must hold one positive number per parameter, or be None; got 2\.0"
    ):
        ds.EnergyScore(scale=2.0)  # pyright: ignore[reportArgumentType]


def test_scales_and_levels_may_be_arrays(table):
    score = ds.EnergyScore(scale=table.theta.std(0))
    assert repr(score).startswith("EnergyScore(scale=(")
    assert ds.stack(table, score=score).converged
    huge = ds.EnergyScore(scale=(1e45, 1e45, 1e45))
    assert float(huge(ds.stack(table).view(table))) > 0
    assert ds.IntervalAggregation(alpha=[0.1, 0.2]) == ds.IntervalAggregation(alpha=(0.1, 0.2))
    assert ds.IntervalScore(alpha=float(np.float32(0.25))) == ds.IntervalScore(alpha=0.25)


def test_two_functions_of_one_name_are_two_terms(table):
    score = ds.LogScore() + ds.RankCvM(lambda t, y: t[..., 0]) + 3 * ds.RankCvM(lambda t, y: t[..., 1] ** 2)
    fit = ds.stack(table, score=score)
    assert len(fit.terms) == 3
    values = list(fit.terms.values())
    assert fit.loss == pytest.approx(values[0] + values[1] + 3 * values[2])


@pytest.mark.parametrize("diagonal", [True, False])
def test_moments_of_broken_draws_are_not_numbers_and_of_constant_ones_infinite(table, diagonal):
    cov = np.array(table.cov)
    cov[:, 0], cov[:, 1] = np.nan, 0.0
    broken = ds.Table(table.theta, mean=np.repeat(table.mean[:1], table.K, 0), cov=cov)
    rows = ds.MomentScore(diagonal).rows(view(broken)).numpy()
    assert np.isnan(rows[0])
    assert rows[1] == np.inf
    assert np.isfinite(rows[2:]).all()


class MissedTruths(ds.RowScore):
    """The share of parameters outside their intervals: a count, without a gradient."""

    needs = frozenset({"interval"})

    def rows(self, q):
        """Return it for each row, (N,)."""
        lower, upper = q.interval(0.5).unbind(-1)
        return (((q.theta < lower) | (q.theta > upper)).double().mean(1) - 0.5) ** 2


class SearchedMisses(MissedTruths):
    """The same, to be searched."""

    smooth = False


@pytest.mark.parametrize("form", [ds.Mixture(), ds.LocalMixture(), ds.SampleAggregation()])
def test_a_score_without_a_gradient_is_named_with_what_to_do(table, form):
    for score in (MissedTruths(), ds.EnergyScore() + MissedTruths()):
        with pytest.raises(
            ds.IntractableError, match=r"MissedTruths\(\) has no gradient .* `smooth = False` in Miss"
        ):
            ds.stack(table, form, score)


def test_a_score_that_is_not_smooth_is_searched(table):
    fit = ds.stack(table, score=SearchedMisses())
    alone = [ds.Stacking.single(table, k).evaluate(table, fit.score)["loss"] for k in range(table.K)]
    assert fit.loss <= min(alone)


def test_rows_of_a_score_are_one_number_each_in_torch(table):
    class InNumPy(ds.RowScore):
        needs = frozenset({"mean"})

        def rows(self, q):
            return np.abs(q.error().detach().numpy()).mean(1)

    class ByParameter(ds.RowScore):
        needs = frozenset({"mean"})

        def rows(self, q):
            return q.error() ** 2

    with pytest.raises(TypeError, match=r"`rows` of InNumPy\(\) must return a torch tensor, \(N,\); got ndarray"):
        ds.stack(table, score=InNumPy())
    with pytest.raises(ValueError, match=rf"one number per row, \({table.N},\); got \({table.N}, {table.d}\)"):
        ds.stack(table, score=ByParameter())
