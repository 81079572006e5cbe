"""Classifiers from scikit-learn, an optional extra."""

from __future__ import annotations

from typing import Any

__all__ = ["cloned", "network"]


def network(d: int) -> Any:
    """Return the sbibm benchmark's classifier: two layers of 10 d units each."""
    from sklearn.neural_network import MLPClassifier

    # So many passes are never made: training stops when the loss has not fallen for ten.
    return MLPClassifier((10 * d, 10 * d), max_iter=10_000)


def cloned(classifier: Any, seed: int) -> Any:
    """Return an unfitted copy, with this seed if the classifier takes one."""
    from sklearn.base import clone

    copy: Any = clone(classifier)
    return copy.set_params(random_state=seed) if "random_state" in copy.get_params() else copy
