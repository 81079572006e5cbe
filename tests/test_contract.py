"""The heart: every (form, score) pair either works and obeys the laws, or is refused, as Table 1 says."""

import warnings

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.forms import FORMS
from drystone.solvers.table1 import cells
from helpers.tables import make_table

FORM_CASES = {
    "mixture": ds.Mixture(),
    "regularised mixture": ds.Mixture(concentration=1.2),
    "local mixture": ds.LocalMixture(hidden=(8,), epochs=20),
    "samples": ds.SampleAggregation(),
    "samples, scalar": ds.SampleAggregation("scalar"),
    "samples, full": ds.SampleAggregation("full"),
    "intervals": ds.IntervalAggregation(),
    "product": ds.Product(),
    "product, simplex": ds.Product(simplex=True),
    "likelihoods": ds.LikelihoodMixture(),
}
# Forms that are fitted by the log score alone.
LOG_ONLY = ("product", "product, simplex", "likelihoods")
SCORE_CASES = {
    "log": ds.LogScore(),
    "rank CvM": ds.RankCvM(),
    "rank CvM of a statistic": ds.RankCvM(lambda theta, y: theta.sum(-1)),
    "rank moments": ds.RankMoments(),
    "moments": ds.MomentScore(),
    "moments, diagonal": ds.MomentScore(diagonal=True),
    "mean": ds.MeanScore(),
    "energy": ds.EnergyScore(),
    "interval": ds.IntervalScore(),
    "Jensen–Shannon": ds.JensenShannon(hidden=(8,), epochs=3, draws=4),
    "log + rank": ds.LogScore() + 0.3 * ds.RankCvM(),
    "log + mean + energy": ds.LogScore() + 0.5 * ds.MeanScore() + 2 * ds.EnergyScore(),
    "energy + Jensen–Shannon": ds.EnergyScore() + ds.JensenShannon(hidden=(8,), epochs=3, draws=4),
}
PAIRS = [(form, score) for form in FORM_CASES for score in SCORE_CASES]
# The blank cells of Table 1, and nothing else, are refused.
BLANK = {
    *(("intervals", score) for score in SCORE_CASES if score != "interval"),
    *(
        (form, score)
        for form in FORM_CASES
        if form.startswith("samples")
        for score in SCORE_CASES
        if "log" in score
    ),
    *((form, score) for form in LOG_ONLY for score in SCORE_CASES if score != "log"),
    *(("local mixture", score) for score in SCORE_CASES if "Jensen" in score),
}
MIXTURE_SCORES = [name for name in SCORE_CASES if "Jensen" not in name and name != "interval"]


def solve(table, form, score):
    solver = ds.solvers.Minimax(rounds=3) if "Jensen" in score else None
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "ranks alone")
        return ds.stack(table, FORM_CASES[form], SCORE_CASES[score], solver=solver)


@pytest.mark.parametrize(("form", "score"), PAIRS)
def test_a_pair_works_or_is_refused_as_table_1_says(form, score):
    table = make_table(K=4, N=80, seed=5)
    if form in LOG_ONLY:
        table = make_table(K=4, N=80, seed=5, points=40, likelihoods=form == "likelihoods")
    if (form, score) in BLANK:
        with pytest.raises(ds.IntractableError, match=r"needs `\w+`, which \w+ does not give|cannot solve"):
            solve(table, form, score)
        return
    fit = solve(table, form, score)
    assert np.isfinite(fit.loss)
    assert fit.converged
    assert fit.evaluate(table)["loss"] == pytest.approx(fit.loss)
    assert set(fit.terms) == {repr(term) for _, term in SCORE_CASES[score].terms}
    if "weights" in fit.params:
        assert fit.weights.min() >= 0
    if "weights" in fit.params and form != "product":
        assert fit.weights.sum() == pytest.approx(1)


def test_the_registry_knows_the_same_blank_cells():
    for (form, score), cell in cells().items():
        named = [(f, s) for f in FORM_CASES for s in SCORE_CASES if _is(f, form) and _is_single(s, score)]
        assert named
        for pair in named:
            if pair[1] != "rank CvM of a statistic":
                assert bool(cell.why_blank) == (pair in BLANK), pair
    assert sum(not cell.why_blank for cell in cells().values()) >= 15


def _is(name, form):
    return type(FORM_CASES[name]) is form


def _is_single(name, score):
    return type(SCORE_CASES[name]) is score


