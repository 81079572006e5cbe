"""Tests for drystone.stack: errors before solving, bad input, the result and its file."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.solvers import LBFGS, Gating, Multiplicative
from helpers.tables import make_table


class Bias(ds.RowScore):
    """A score of the user's own: error of the stacked mean, absolute where it is large."""

    needs = frozenset({"mean"})

    def rows(self, q):
        return ((q.mean() - q.theta) ** 2 + 0.1).sqrt().sum(-1)


class Kinked(ds.RowScore):
    needs = frozenset({"mean"})

    def rows(self, q):
        return (q.mean() - q.theta).abs().sum(-1)


class Needy(ds.RowScore):
    needs = frozenset({"log_q", "telepathy"})

    def rows(self, q):
        return -q.log_q()


def test_a_score_of_the_users_own_is_minimised_by_the_generic_solver(table):
    fit = ds.stack(table, score=Bias())
    for weights in [*np.eye(5), np.full(5, 0.2)]:
        error = np.tensordot(weights, table.mean, 1) - table.theta
        assert fit.loss <= np.sqrt(error**2 + 0.1).sum(1).mean() + 1e-9


def test_a_score_with_kinks_ends_no_worse_than_it_started_and_says_it_did_not_converge(table):
    with pytest.warns(ds.ConvergenceWarning, match=r"ProjectedGradient\(\) stopped after \d+ steps with stat"):
        fit = ds.stack(table, score=Kinked())
    for weights in [*np.eye(5), np.full(5, 0.2)]:
        assert fit.loss <= np.abs(np.tensordot(weights, table.mean, 1) - table.theta).sum(1).mean()


def test_what_a_form_cannot_give_is_refused_before_anything_is_solved(table):
    with pytest.raises(
        ds.IntractableError, match=r"Needy\(\) needs `telepathy`, which Mixture does not give.*none"
    ):
        ds.stack(table, score=Needy())


def test_what_the_table_lacks_is_named():
    table = ds.Table(np.ones((9, 2)), log_q=np.zeros((3, 9)))
    with pytest.raises(ValueError, match=r"MomentScore\(\) with Mixture\(\) needs `mean` and `cov`, or `draws`"):
        ds.stack(table, score=ds.MomentScore())


def test_a_solver_made_for_another_pair_is_refused(table):
    with pytest.raises(
        ds.IntractableError,
        match=r"SQP\(\) cannot solve Mixture\(\) × MeanScore\(\): it solves Mixture × LogScore",
    ):
        ds.stack(table, score=ds.MeanScore(), solver=ds.solvers.SQP())


def test_ranks_alone_warn(table):
    with pytest.warns(UserWarning, match="ranks alone are not a strict criterion"):
        ds.stack(table, score=ds.RankCvM())


def spoiled(column, value, members=(1, 3), rows=(4, 7, 9)):
    table = make_table(N=30)
    log_q, mean = table.log_q.copy(), table.mean.copy()
    {"log_q": log_q, "mean": mean}[column][np.ix_(members, rows)] = value
    return ds.Table(table.theta, log_q=log_q, mean=mean)


@pytest.mark.parametrize(("column", "value"), [("log_q", np.nan), ("log_q", np.inf), ("mean", np.nan)])
def test_bad_entries_name_their_members_and_rows(column, value):
    score = ds.LogScore() if column == "log_q" else ds.MeanScore()
    message = rf"`{column}` is NaN or infinite for 'member_1' at 3 of 30 rows, 'member_3' at 3 of 30 rows"
    with pytest.raises(ValueError, match=message):
        ds.stack(spoiled(column, value), score=score)


def test_bad_members_can_be_dropped_and_are_listed():
    fit = ds.stack(spoiled("log_q", np.nan), nonfinite="drop")
    assert fit.dropped == {"members": ["member_1", "member_3"], "rows": []}
    assert fit.weights.shape == (5,)
    assert (fit.weights[[1, 3]] == 0).all()
    whole = make_table(N=30).select(members=[0, 2, 4])
    np.testing.assert_allclose(fit.weights[[0, 2, 4]], ds.stack(whole).weights, atol=1e-6)
    # And what they say of other rows does not matter.
    assert np.isfinite(fit.evaluate(spoiled("log_q", np.nan))["loss"])


def test_one_impossible_entry_is_fine_and_a_row_of_them_is_not():
    table = make_table(N=30)
    log_q = table.log_q.copy()
    log_q[2, 5] = -np.inf
    assert ds.stack(ds.Table(table.theta, log_q=log_q)).converged
    log_q[:, [5, 11]] = -np.inf
    with pytest.raises(ValueError, match=r"density 0 .* at 2 of 30 rows \(5, 11\)"):
        ds.stack(ds.Table(table.theta, log_q=log_q))
    fit = ds.stack(ds.Table(table.theta, log_q=log_q), nonfinite="drop")
    assert fit.dropped == {"members": [], "rows": [5, 11]}
    assert fit.converged


