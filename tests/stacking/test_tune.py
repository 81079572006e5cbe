"""Tuning of a hybrid's coefficients."""

import numpy as np

import drystone as ds


def test_tuning_may_reduce_a_hybrid_to_one_score(table):
    tuned = ds.tune(table, lambda lam: ds.MeanScore() + lam * ds.EnergyScore(), [0.0, 0.1], metric=ds.MeanScore())
    assert np.isfinite(tuned.frame["metric"]).all()


def test_rows_of_weight_0_may_fill_a_fold(table):
    weights = np.zeros(table.N)
    weights[:40] = 1.0
    few = ds.Table(table.theta, draws=table.draws, row_weights=weights)
    tuned = ds.tune(
        few, lambda lam: ds.MeanScore() + lam * ds.EnergyScore(), [0.1], folds=10, metric=ds.MeanScore()
    )
    assert np.isfinite(tuned.frame["metric"]).all()
