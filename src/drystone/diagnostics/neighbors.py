"""How far rows are from a cloud of others: nearest neighbours after whitening.

Each entry is mapped to normal scores by the cloud, going on linearly beyond it, and all are whitened together. The
mean distance from the nearest neighbours is divided by that of these neighbours from theirs, so that a row between
two dense parts of the cloud stands out, and one in a thin part does not.
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree
from scipy.special import ndtri

from drystone.table.inputs import spread_or_one

__all__ = ["Neighbors"]

# Nearest neighbours whose mean distance counts.
NEIGHBORS = 5
# A direction of y needs so many rows of the cloud; further ones are summed up by what they leave over.
ROWS_PER_DIRECTION = 5
# Directions of less than this share of the largest variance are rounding.
ROUNDING = 1e-9
# What lies in directions left out is measured in units of at least this share of the largest deviation. Normal
# scores interpolate: where one column determines another, theirs are the same in the cloud, and nearly elsewhere.
LEAST_REST = 0.1
# Added to distances of coordinates of unit variance: equal rows of discrete data differ by rounding.
LEAST_DISTANCE = 1e-6


class Neighbors:
    """A cloud of whitened rows, and how far other rows are from it.

    Args:
        rows: (n, m); entries that are not finite count as the median of the others.
    """

    def __init__(self, rows: np.ndarray) -> None:
        n, m = rows.shape
        finite = np.where(np.isfinite(rows), rows, np.nan)
        empty = np.isnan(finite).all(0)
        finite[:, empty] = 0.0
        self.middle = np.nanmedian(finite, 0)
        filled = self._filled(rows)
        self.scale = spread_or_one(filled)
        levels = ndtri((np.arange(n) + 0.5) / n)
        self.maps = [_normal_scores(np.sort(column), levels) for column in filled.T]
        scores = self._scores(filled)
        self.center = scores.mean(0)
        _, deviations, axes = np.linalg.svd(scores - self.center, full_matrices=False)
        deviations = deviations / np.sqrt(max(n - 1, 1))
        count = min(m, max(1, n // ROWS_PER_DIRECTION))
        count = max(1, min(count, int((deviations**2 > ROUNDING * deviations[0] ** 2).sum())))
        # Of the directions left out, the length of what lies in them is one further coordinate.
        rest = float(np.sqrt((deviations[count:] ** 2).sum()))
        deviations = np.where(deviations > 0, deviations, 1.0)
        self.rest = max(rest, LEAST_REST * float(deviations[0])) if count < min(n, m) else 0.0
        self.axes = axes[:count].T / deviations[:count]
        self.back = axes[:count] * deviations[:count, None]
        cloud = self.whitened(filled)
        self.tree, self.k = KDTree(cloud), max(1, min(NEIGHBORS, n - 1))
        among = np.atleast_2d(self.tree.query(cloud, self.k + 1)[0])[:, 1:]
        self.of_neighbors = among.mean(1)
        self.floor = 1e-3 * float(np.median(self.of_neighbors)) + LEAST_DISTANCE

    def whitened(self, rows: np.ndarray) -> np.ndarray:
        """Return rows (n, m) as coordinates of unit variance in the cloud, (n, q)."""
        deviation = self._scores(self._filled(rows)) - self.center
        coordinates = deviation @ self.axes
        if self.rest == 0.0:
            return coordinates
        left_over = np.sqrt(((deviation - coordinates @ self.back) ** 2).sum(1, keepdims=True)) / self.rest
        return np.concatenate([coordinates, left_over], 1)

    def distance(self, rows: np.ndarray) -> np.ndarray:
        """Return the mean distance of rows (n, m) from their neighbours over that of these from theirs, (n,)."""
        distances, places = self.tree.query(self.whitened(rows), self.k)
        shape = (len(rows), self.k)
        own, others = distances.reshape(shape).mean(1), self.of_neighbors[places.reshape(shape)].mean(1)
        return (own + self.floor) / (others + self.floor)

    def _filled(self, rows: np.ndarray) -> np.ndarray:
        return np.where(np.isfinite(rows), rows, self.middle)

    def _scores(self, rows: np.ndarray) -> np.ndarray:
        """Return normal scores of each entry, going on linearly, in standard deviations, beyond the cloud."""
        scores = np.empty_like(rows, dtype=float)
        for j, (values, levels) in enumerate(self.maps):
            beyond = np.maximum(rows[:, j] - values[-1], 0.0) + np.minimum(rows[:, j] - values[0], 0.0)
            scores[:, j] = np.interp(rows[:, j], values, levels) + beyond / self.scale[j]
        return scores


def _normal_scores(ordered: np.ndarray, levels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values of an ordered column and their normal scores; of equal ones the mean, once."""
    values, first, counts = np.unique(ordered, return_index=True, return_counts=True)
    return values, np.add.reduceat(levels, first) / counts
