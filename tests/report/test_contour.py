"""Level lines against closed forms."""

import numpy as np
import pytest

from drystone.report.contour import level_lines


def area(line):
    """The area a closed line encloses, positive whichever way it runs."""
    x, y = line.T
    return abs((x * np.roll(y, -1) - y * np.roll(x, -1)).sum()) / 2


def test_the_level_line_of_a_cone_is_a_circle():
    i, j = np.meshgrid(np.arange(41.0), np.arange(53.0), indexing="ij")
    distance = np.hypot(i - 19.3, j - 25.7)
    (line,) = level_lines(-distance, -11.2)
    np.testing.assert_allclose(np.hypot(*(line - [19.3, 25.7]).T), 11.2, atol=0.02)  # linear between nodes
    assert area(line) == pytest.approx(np.pi * 11.2**2, rel=2e-3)


def test_two_hills_have_two_lines_and_a_ring_has_a_hole():
    i, j = np.meshgrid(np.arange(60.0), np.arange(60.0), indexing="ij")
    hills = np.exp(-((i - 15) ** 2 + (j - 20) ** 2) / 20) + np.exp(-((i - 42) ** 2 + (j - 37) ** 2) / 20)
    assert len(level_lines(hills, 0.5)) == 2
    ring = -np.abs(np.hypot(i - 30, j - 30) - 15)
    assert sorted(area(line) for line in level_lines(ring, -3.0)) == pytest.approx(
        [np.pi * 12**2, np.pi * 18**2], rel=1e-2
    )


def test_a_line_closes_at_the_border_of_the_grid():
    (line,) = level_lines(np.ones((4, 7)), 0.5)
    np.testing.assert_allclose([line.min(0), line.max(0)], [[0, 0], [3, 6]], atol=1e-6)


def test_below_the_level_there_is_no_line():
    assert level_lines(np.zeros((5, 5)), 0.5) == []
