"""Fits in files."""

from typing import Any

import numpy as np
import pytest

import drystone as ds
from helpers.tables import make_table


def test_a_fit_with_code_in_it_says_so_when_loaded(tmp_path, table):
    def norm(theta, y):
        return np.linalg.norm(theta, axis=-1)

    score = ds.LogScore() + ds.RankCvM(norm)
    fit = ds.stack(table, score=score)
    fit.save(tmp_path / "fit.json")
    with pytest.raises(ValueError, match=r"`statistic` of RankCvM is code, which is not stored"):
        ds.Stacking.load(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json", score=score).evaluate(table) == fit.evaluate(table)


@pytest.mark.parametrize("structure", ["scalar", "diagonal", "full"])
def test_fits_by_least_squares_can_be_saved(tmp_path, structure):
    fit = ds.stack(make_table(), ds.SampleAggregation(structure), ds.MeanScore())
    fit.save(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json").gap == fit.gap


def test_fits_with_numpy_numbers_in_them_can_be_saved(tmp_path, table):
    numbers: Any = (np.float32(1.5), np.int64(10))
    ds.stack(table, ds.Mixture(numbers[0]), ds.EnergyScore(draws=numbers[1])).save(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json").form == ds.Mixture(1.5)
