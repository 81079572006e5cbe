"""Weights near one observation."""

import numpy as np
import pytest

import drystone as ds


def test_stacking_near_an_observation_of_any_kind_of_data():
    rng = np.random.default_rng(0)
    theta, log_q = rng.normal(size=(90, 1)), rng.normal(size=(3, 90))
    counts = ds.Table(theta, rng.integers(0, 3, size=(90, 1)), log_q=log_q)
    assert "effective rows" in ds.stack(counts, at=[1]).notes[0]
    constant = ds.Table(theta, np.ones((90, 1)), log_q=log_q)
    assert ds.stack(constant, at=[1.0]).converged
    spoiled = ds.Table(theta, np.where(np.arange(90) == 4, np.nan, 1.0)[:, None], log_q=log_q)
    with pytest.raises(ValueError, match=r"finite `y`; 1 of 90 rows are not \(the first: 4\)"):
        ds.stack(spoiled, at=[1.0])
    with pytest.raises(ValueError, match="standard deviations of y from the nearest simulation"):
        ds.stack(counts, at=[1e6])
