"""Statistics of draws: ranks and covariances."""

from __future__ import annotations

import numpy as np

__all__ = ["check_shares", "covariance", "share_below"]


def share_below(draws: np.ndarray, truth: np.ndarray, axis: int) -> np.ndarray:
    """Share of draws ≤ truth; NaN where a draw is not finite, lest a broken member pass for a calibrated one."""
    rank = (draws <= truth).mean(axis)
    finite = np.isfinite(draws).all(axis)
    return rank if finite.all() else np.where(finite, rank, np.nan)


def covariance(draws: np.ndarray) -> np.ndarray:
    """Covariance over S of draws (N, S, d): (N, d, d)."""
    centred = draws - draws.mean(1, keepdims=True, dtype=float)
    return np.einsum("nsi,nsj->nij", centred, centred) / (draws.shape[1] - 1)


def check_shares(rank: np.ndarray) -> None:
    """Raise if ranks are not shares, in [0, 1]; those that are not finite are nobody's business here."""
    finite = rank[np.isfinite(rank)]
    if finite.size and not 0 <= finite.min() <= finite.max() <= 1:
        raise ValueError(
            "`rank` must be in [0, 1]: the share of draws ≤ theta; got values from "
            f"{finite.min():g} to {finite.max():g}. Divide integer ranks by S."
        )
