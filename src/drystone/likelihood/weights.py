"""Importance weights in log space."""

from __future__ import annotations

import numpy as np

__all__ = ["effective_points", "log_sum", "log_total", "normalized_weights"]


def log_sum(log_w: np.ndarray) -> np.ndarray:
    """Return log Σ_k w_k over the first axis; −inf where every w is 0.

    SciPy's function takes a tenth of a millisecond for any array, which is a row's whole budget.
    """
    highest = log_w.max(0)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(log_w - np.where(np.isfinite(highest), highest, 0.0)).sum(0)) + highest


def log_total(log_w: np.ndarray) -> float:
    """Return log Σ w; −inf if every weight is 0."""
    return float(log_sum(log_w))


def normalized_weights(log_w: np.ndarray) -> np.ndarray:
    """Return w / Σ w."""
    return np.exp(log_w - log_total(log_w))


def effective_points(log_w: np.ndarray) -> float:
    """Return (Σ w)² / Σ w², the number of equal weights that carry as much; 0 if every weight is 0."""
    total = log_total(log_w)
    return float(np.exp(2 * total - log_total(2 * log_w))) if np.isfinite(total) else 0.0
