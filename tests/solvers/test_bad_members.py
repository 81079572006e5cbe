"""Members that diverged cost nothing: neither the fit of the others nor a message that blames something else."""

import numpy as np
import pytest

import drystone as ds
from helpers.tables import make_table

SCORES = {
    "mean": ds.MeanScore(),
    "moments": ds.MomentScore(),
    "diagonal moments": ds.MomentScore(diagonal=True),
    "energy": ds.EnergyScore(),
}


def with_member(table, draws, log_q=None):
    """The table with one more member, called "bad"."""
    density = table.log_q[:1] - 50 if log_q is None else log_q
    return ds.Table(
        table.theta,
        table.y,
        draws=np.concatenate([table.draws, draws]),
        log_q=np.concatenate([table.log_q, density]),
        names=[*table.names, "bad"],
    )


@pytest.mark.parametrize("far", [1e4, 1e6, 1e8, 1e10, 1e12])
@pytest.mark.parametrize("score", SCORES)
def test_a_displaced_member_changes_nothing(score, far):
    table = make_table(K=4, N=120, S=40, d=2, seed=4)
    good = ds.stack(table, score=SCORES[score])
    fit = ds.stack(with_member(table, table.draws[:1] + far), score=SCORES[score])
    assert fit.converged
    assert fit.loss == pytest.approx(good.loss, rel=1e-6)
    assert fit.weights[4] == 0
    assert any("bad: a thousand times further" in note for note in fit.notes)


@pytest.mark.parametrize("wild", [1e8, 1e12])
@pytest.mark.parametrize("score", SCORES)
def test_one_wild_draw_costs_its_member_and_no_other(score, wild):
    table = make_table(K=4, N=120, S=40, d=2, seed=4)
    good, draws = ds.stack(table, score=SCORES[score]), np.array(table.draws[:1])
    draws[0, 7, 5, 0] = wild
    fit = ds.stack(with_member(table, draws), score=SCORES[score])
    assert fit.converged
    assert fit.loss == pytest.approx(good.loss, rel=1e-6)


@pytest.mark.parametrize("score", SCORES)
def test_a_fit_that_says_it_converged_is_as_near_the_optimum_as_it_says(score):
    table = make_table(K=4, N=120, S=40, d=2, seed=4)
    # Far enough to be a nuisance in the sums, not so far as to be left out.
    bad = with_member(table, table.draws[:1] + 300.0)
    fit = ds.stack(bad, score=SCORES[score])
    assert fit.converged
    if fit.gap is not None and score == "mean":
        assert fit.gap <= 1e-8 * max(1.0, abs(fit.loss))
    assert fit.loss <= ds.stack(table, score=SCORES[score]).loss * (1 + 1e-6) + 1e-9


def test_a_member_in_another_unit_is_no_hopeless_member():
    table = make_table(K=3, N=80, seed=2)
    scaled = ds.Table(table.theta * 1e9, table.y, draws=table.draws * 1e9, log_q=table.log_q)
    assert ds.stack(scaled, score=ds.MeanScore()).notes == ()


def test_where_all_are_hopeless_all_take_part():
    table = make_table(K=3, N=80, seed=2)
    far = ds.Table(table.theta, table.y, draws=table.draws + 1e6, log_q=table.log_q)
    assert ds.stack(far, score=ds.MeanScore()).weights.sum() == pytest.approx(1)


def test_a_point_mass_does_not_refuse_a_regular_mixture():
    table = make_table(K=3, N=80, d=2, seed=3)
    point = np.repeat(np.array(table.draws[:1, :, :1]), table.draws.shape[2], 2)
    fit = ds.stack(with_member(table, point), score=ds.MomentScore())
    assert fit.loss <= ds.stack(table, score=ds.MomentScore()).loss + 1e-6


def test_fewer_draws_than_parameters_are_enough_if_the_mixture_is_regular():
    table = make_table(K=4, N=80, S=3, d=3, seed=3)
    assert np.isfinite(ds.stack(table, score=ds.MomentScore()).loss)


def test_a_singular_mixture_says_what_it_takes():
    table = make_table(K=1, N=30, S=2, d=3, seed=3)
    with pytest.raises(ValueError, match="infinite or NaN at every start: the stacked covariance"):
        ds.stack(table, score=ds.MomentScore())


@pytest.mark.parametrize("score", SCORES)
def test_parameters_far_from_zero_are_fitted_as_near_it(score):
    table = make_table(K=4, N=100, d=2, seed=6)
    shifted = ds.Table(table.theta + 1e6, table.y, draws=table.draws + 1e6, log_q=table.log_q)
    near, far = ds.stack(table, score=SCORES[score]), ds.stack(shifted, score=SCORES[score])
    assert far.converged
    assert far.loss == pytest.approx(near.loss, rel=1e-5)


@pytest.mark.parametrize("value", [1e8, 1e15, 1e30])
@pytest.mark.parametrize("score", [ds.MomentScore(), ds.MomentScore() + ds.EnergyScore()], ids=["moments", "sum"])
def test_one_runaway_draw_leaves_aggregated_samples_no_worse_than_uniform_weights(score, value):
    table = make_table(K=3, N=150, S=40, d=1, seed=6)
    draws = table.draws.copy()
    draws[1, 7, 3] = value
    spoilt = ds.Table(table.theta, draws=draws)
    fit = ds.stack(spoilt, ds.SampleAggregation(), score)
    assert fit.loss <= ds.Stacking.uniform(spoilt, score=score).evaluate(spoilt)["loss"] * (1 + 1e-9)
