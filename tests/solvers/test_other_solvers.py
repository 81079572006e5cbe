"""Rank, mean, energy and generic solvers: exact ones against the generic one, on the objective's value."""

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.solvers import ConvexConcave, ProjectedGradient, QuadraticProgram
from drystone.solvers.rank import RankDistance
from drystone.solvers.table1 import pick
from helpers.tables import make_table

pytestmark = pytest.mark.filterwarnings("ignore:ranks alone")

EXACT = [ds.LogScore(), ds.MeanScore(), ds.EnergyScore(), ds.RankCvM()]


@pytest.mark.parametrize("score", EXACT, ids=repr)
@pytest.mark.parametrize("form", [ds.Mixture(), ds.Mixture(concentration=1.4)], ids=repr)
@pytest.mark.parametrize("row_weights", [False, True])
def test_the_exact_solver_is_never_above_the_generic_one(score, form, row_weights):
    table = make_table(K=7, N=80, seed=11, row_weights=row_weights)
    exact, generic = ds.stack(table, form, score), ds.stack(table, form, score, solver=ProjectedGradient())
    c = form.pseudocount(table)

    def penalised(fit):
        return fit.loss - (c * np.log(fit.weights).sum() if c else 0)

    assert penalised(exact) <= penalised(generic) + 1e-8
    if score.convex:
        np.testing.assert_allclose(exact.weights, generic.weights, atol=1e-3)


@pytest.mark.parametrize("score", [ds.MeanScore(scale=(1.0, 2.0, 0.5)), ds.EnergyScore()], ids=repr)
def test_quadratic_scores_carry_a_certificate(table, score):
    fit = ds.stack(table, score=score)
    assert fit.solver == QuadraticProgram()
    assert fit.gap <= 1e-8


def test_mean_score_of_two_members_is_a_projection_by_hand():
    theta = np.array([[0.3], [1.1], [-0.4]])
    mean = np.stack([theta + 1.0, theta - 3.0])
    np.testing.assert_allclose(ds.stack(ds.Table(theta, mean=mean), score=ds.MeanScore()).weights, [0.75, 0.25])


def test_rank_distance_is_no_worse_than_any_of_many_random_weights():
    table = make_table(K=4, N=150, d=2, seed=2)
    fit = ds.stack(table, score=ds.RankCvM())
    rng = np.random.default_rng(0)
    distance = RankDistance(table.rank, table.row_weights)
    tried = min(distance.value(w) for w in [*np.eye(4), *rng.dirichlet(np.ones(4) / 2, 4000)])
    assert fit.loss <= tried + 1e-12
    assert fit.gap is None  # stationary and the best of several starts, but nobody can prove it
    assert fit.stationarity <= 1e-8


def test_each_round_of_the_convex_concave_procedure_lowers_the_distance():
    table = make_table(K=6, N=90, seed=8)
    losses = []
    for rounds in (1, 2, 3, 5, 50):
        solution = ConvexConcave(starts=1, rounds=rounds).solve(table, ds.Mixture(), ds.RankCvM(), 1e-9, 0)
        losses.append(float(ds.RankCvM()(ds.Mixture().combine(_tensors(solution), table))))
    assert losses == sorted(losses, reverse=True)


def _tensors(solution):
    return {"weights": torch.tensor(solution.params["weights"])}


def test_convex_sums_are_certified_and_others_are_not(table):
    convex = ds.stack(table, score=ds.LogScore() + 0.5 * ds.MeanScore() + ds.EnergyScore())
    assert convex.gap is not None
    assert convex.gap <= 1e-8 * abs(convex.loss)
    other = ds.stack(table, score=ds.LogScore() + ds.MomentScore())
    assert other.gap is None
    assert other.stationarity <= 1e-8 * abs(other.loss)


def test_noise_that_spoils_convexity_is_reported():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(15, 1))
    table = ds.Table(theta, draws=rng.normal(size=(12, 15, 5, 1)))  # twelve members that differ by noise alone
    fit = ds.stack(table, score=ds.EnergyScore())
    assert "noise of the draws" in fit.notes[0]
    other = ds.stack(table, score=ds.EnergyScore(), solver=ProjectedGradient(starts=20), tol=1)
    assert fit.loss - fit.gap <= other.loss  # the certificate covers the noise


def test_the_solver_is_picked_from_the_pair():
    assert pick(ds.Mixture(), ds.LogScore()).__class__.__name__ == "SQP"
    assert pick(ds.Mixture(), 3 * ds.RankCvM()) == ConvexConcave()
    assert pick(ds.Mixture(), ds.EnergyScore()) == QuadraticProgram()
    assert pick(ds.Mixture(), ds.MomentScore()) == ProjectedGradient()


def test_same_seed_same_weights(table):
    score = ds.LogScore() + ds.MomentScore()
    np.testing.assert_array_equal(ds.stack(table, score=score).weights, ds.stack(table, score=score).weights)