@pytest.mark.parametrize("form", ["mixture", "regularised mixture"])
@pytest.mark.parametrize("score", MIXTURE_SCORES)
def test_permuting_the_members_permutes_the_weights(form, score):
    table = make_table(K=4, N=50, seed=6)
    order = np.array([2, 0, 3, 1])
    straight, permuted = solve(table, form, score), solve(table.select(members=order), form, score)
    assert permuted.loss == pytest.approx(straight.loss, abs=1e-6)
    if SCORE_CASES[score].convex:  # elsewhere another minimum may be as good
        np.testing.assert_allclose(permuted.weights, straight.weights[order], atol=2e-3)


@pytest.mark.parametrize("score", MIXTURE_SCORES)
def test_a_member_given_twice_changes_no_score(score):
    table = make_table(K=4, N=50, seed=7)
    twice = _concatenate(table, table.select(members=[1]), names=["a", "b", "c", "d", "b again"])
    weights, shared = np.array([0.1, 0.4, 0.2, 0.3]), np.array([0.1, 0.15, 0.2, 0.3, 0.25])
    assert loss_at(twice, shared, SCORE_CASES[score]) == pytest.approx(loss_at(table, weights, SCORE_CASES[score]))
    once_fitted, twice_fitted = (solve(t, "mixture", score) for t in (table, twice))
    # Where there may be several minima, different random starts may end in different ones.
    tolerance = 1e-7 if SCORE_CASES[score].convex else 1e-3 * abs(once_fitted.loss)
    assert twice_fitted.loss == pytest.approx(once_fitted.loss, abs=tolerance)


@pytest.mark.parametrize("score", MIXTURE_SCORES)
def test_the_stack_is_never_worse_than_the_best_member_or_uniform_weights(score):
    table = make_table(K=5, N=70, seed=8)
    fit = solve(table, "mixture", score)
    for weights in [*np.eye(5), np.full(5, 0.2)]:
        assert fit.loss <= loss_at(table, weights, SCORE_CASES[score]) + 1e-9


STRICT = ["log", "energy", "moments", "log + rank", "log + mean + energy"]


@pytest.mark.parametrize("score", STRICT)
def test_an_exact_member_among_bad_ones_is_found(score):
    rng = np.random.default_rng(9)
    N, S, d = 3000, 200, 2
    y = rng.normal(size=(N, d))
    theta = y + rng.normal(size=(N, d))
    shift, sd = np.array([1.5, 0.0, -1.2]), np.array([1.0, 1.0, 0.4])
    draws = y[:, None] + shift[:, None, None, None] + sd[:, None, None, None] * rng.normal(size=(3, N, S, d))
    z = (theta - y - shift[:, None, None]) / sd[:, None, None]
    log_q = (-(z**2) / 2 - np.log(sd)[:, None, None]).sum(-1)
    fit = solve(ds.Table(theta, y, log_q=log_q, draws=draws), "mixture", score)
    assert fit.weights[1] > 0.95


@pytest.mark.parametrize("score", ["log", "rank CvM", "mean", "energy", "moments", "log + rank"])
def test_shifting_theta_and_its_posteriors_together_changes_no_weight(score):
    table = make_table(K=4, N=50, seed=10)
    moved = ds.Table(table.theta + 3.0, table.y, log_q=table.log_q, draws=table.draws + 3.0)
    np.testing.assert_allclose(
        solve(moved, "mixture", score).weights, solve(table, "mixture", score).weights, atol=1e-4
    )


def test_rescaling_theta_does_what_the_algebra_says():
    table, factor = make_table(K=4, N=50, d=2, seed=12), 7.0
    scaled = ds.Table(
        table.theta * factor, table.y, log_q=table.log_q - 2 * np.log(factor), draws=table.draws * factor
    )
    for name, expected in {
        "log": lambda loss: loss + 2 * np.log(factor),
        "moments": lambda loss: loss + 4 * np.log(factor),
        "mean": lambda loss: loss * factor**2,
        "energy": lambda loss: loss * factor,
        "rank CvM": lambda loss: loss,
    }.items():
        assert solve(scaled, "mixture", name).loss == pytest.approx(
            expected(solve(table, "mixture", name).loss), rel=1e-6
        )


def test_every_form_is_in_the_contract():
    assert {type(form) for form in FORM_CASES.values()} == set(FORMS)


def loss_at(table, weights, score):
    return float(score(ds.Mixture().combine({"weights": torch.tensor(weights)}, table)))


def _concatenate(first, second, names):
    return ds.Table(
        first.theta,
        first.y,
        log_q=np.concatenate([first.log_q, second.log_q]),
        draws=np.concatenate([first.draws, second.draws]),
        names=names,
    )
