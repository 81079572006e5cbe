"""Every row is judged by weights that were fitted to other rows."""

from dataclasses import replace

import numpy as np
import pytest

import drystone as ds
from drystone.forms.cross_fitted import CrossFitted


@pytest.fixture(scope="module")
def table():
    return ds.toy.table(60, seed=1)


@pytest.fixture(scope="module")
def crossed(table):
    fit = ds.stack(table)
    fold = np.arange(table.N) % 3
    by_fold = np.stack([ds.stack(table.select(rows=np.flatnonzero(fold != f))).weights for f in range(3)])
    params = {"weights": fit.weights, "fold_weights": by_fold, "fold": fold}
    return replace(fit, form=CrossFitted(fit.form), params=params)


def test_each_row_has_the_statistics_of_its_fold(table, crossed):
    applied, fold = crossed.apply(table), crossed.params["fold"]
    for f, weights in enumerate(crossed.params["fold_weights"]):
        rows = np.flatnonzero(fold == f)
        alone = replace(ds.stack(table), params={"weights": weights}).apply(table.select(rows=rows))
        np.testing.assert_allclose(applied.log_q[rows], alone.log_q)
        np.testing.assert_allclose(applied.rank[rows], alone.rank)
        np.testing.assert_allclose(applied.mean[rows], alone.mean)
        np.testing.assert_allclose(applied.cov[rows], alone.cov)
        np.testing.assert_allclose(applied.interval(0.1)[rows], alone.interval(0.1))


def test_it_is_compared_by_as_many_draws_as_other_methods(table):
    """With the same weights in every fold it is the form itself, also where only moments are left of the draws."""
    of_moments = ds.Table(table.theta, log_q=table.log_q, mean=table.mean, cov=table.cov, names=table.names, S=20)
    fit = ds.stack(of_moments)
    params = {"weights": fit.weights, "fold_weights": np.tile(fit.weights, (3, 1)), "fold": np.arange(table.N) % 3}
    fits = {"crossed": replace(fit, form=CrossFitted(fit.form), params=params), "fitted": fit}
    views = [each.view(of_moments) for each in fits.values()]
    spread = [view.independent_moments(seed=0)[1].diagonal(dim1=1, dim2=2).mean() for view in views]
    assert float(views[0].cov().mean()) == pytest.approx(float(views[1].cov().mean()))
    assert float(spread[0]) != pytest.approx(float(views[0].cov().mean()), rel=1e-6), "S draws, not all there are"
    assert float(spread[0]) == pytest.approx(float(spread[1]), rel=0.1)


def test_a_comparison_is_less_flattering_than_on_the_rows_of_the_fit(table, crossed):
    fits = {"crossed": crossed, "fitted": ds.stack(table)}
    methods = ds.compare(table, table, fits).of("log density").methods
    assert methods["crossed"].value.value < methods["fitted"].value.value


def test_the_weights_of_all_rows_are_reported(table, crossed):
    np.testing.assert_array_equal(crossed.weights, ds.stack(table).weights)
    np.testing.assert_array_equal(crossed.shares(table).values, crossed.weights)
    assert crossed.summary().splitlines()[1:] == ds.stack(table).summary().splitlines()[1:]


def test_other_rows_are_refused(table, crossed):
    with pytest.raises(ValueError, match="cross-fitted weights are of 60 rows; the table has 20"):
        crossed.apply(table.select(rows=slice(0, 20))).log_q  # noqa: B018