@pytest.mark.parametrize(("shift", "factor"), [(1e6, 1.0), (0.0, 1e13), (0.0, 1e-13)])
@pytest.mark.parametrize("structure", ["scalar", "diagonal", "full"])
def test_aggregated_means_do_not_depend_on_units_or_origin(shift, factor, structure):
    table = make_table(K=3, N=70, d=2)
    moved = ds.Table(factor * table.theta + shift, mean=factor * table.mean + shift)
    plain = ds.stack(table, ds.SampleAggregation(structure), ds.MeanScore())
    other = ds.stack(moved, ds.SampleAggregation(structure), ds.MeanScore())
    assert other.loss == pytest.approx(factor**2 * plain.loss, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
@pytest.mark.parametrize("score", [ds.EnergyScore(), ds.IntervalScore()], ids=repr)
def test_aggregated_samples_do_not_depend_on_units(factor, score):
    table = make_table(K=3, N=80, d=2)
    moved = ds.Table(factor * table.theta, table.y, draws=factor * table.draws)
    plain, other = (ds.stack(t, ds.SampleAggregation(), score) for t in (table, moved))
    assert other.loss == pytest.approx(factor * plain.loss, rel=1e-2)


@pytest.mark.parametrize("score", [ds.MomentScore(), ds.MeanScore()], ids=repr)
def test_mixtures_of_far_away_parameters_keep_their_weights_on_the_simplex(score):
    table = make_table(K=4, N=60)
    far = ds.Table(table.theta + 1e4, mean=table.mean + 1e4, cov=table.cov)
    near = ds.Table(table.theta, mean=table.mean, cov=table.cov)
    fit = ds.stack(far, score=score)
    assert fit.weights.sum() == pytest.approx(1, abs=1e-14)
    assert fit.loss == pytest.approx(ds.stack(near, score=score).loss, abs=1e-6)


def test_noise_of_similar_members_is_a_note_not_a_failure():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(150, 2))
    theta = y + rng.normal(size=(150, 2))
    draws = y[:, None] + 0.1 * rng.normal(size=(8, 1, 1, 2)) + rng.normal(size=(8, 150, 60, 2))
    table = ds.Table(theta, draws=draws)
    fit = ds.stack(table, score=ds.EnergyScore())
    assert fit.converged
    generic = ds.stack(table, score=ds.EnergyScore(), solver=ProjectedGradient())
    assert fit.loss - fit.gap <= generic.loss
    assert generic.loss - generic.gap <= fit.loss


def test_the_interval_score_of_a_mixture_is_never_worse_than_a_member():
    for seed in range(6):
        table = make_table(K=4, N=60, S=60, d=2, seed=seed)
        fit = ds.stack(table, ds.Mixture(), ds.IntervalScore())
        for vertex in np.eye(4):
            view = ds.Mixture().combine({"weights": torch.tensor(vertex)}, table)
            assert fit.loss <= float(ds.IntervalScore()(view)) + 1e-12


@pytest.mark.parametrize("structure", ["scalar", "diagonal", "full"])
@pytest.mark.filterwarnings("error::drystone.ConvergenceWarning")
def test_least_squares_do_not_take_the_rounding_between_duplicates_for_a_gap(structure):
    table = make_table(N=200)
    doubled = ds.Table(table.theta, draws=np.concatenate([table.draws, table.draws[:2], table.draws[:1]]))
    plain, fit = (ds.stack(t, ds.SampleAggregation(structure), ds.MeanScore()) for t in (table, doubled))
    assert fit.converged
    assert fit.loss == pytest.approx(plain.loss, rel=1e-10)


@pytest.mark.parametrize("score", [ds.MomentScore(), ds.MomentScore(diagonal=True), ds.MeanScore()], ids=repr)
@pytest.mark.parametrize("form", [ds.Mixture(), ds.SampleAggregation("diagonal")], ids=repr)
def test_moments_are_fitted_as_well_far_from_the_origin(form, score):
    table = make_table(K=4, N=120, seed=2)
    far = ds.Table(table.theta + 1e6, draws=table.draws + 1e6)
    near, fit = (ds.stack(t, form, score) for t in (ds.Table(table.theta, draws=table.draws), far))
    assert fit.converged
    assert fit.loss == pytest.approx(near.loss, rel=1e-6)


@pytest.mark.parametrize("score", [ds.EnergyScore(), ds.MeanScore(), ds.IntervalScore(), ds.LogScore()], ids=repr)
def test_a_prior_on_the_weights_does_not_depend_on_units(score):
    table = ds.toy.table(100, seed=1, draws=60)
    fits = []
    for factor in (1e-3, 1.0, 1e3):
        scaled = ds.Table(table.theta * factor, log_q=table.log_q - np.log(factor), draws=table.draws * factor)
        fits.append(ds.stack(scaled, ds.Mixture(concentration=1.5), score).weights)
    np.testing.assert_allclose(fits[0], fits[1], atol=1e-4 if score.smooth else 0.02)
    np.testing.assert_allclose(fits[2], fits[1], atol=1e-4 if score.smooth else 0.02)
    assert np.ptp(fits[1]) > 0.1


@pytest.mark.parametrize("concentration", [1.1, 1.5, 3.0])
def test_an_energy_score_with_a_prior_converges(concentration):
    for seed in range(6):
        fit = ds.stack(ds.toy.table(100, seed=seed), ds.Mixture(concentration=concentration), ds.EnergyScore())
        assert fit.converged
        assert fit.iterations < 15


@pytest.mark.parametrize(("K", "N", "seed"), [(10, 4, 0), (10, 4, 1), (20, 6, 2), (20, 40, 3)])
def test_noise_of_few_draws_leaves_an_energy_mixture_no_worse_than_any_member_or_uniform_weights(K, N, seed):
    table = make_table(K=K, N=N, S=6, d=2, seed=seed)
    fit = ds.stack(table, score=ds.EnergyScore())
    alone = [ds.Stacking.single(table, k, score=ds.EnergyScore()).evaluate(table)["loss"] for k in range(K)]
    uniform = ds.Stacking.uniform(table, score=ds.EnergyScore()).evaluate(table)["loss"]
    assert fit.loss <= min(*alone, uniform) + 1e-12
