"""The critic's bound of the Jensen–Shannon divergence against quadrature."""

import numpy as np
import pytest
import torch
from scipy.stats import norm

import drystone as ds
from drystone.comparison.methods import drawn
from drystone.scores.critic import pairs_of
from drystone.solvers import Minimax
from drystone.solvers.minimax import Game, Judged

SMALL = ds.JensenShannon(hidden=(16,), epochs=3)


def divergence(shift, sd):
    t = np.linspace(-14, 14, 4001)
    p, q = norm.pdf(t), norm.pdf(t, shift, sd)
    return np.trapezoid(p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q)), t) / 2


def estimates(score, repetitions, N, S, shift=lambda y: 0 * y, sd=1.0):
    values = []
    for seed in range(repetitions):
        theta, y = ds.toy.simulate(N, seed)
        noise = np.random.default_rng([seed, 1]).normal(size=(N, S, 1))
        table = ds.Table(theta, y, draws=((y + shift(y))[:, None] + sd * noise)[None])
        values.append(score.estimate(ds.Mixture().combine({"weights": torch.ones(1).double()}, table)))
    return np.array([estimate.value for estimate in values]), np.array([estimate.se for estimate in values])


@pytest.mark.parametrize(
    ("shift", "sd"),
    [(0.0, 1.3), (0.0, 0.7), (0.25, 1.0), (0.0, 1.0)],
    ids=["wide", "narrow", "shifted", "exact"],
)
def test_the_bound_reaches_the_divergence_of_a_member(shift, sd):
    values, errors = estimates(SMALL, 4, 1000, 20, lambda y: shift, sd)
    assert abs(values.mean() - divergence(shift, sd)) < 2 * errors.mean()


def test_an_exact_member_of_few_draws_is_not_told_from_the_truth():
    values, _ = estimates(SMALL, 6, 500, 4)
    assert values.mean() < 3 * values.std(ddof=1) / np.sqrt(len(values))


def test_the_critic_sees_errors_that_depend_on_the_data():
    (value,), (error,) = estimates(ds.JensenShannon(hidden=(32,), epochs=25), 1, 800, 50, np.sign)
    exact = divergence(1.0, 1.0)
    assert exact / 2 < value < exact + 3 * error


def test_truth_and_draws_of_an_exact_mixture_have_the_same_features():
    rng, N, S, weights = np.random.default_rng(0), 20_000, 5, torch.tensor([0.3, 0.7]).double()
    y = rng.normal(size=(N, 1))
    of_members = y + rng.normal(size=(2, S + 1, N, 1)) * np.array([0.5, 2.0])[:, None, None, None]
    theta = np.where(rng.uniform(size=(N, 1)) < 0.3, *of_members[:, S])
    table = ds.Table(theta, y, draws=of_members[:, :S].swapaxes(1, 2))
    truth, shown = (x.double() for x in pairs_of(ds.Mixture().combine({"weights": weights}, table), 3, seed=0))
    for power in (1, 2):
        difference = truth[:, None] ** power - shown**power
        z = difference.mean(0) / (difference.std(0) / np.sqrt(N)).clamp_min(1e-12)
        assert z.abs().max() < 4


def test_every_posterior_of_a_table_is_judged_by_the_same_features():
    """A critic that sees the ranks within one member finds less than one that sees those within all."""
    table = ds.toy.table(60, seed=1, draws=20)
    alone = ds.Stacking.single(table.names, "right").view(table)
    whole = ds.Mixture().combine({"weights": torch.tensor([1.0, 0.0, 0.0, 0.0]).double()}, table)
    assert alone.table.K == 1
    of_all = pairs_of(whole, 4, seed=0)
    for own, expected in zip(pairs_of(alone, 4, seed=0), of_all, strict=True):
        torch.testing.assert_close(own, expected)
    stored = ds.Stacking.uniform(table.names).view(table)
    assert pairs_of(alone, 4, 0)[0].shape == pairs_of(stored, 4, 0)[0].shape
    seen = drawn(ds.Stacking.single(table.names, "right"), table)
    assert pairs_of(seen, 4, 0)[0].shape[1] == of_all[-1].shape[-1]