def test_nothing_left_is_an_error():
    with pytest.raises(ValueError, match="no member is left"):
        ds.stack(ds.Table(np.ones((4, 1)), log_q=np.full((2, 4), np.nan)), nonfinite="drop")
    with pytest.raises(ValueError, match="no row is left"):
        ds.stack(ds.Table(np.ones((4, 1)), log_q=np.full((2, 4), -np.inf)), nonfinite="drop")
    with pytest.raises(ValueError, match="`nonfinite` must be"):
        ds.stack(make_table(), nonfinite="ignore")


def test_one_member_gets_all_the_weight():
    fit = ds.stack(make_table(K=1))
    np.testing.assert_array_equal(fit.weights, [1.0])
    assert fit.gap == 0


def test_fewer_rows_than_members_works_and_says_so():
    fit = ds.stack(make_table(K=9, N=4))
    assert fit.converged
    assert any("N = 4 rows for K = 9 members" in note for note in fit.notes)


def test_applied_statistics_are_those_of_the_mixture(table):
    fit = ds.stack(table)
    applied, w = fit.apply(table), fit.weights
    np.testing.assert_allclose(applied.rank, np.tensordot(w, table.rank, 1))
    np.testing.assert_allclose(applied.mean, np.tensordot(w, table.mean, 1))
    np.testing.assert_allclose(applied.log_q, np.log(w @ np.exp(table.log_q)))
    assert applied.cov.shape == (60, 3, 3)
    assert applied.draws(20).shape == (60, 20, 3)


def test_draws_of_the_stack_have_its_moments():
    table = make_table(K=3, N=40, S=3000, d=2, seed=1)
    fit = ds.stack(table, ds.Mixture(concentration=3.0))
    applied = fit.apply(table)
    draws = applied.draws(3000, seed=4)
    error = draws.mean(1) - applied.mean
    se = np.sqrt(np.diagonal(applied.cov, axis1=1, axis2=2) / 3000)
    assert np.sqrt(np.mean((error / se) ** 2)) < 1.3
    # Shuffled: the first tenth is a sample of the mixture too.
    first = (draws[:, :300].mean(1) - applied.mean) / (se * np.sqrt(10))
    assert np.sqrt(np.mean(first**2)) < 1.3


def test_a_table_with_its_members_in_another_order_is_put_in_ours(table):
    fit = ds.stack(table)
    assert fit.evaluate(table.select(members=[4, 3, 2, 1, 0])) == pytest.approx(fit.evaluate(table))
    with pytest.raises(ValueError, match="members are not those of the fit"):
        fit.evaluate(table.select(members=[0, 1]))


def test_a_fit_survives_the_disk(tmp_path, table):
    score = ds.LogScore() + 0.25 * ds.MomentScore(diagonal=True) + ds.EnergyScore(scale=(1.0, 2.0, 3.0))
    fit = ds.stack(table, ds.Mixture(1.5), score)
    fit.save(tmp_path / "fit.json")
    again = ds.Stacking.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(again.weights, fit.weights)
    assert (again.form, again.score, again.gap, again.names) == (fit.form, fit.score, fit.gap, fit.names)
    assert again.evaluate(table) == fit.evaluate(table)
    # How long it took is not part of a fit's file, which is the same to the byte whenever it is made.
    assert repr(again) == repr(replace(fit, seconds=np.nan))


def test_a_file_that_cannot_be_read_says_why(tmp_path, table):
    path = tmp_path / "fit.json"
    ds.stack(table, score=Bias()).save(path)
    with pytest.raises(ValueError, match=r"names the score 'Bias'.*pass it: Stacking.load\(path, score=...\)"):
        ds.Stacking.load(path)
    assert ds.Stacking.load(path, score=Bias()).evaluate(table)["loss"] > 0
    path.write_text(path.read_text()[:100])
    with pytest.raises(ValueError, match="not a complete JSON file"):
        ds.Stacking.load(path)
    path.write_text(json.dumps({"format": "cake"}))
    with pytest.raises(ValueError, match="is 'cake' version 0; expected 'drystone-stacking'"):
        ds.Stacking.load(path)


