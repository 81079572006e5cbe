"""Tests for drystone.stack: errors before solving, bad input, the result and its file."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

import drystone as ds
from conftest import make_table


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
    with pytest.warns(ds.ConvergenceWarning, match=r"Gradient\(\) stopped after \d+ steps with stationarity"):
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
    with pytest.raises(ValueError, match=r"names 'Bias'.*pass it: Stacking.load\(path, score=...\)"):
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
