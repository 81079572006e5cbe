"""Classifiers from scikit-learn, an optional extra."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["cloned", "network", "quiet"]


def network(d: int) -> Any:
    """The sbibm benchmark's classifier: two layers of 10 d units each."""
    try:
        from sklearn.neural_network import MLPClassifier
    except ImportError as error:
        raise ImportError("classifier tests need scikit-learn: pip install 'drystone[diagnostics]'.") from error
    return MLPClassifier((10 * d, 10 * d), max_iter=1000)


def cloned(classifier: Any, seed: int) -> Any:
    """An unfitted copy; with this seed, if it takes one."""
    from sklearn.base import clone

    copy = clone(classifier)
    return copy.set_params(random_state=seed) if "random_state" in copy.get_params() else copy


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warning that the last bit of the training loss was not reached: accuracy is what is reported."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