def test_results_are_frozen_and_print_what_matters(table):
    fit = ds.stack(table, score=ds.LogScore() + ds.RankCvM())
    with pytest.raises(AttributeError):
        fit.loss = 0.0  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError, match="read-only"):
        fit.weights[0] = 1.0
    heaviest = fit.names[int(np.argmax(fit.weights))]
    assert heaviest in fit.summary()
    assert "RankCvM()" in fit.summary()
    assert "carry weight" in repr(fit)


def test_global_random_state_and_thread_count_are_left_alone(table):
    torch.manual_seed(3)
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    legacy = np.random.get_state(legacy=False)["state"]["key"].copy()  # noqa: NPY002 - what we check is this
    ds.stack(table, score=ds.LogScore() + ds.MomentScore())
    assert torch.equal(before, torch.random.get_rng_state())
    np.testing.assert_array_equal(legacy, np.random.get_state(legacy=False)["state"]["key"])  # noqa: NPY002
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(
    ("form", "score"),
    [
        (ds.Mixture(), ds.LogScore()),
        (ds.Mixture(), ds.MeanScore()),
        (ds.Mixture(), ds.EnergyScore()),
        (ds.Mixture(1.5), ds.LogScore()),
        (ds.IntervalAggregation(), ds.IntervalScore()),
        (ds.SampleAggregation(), ds.MeanScore()),
    ],
    ids=repr,
)
def test_a_score_with_a_coefficient_is_solved_like_the_score(table, form, score):
    plain, scaled = ds.stack(table, form, score), ds.stack(table, form.penalised(3), 3 * score)
    for name, value in plain.params.items():
        np.testing.assert_allclose(scaled.params[name], value, atol=1e-6)
    assert scaled.loss == pytest.approx(3 * plain.loss)


def test_the_gap_of_a_scaled_score_is_scaled_too(table):
    with pytest.warns(ds.ConvergenceWarning):
        fit = ds.stack(table, score=1000 * ds.LogScore(), solver=Multiplicative(steps=3))
    assert fit.loss - 1000 * ds.stack(table).loss <= fit.gap


def test_single_precision_draws_work_with_every_form():
    table = make_table(N=80)
    single = ds.Table(table.theta, table.y, log_q=table.log_q, draws=table.draws.astype(np.float32))
    for form, score in (
        (ds.IntervalAggregation(), ds.IntervalScore()),
        (ds.SampleAggregation(), ds.EnergyScore()),
        (ds.Mixture(), ds.MomentScore()),
    ):
        assert np.isfinite(ds.stack(single, form, score).loss)


def test_rows_without_weight_are_as_if_they_were_not_there():
    table = make_table(N=60)
    a = np.ones(60)
    a[[3, 17]] = 0
    log_q = table.log_q.copy()
    log_q[:, 3] = -np.inf
    masked = ds.Table(table.theta, table.y, log_q=log_q, draws=table.draws, row_weights=a)
    without = table.select(rows=np.flatnonzero(a))
    for form, score in ((ds.Mixture(), ds.LogScore()), (ds.IntervalAggregation(), ds.IntervalScore())):
        assert ds.stack(masked, form, score).loss == pytest.approx(ds.stack(without, form, score).loss)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score": ds.LogScore}, r"`score` must be a Score; got .*Did you mean LogScore\(\)\?"),
        ({"form": ds.LogScore()}, r"`form` must be a Form; got LogScore\(\). Is it `score=...` that you mean\?"),
        ({"score": "log"}, "`score` must be a Score; got 'log'"),
    ],
)
def test_arguments_of_the_wrong_kind_are_told_apart(table, arguments, message):
    with pytest.raises(TypeError, match=message):
        ds.stack(table, **arguments)


@pytest.mark.parametrize(
    ("solver", "score"),
    [
        (ds.solvers.LBFGS(), ds.LogScore()),
        (ds.solvers.Gating(), ds.LogScore()),
        (ds.solvers.Minimax(), ds.LogScore()),
        (ds.solvers.ProjectedGradient(), ds.JensenShannon()),
    ],
    ids=repr,
)
def test_a_solver_for_something_else_is_refused(table, solver, score):
    with pytest.raises(ds.IntractableError, match="cannot solve"):
        ds.stack(table, score=score, solver=solver)


def test_a_form_of_the_users_own_that_is_a_mixture_is_solved_as_one(table):
    class Renamed(ds.Mixture):
        pass

    assert ds.stack(table, Renamed()).weights == pytest.approx(ds.stack(table).weights, abs=1e-4)


def test_draws_in_files_can_be_stacked_for_a_sum(tmp_path, table):
    for k, name in enumerate(table.names):
        ds.adapters.to_file(
            tmp_path / f"{name}.npz", theta=table.theta, log_q=table.log_q[k], draws=table.draws[k]
        )
    score = ds.LogScore() + ds.EnergyScore()
    fit = ds.stack(ds.adapters.from_files(str(tmp_path / "*.npz")), score=score)
    np.testing.assert_allclose(fit.weights, ds.stack(table, score=score).weights, atol=1e-6)


