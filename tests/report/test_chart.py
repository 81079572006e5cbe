"""Scales and paths."""

import re

import numpy as np
import pytest

from drystone.report.chart import axis, fitted, path


def points(d):
    """What a renderer makes of a path of relative lines: positions of each curve."""
    curves = []
    for curve in re.findall(r"M([^M]*)", d):
        numbers = [float(x) for x in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", curve)]
        steps = np.array(numbers).reshape(-1, 2)
        curves.append(np.cumsum(steps, 0))
    return curves


def test_a_path_reads_back_to_a_tenth_of_a_unit_wherever_it_goes():
    rng = np.random.default_rng(0)
    curves = [(50 * rng.normal(size=n).cumsum(), 3 * rng.normal(size=n).cumsum()) for n in (2, 40, 400)]
    back = points(path(curves))
    assert len(back) == 3
    for (x, y), found in zip(curves, back, strict=True):
        np.testing.assert_allclose(found, np.column_stack([x, y]), atol=0.0501)  # errors do not add up


def test_a_path_of_one_place_is_still_a_path():
    assert path([(np.array([3.0, 3.01]), np.array([4.0, 4.0]))]) == "M3 4l0 0"


@pytest.mark.parametrize(("low", "high"), [(-0.037, 0.041), (1e-7, 9e-7), (12345.0, 12399.0), (-3.0, 1e5)])
def test_ticks_are_round_numbers_within_the_axis(low, high):
    scale = axis(low, high, 20.0, 260.0)
    assert 2 <= len(scale.ticks) <= 6
    places = np.array([place for place, _ in scale.ticks])
    assert (places >= 20 - 1e-6).all()
    assert (places <= 260 + 1e-6).all()
    np.testing.assert_allclose(np.diff(places), np.diff(places)[0], rtol=1e-6)


def test_a_value_alone_stands_in_the_middle_of_its_axis():
    for value in (0.0, 3.0, -40.0):
        scale = axis(value, value, 0.0, 100.0)
        assert scale(value) == pytest.approx(50.0)


def test_long_labels_are_cut():
    assert fitted("omega_matter", 100) == "omega_matter"
    assert fitted("omega_matter_at_redshift_zero", 70) == "omega_mat…"