def test_rivals_are_judged_on_all_rows_by_fits_that_have_not_seen_them():
    table = ds.toy.table(60, seed=1, draws=10)
    game, seen = Game(table, ds.Mixture(), SMALL, 0.3, seed=0), []

    def fit(rows):
        seen.append({tuple(row) for row in rows.theta})
        return torch.full((4,), 0.25).double()

    judged = game._cross_fitted(ds.Mixture(), fit)
    assert judged.bounds.shape == (60,)
    assert all(len(rows) == 48 for rows in seen)
    left_out = [{tuple(row) for row in table.theta} - rows for rows in seen]
    assert len(set.union(*left_out)) == 60
    np.testing.assert_allclose(judged.params["weights"], 0.25)


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("form", [ds.Mixture(), ds.SampleAggregation()])
@pytest.mark.parametrize("seen", [0.01, 0.15])
def test_the_mixture_of_another_score_is_kept_unless_a_critic_clearly_disagrees(monkeypatch, seen, form, dense):
    """A critic of few rows misses much, and what it sees of several posteriors differs by chance."""
    table = ds.toy.table(100, seed=1, draws=20)
    if not dense:
        table = ds.Table(table.theta, table.y, draws=table.draws, names=table.names)
    noise = np.random.default_rng(0).normal(size=30)

    def judge(game, form, params):
        narrow = float(params.get("weights", torch.zeros(4))[2] == 1)
        value = 0.2 - seen * narrow
        return Judged(form, params, value, value + 0.1 * np.roll(noise, int(narrow)), np.full(30, 1 / 30))

    monkeypatch.setattr(Game, "judge", judge)
    monkeypatch.setattr(
        Game, "_cross_fitted", lambda game, form, fit: judge(game, form, {"weights": fit(game.table)})
    )
    fit, other = (
        ds.stack(table, form, SMALL, solver=Minimax(rounds=2)),
        ds.LogScore() if dense else ds.EnergyScore(),
    )
    if seen > 0.1:
        assert fit.choice == "best member (narrow)"
        assert fit.weights[2] == 1
    else:
        assert fit.choice == f"mixture by {other!r}"
        np.testing.assert_allclose(fit.weights, ds.stack(table, score=other).weights, atol=1e-3)


def test_a_mixture_against_a_critic_does_not_lose_by_its_held_out_score():
    table = ds.toy.table(400, seed=1, draws=30)
    fit = ds.stack(table, ds.Mixture(), SMALL, solver=Minimax(rounds=60))
    assert "lower bounds" in fit.notes[0]
    game = Game(table, ds.Mixture(), SMALL, Minimax().holdout, seed=0)
    own = game.judge(ds.Mixture(), {"weights": torch.tensor(fit.weights)})
    rivals = game.rivals()
    assert not any(
        game.judge(ds.Mixture(), rival.judged.params).clearly_better(own, 1.0) for rival in rivals.values()
    )


def test_too_few_draws_to_compare_with_are_said():
    table = ds.toy.table(40, draws=2)
    with pytest.raises(ValueError, match="at least 3"):
        ds.JensenShannon().estimate(ds.stack(table).view(table))
    with pytest.raises(ValueError, match="at least 3"):
        ds.stack(table, ds.Mixture(), ds.JensenShannon())


def test_the_estimate_is_labelled_a_lower_bound_wherever_it_is_printed():
    score = ds.JensenShannon(hidden=(8,), epochs=3, draws=4)
    table = ds.toy.table(60, seed=1, draws=10)
    fit = ds.stack(table, score=score, solver=ds.solvers.Minimax(rounds=3))
    assert "(lower bound), no certificate" in repr(fit)
    assert any(line.endswith("(lower bound)") for line in fit.summary().splitlines())
    assert "held-out Jensen–Shannon (lower bounds)" in fit.notes[-1]
    metric = ds.Metric(score, "JS")
    assert metric.name == "JS (lower bound)"
    comparison = ds.compare(table, ds.toy.table(60, seed=2, draws=10), fit, metrics=[metric])
    assert "JS (lower bound) (lower is better)" in str(comparison)
    line = comparison.of(metric).methods["stacked"]
    # Paired by row: 200 critics are not trained for a standard error.
    assert 0 < line.value.se < 1
    assert (ds.EnergyScore() + score).lower_bound
    assert not ds.EnergyScore().lower_bound
