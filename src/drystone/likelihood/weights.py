"""Importance weights in log space."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

__all__ = ["effective_points", "log_total", "normalized_weights"]


def log_total(log_w: np.ndarray) -> float:
    """Return log Σ w; −inf if every weight is 0."""
    return float(np.asarray(logsumexp(log_w)))


def normalized_weights(log_w: np.ndarray) -> np.ndarray:
    """Return w / Σ w."""
    return np.exp(log_w - log_total(log_w))


def effective_points(log_w: np.ndarray) -> float:
    """Return (Σ w)² / Σ w², the number of equal weights that carry as much; 0 if every weight is 0."""
    total = log_total(log_w)
    return float(np.exp(2 * total - log_total(2 * log_w))) if np.isfinite(total) else 0.0