def test_an_impossible_row_without_weight_is_as_if_it_were_not_there():
    table = make_table(N=61)
    log_q, weights = table.log_q.copy(), np.ones(61)
    log_q[:, 7], weights[7] = -np.inf, 0
    table = ds.Table(table.theta, log_q=log_q, row_weights=weights)
    rest = table.select(rows=np.flatnonzero(weights))
    fit = ds.stack(table)
    assert fit.evaluate(table)["loss"] == pytest.approx(fit.loss)
    assert ds.compare(table, table).frame.equals(ds.compare(rest, rest).frame)


@pytest.mark.parametrize(("form", "solver"), [(ds.SampleAggregation(), LBFGS()), (ds.LocalMixture(), Gating())])
def test_what_has_no_gradient_is_refused_before_anything_is_solved(table, form, solver):
    with pytest.raises(ds.IntractableError):
        ds.stack(table, form, ds.JensenShannon(), solver=solver)


def test_stacking_members_that_say_nothing():
    table = make_table(K=3, N=60, d=2)
    constant = ds.Table(
        table.theta, mean=np.zeros((3, 60, 2)), quantiles={0.05: np.zeros((3, 60, 2)), 0.95: np.zeros((3, 60, 2))}
    )
    assert np.isfinite(ds.stack(constant, ds.SampleAggregation(), ds.MeanScore()).loss)
    assert np.isfinite(ds.stack(constant, ds.IntervalAggregation(intercept=False), ds.IntervalScore()).loss)


def test_numbers_that_are_not_finite_are_explained(table):
    log_q = table.log_q.copy()
    log_q[2, 5] = np.nan
    broken = ds.Table(table.theta + 1, log_q=log_q)
    with pytest.warns(UserWarning, match=r"`log_q` of the test rows .* 'member_2' at 1 of 60 rows"):
        ds.compare(ds.Table(table.theta, log_q=table.log_q), broken)


def test_a_row_that_is_nan_for_every_member_is_dropped_and_costs_no_member():
    table = make_table(N=30)
    log_q = table.log_q.copy()
    log_q[:, 7], log_q[:, 11], log_q[2, 4] = np.nan, -np.inf, np.nan
    fit = ds.stack(ds.Table(table.theta, log_q=log_q), nonfinite="drop")
    assert fit.dropped == {"members": ["member_2"], "rows": [7, 11]}
    usable = table.select(members=[0, 1, 3, 4], rows=np.delete(np.arange(30), [7, 11]))
    np.testing.assert_allclose(fit.weights[[0, 1, 3, 4]], ds.stack(usable).weights, atol=1e-6)


@pytest.mark.parametrize("form", [ds.LikelihoodMixture(), ds.Product(simplex=True), ds.Product(defensive=0)])
def test_a_row_that_no_member_explains_at_points_is_named_or_dropped(form):
    table = make_table(N=30, points=20, likelihoods=isinstance(form, ds.LikelihoodMixture))
    log_f = table.log_f.copy()
    log_f[:, 3] = -np.inf
    arrays = {name: getattr(table, name) for name in ("points", "log_r", "log_prior", "likelihoods")}
    spoilt = ds.Table(table.theta, log_f=log_f, **arrays)
    with pytest.raises(ValueError, match=r"density 0 .* at 1 of 30 rows \(3\)"):
        ds.stack(spoilt, form)
    fit = ds.stack(spoilt, form, nonfinite="drop")
    assert fit.dropped["rows"] == [3]
    whole = ds.Table(table.theta, log_f=table.log_f, **arrays).select(rows=np.delete(np.arange(30), 3))
    np.testing.assert_allclose(fit.weights, ds.stack(whole, form).weights, atol=1e-6)


def test_a_tolerance_that_no_fit_can_meet_is_refused(table):
    with pytest.raises(ValueError, match="`tol` must be positive; got -1"):
        ds.stack(table, tol=-1)


def test_a_fit_of_names_alone_has_the_parameters_of_its_reference_or_asks_for_them():
    fit, reference = ds.Stacking.single(list(ds.toy.MEMBERS), "wide"), ds.toy.table(50, seed=1)
    assert fit.posterior(ds.toy.MEMBERS, reference=reference).at([0.3], draws=100).draws.shape == (100, 1)
    with pytest.raises(ValueError, match="does not know the parameters: give `parameters`"):
        fit.posterior(ds.toy.MEMBERS)
