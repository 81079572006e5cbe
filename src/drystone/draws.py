"""Statistics of draws: ranks and covariances."""

from __future__ import annotations

import numpy as np

__all__ = ["covariance", "share_below"]


def share_below(draws: np.ndarray, truth: np.ndarray, axis: int) -> np.ndarray:
    """Share of draws ≤ truth; NaN where a draw is not finite, lest a broken member pass for a calibrated one."""
    rank = (draws <= truth).mean(axis)
    finite = np.isfinite(draws).all(axis)
    return rank if finite.all() else np.where(finite, rank, np.nan)


def covariance(draws: np.ndarray) -> np.ndarray:
    """Covariance over S of draws (N, S, d): (N, d, d)."""
    centred = draws - draws.mean(1, keepdims=True, dtype=float)
    return np.einsum("nsi,nsj->nij", centred, centred) / (draws.shape[1] - 1)
