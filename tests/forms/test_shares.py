"""What each member contributes, for every form."""

import numpy as np
import pytest

import drystone as ds
from drystone.forms import Shares
from helpers.tables import make_table


def test_equal_weights_count_every_member_and_a_single_one_counts_once():
    assert Shares("weight", np.full(7, 1 / 7), True).effective == pytest.approx(7)
    assert Shares("weight", np.array([0.0, 1.0, 0.0]), True).effective == pytest.approx(1)


def test_weights_of_a_local_mixture_are_averaged_over_rows():
    table = make_table(K=4, N=300, row_weights=True)
    # Which member is right depends on the sign of the first datum: weights that do are better by far.
    log_q = table.log_q + 6 * np.sign(table.y[:, 0]) * np.array([[1.0], [-1.0], [0.5], [-0.5]])
    local = ds.stack(ds.Table(table.theta, y=table.y, log_q=log_q), ds.LocalMixture(epochs=60))
    assert isinstance(local.form, ds.LocalMixture)
    found = local.shares(table)
    assert found.simplex
    assert found.values.sum() == pytest.approx(1)
    halves = [local.shares(table.select(rows=rows)).values for rows in (table.y[:, 0] > 0, table.y[:, 0] < 0)]
    share = table.row_weights[table.y[:, 0] > 0].sum()
    np.testing.assert_allclose(found.values, share * halves[0] + (1 - share) * halves[1])


@pytest.mark.parametrize(
    ("form", "score"),
    [
        (ds.SampleAggregation(), ds.MeanScore()),
        (ds.IntervalAggregation(), ds.IntervalScore()),
        (ds.IntervalAggregation(alpha=(0.1, 0.5), shared=True), ds.IntervalScore((0.1, 0.5))),
    ],
)
def test_other_forms_show_their_largest_coefficient(form, score):
    table = make_table(K=4, N=150)
    fit = ds.stack(table, form, score)
    found = fit.shares(table)
    assert not found.simplex
    assert found.values.shape == (4,)
    used = np.zeros(4, bool)
    used[form.active_members(fit.params)[0]] = True
    np.testing.assert_array_equal(found.values > 0, used)
