"""A user's own form and solver go all the way: stack, posterior, compare, files, report, advice."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import drystone as ds
from drystone.forms.simplex import WeightedForm

EXAMPLE = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "own_form.py"))
LinearProgram, QuantileAveraging = EXAMPLE["LinearProgram"], EXAMPLE["QuantileAveraging"]
SCORE = ds.IntervalScore()


@pytest.fixture(scope="module")
def table():
    return ds.toy.table(150, seed=1, draws=60)


@pytest.fixture(scope="module")
def fit(table):
    return ds.stack(table, QuantileAveraging(), SCORE)


def test_its_own_solver_is_used_and_no_other_does_better(table, fit):
    assert fit.solver == LinearProgram()
    assert fit.status is ds.solvers.Status.CERTIFIED
    generic = ds.stack(table, QuantileAveraging(), SCORE, solver=ds.solvers.ProjectedGradient())
    assert fit.loss - 1e-9 <= generic.loss <= 1.02 * fit.loss


def test_a_posterior_averages_the_members_quantiles(fit):
    posterior = fit.posterior(ds.toy.MEMBERS)
    middle = [1.3 + member.shift for member in ds.toy.MEMBERS.values()]
    ends = posterior.interval(np.array([1.3]), 0.5, seed=0)
    np.testing.assert_allclose(ends.mean(), fit.weights @ middle, atol=0.1)
    with pytest.raises(ds.IntractableError, match="QuantileAveraging has no density"):
        posterior.log_prob(np.zeros((1, 1)), np.array([1.3]))


def test_it_is_compared_and_reported(table, fit, tmp_path):
    frame = ds.compare(table, table, fit).frame
    assert "stacked" in set(frame.loc[frame["metric"] == "90% interval score", "method"])
    path = ds.report.write(tmp_path / "report.html", validation=table, test=table, fits=fit)
    assert "QuantileAveraging() × IntervalScore()" in path.read_text()


def test_it_is_saved_and_read_with_the_objects_that_are_code(fit, tmp_path):
    fit.save(tmp_path / "fit.json")
    with pytest.raises(ValueError, match=r"'QuantileAveraging', which is not one of Drystone's.*form=\.\.\."):
        ds.Stacking.load(tmp_path / "fit.json")
    again = ds.Stacking.load(tmp_path / "fit.json", form=QuantileAveraging())
    np.testing.assert_array_equal(again.weights, fit.weights)
    assert again.solver == "LinearProgram"
    assert (
        ds.Stacking.load(tmp_path / "fit.json", form=QuantileAveraging(), solver=LinearProgram()).solver
        == fit.solver
    )


def test_a_form_may_name_an_existing_solver_and_weights_on_the_simplex_need_not(table):
    class Generic(QuantileAveraging):
        def default_solver(self):
            return ds.solvers.ProjectedGradient(steps=40)

    class Plain(QuantileAveraging):
        def default_solver(self):
            return None

    assert ds.stack(table, Generic(), SCORE).solver == ds.solvers.ProjectedGradient(steps=40)
    plain = ds.stack(table, Plain(), SCORE)
    assert plain.solver == ds.solvers.ProjectedGradient()
    assert plain.loss <= 1.02 * ds.stack(table, QuantileAveraging(), SCORE).loss


def test_a_form_without_a_solver_is_told_so(table):
    class Unsolved(WeightedForm):
        gives = frozenset({"mean"})

        def combine(self, params, table, softness=0.0):
            return ds.Mixture().combine(params, table, softness)

    with pytest.raises(
        ds.IntractableError, match="no solver is known for Unsolved: return one from its `default_solver`"
    ):
        ds.stack(table, Unsolved(), ds.MeanScore())


def test_single_members_and_uniform_weights_are_stackings_that_were_not_fitted(table):
    single = ds.Stacking.single(table.names, table.names[2], parameters=table.parameters)
    uniform = ds.Stacking.uniform(table.names, parameters=table.parameters)
    np.testing.assert_array_equal(single.weights, np.eye(table.K)[2])
    np.testing.assert_array_equal(single.apply(table).log_q, table.log_q[2])
    assert single.evaluate(table)["loss"] == pytest.approx(-table.log_q[2].mean())
    assert uniform.status is ds.solvers.Status.NOT_FITTED
    assert not uniform.converged
    assert np.isnan(uniform.loss)
    assert "not fitted" in repr(uniform)


def test_a_table_stands_for_the_names_of_its_members(table):
    single = ds.Stacking.single(table, "wide")
    assert single.names == table.names
    assert single.parameters == tuple(table.parameters)
    np.testing.assert_array_equal(single.weights, ds.Stacking.single(table.names, "wide").weights)
    np.testing.assert_array_equal(ds.Stacking.uniform(table).weights, np.full(table.K, 1 / table.K))


def test_a_member_that_is_none_is_named_with_those_that_are(table):
    for member in ("nobody", 4, -5):
        with pytest.raises(ValueError, match=rf"one of 4 members \(right, left, narrow, wide\); got {member!r}"):
            ds.Stacking.single(table, member)
    with pytest.raises(
        TypeError, match="`names` must be the names of all members, or a table of them; got 'left'"
    ):
        ds.Stacking.single("left", 0)
