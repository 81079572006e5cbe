"""Tuning of a hybrid's coefficients."""

import numpy as np

import drystone as ds


def test_tuning_may_reduce_a_hybrid_to_one_score(table):
    tuned = ds.tune(table, lambda lam: ds.MeanScore() + lam * ds.EnergyScore(), [0.0, 0.1], metric=ds.MeanScore())
    assert np.isfinite(tuned.frame["metric"]).all()
