r"""Classifier two-sample test (Lopez-Paz & Oquab 2017): how well a classifier tells two samples apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone._messages import require
from drystone.diagnostics.classifiers import cloned, network
from drystone.estimate import Estimate, split_folds
from drystone.table.inputs import spread_or_one

__all__ = ["C2ST", "c2st", "cross_validated_error"]


@dataclass(frozen=True, eq=False)
class C2ST:
    """How well a classifier tells two samples apart on draws it was not trained on.

    Attributes:
        accuracy: share classified correctly: ½ if the samples cannot be told apart, 1 if they never mix, with its
            standard error (:func:`cross_validated_error`).
        folds: accuracy in each fold, (F,).

    Example:
        >>> import drystone as ds, numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> draws = np.random.default_rng(1).normal(size=(500, 2))
        >>> result = ds.diagnostics.c2st(draws[:250], draws[250:] + 10, classifier=LogisticRegression())
        >>> result.accuracy.value, result.folds.shape
        (1.0, (5,))
    """

    accuracy: Estimate
    folds: np.ndarray

    def __str__(self) -> str:
        return f"C2ST accuracy {self.accuracy} (0.5: cannot be told apart)"

    __repr__ = __str__


def c2st(draws: ArrayLike, reference: ArrayLike, *, classifier: Any = None, folds: int = 5, seed: int = 0) -> C2ST:
    """Cross-validate the accuracy of a classifier that tells ``draws`` from ``reference``.

    Args:
        draws: a sample of the posterior in question, (S, d).
        reference: a sample of the exact one, (S', d); the larger sample is cut to the size of the smaller, so that
            ½ always means the same.
        classifier: any scikit-learn classifier; None for the network of the sbibm benchmark (two layers of 10 d
            units), which its published numbers use. ``RandomForestClassifier()`` is quicker for large d.
        folds: of the cross-validation.
        seed: of the folds and the classifier.

    Example:
        >>> import drystone as ds, numpy as np
        >>> from sklearn.linear_model import LogisticRegression
        >>> draws, exact = np.random.default_rng(1).normal(size=(2, 500, 2))
        >>> print(ds.diagnostics.c2st(draws, exact, classifier=LogisticRegression()).accuracy)
        0.513 ± 0.020
    """
    require("sklearn", "diagnostics", "a classifier test")
    a, b = as_numpy(draws), as_numpy(reference)
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise ValueError(f"`draws` and `reference` must have shapes (S, d), (S', d); got {a.shape}, {b.shape}.")
    rng, n = np.random.default_rng(seed), min(len(a), len(b))
    a, b = (sample[rng.permutation(len(sample))[:n]] for sample in (a, b))
    x = (np.concatenate([a, b]) - b.mean(0)) / spread_or_one(b)
    label = np.repeat([0, 1], n)
    classifier = network(a.shape[1]) if classifier is None else classifier
    right, accuracies = np.empty(2 * n, bool), []
    for train, test in split_folds(n, folds, seed):
        train, test = (np.concatenate([rows, n + rows]) for rows in (train, test))  # as many of each sample
        fitted = cloned(classifier, seed).fit(x[train], label[train])
        right[test] = fitted.predict(x[test]) == label[test]
        accuracies.append(right[test].mean())
    accuracy = float(right.mean())
    return C2ST(Estimate(accuracy, cross_validated_error(accuracy, len(right))), np.array(accuracies))


def cross_validated_error(accuracy: float, n: int) -> float:
    r"""Return the standard error of the accuracy over n cross-validated draws, which are not independent.

    .. math::
        \sigma^2 = \frac{p (1 - p)}{n} \left( 1 + \frac2\pi e^{-z^2 / 16} \right),
        \qquad z = \frac{p - ½}{\sqrt{p (1 - p) / n}}

    Each draw is classified by training on the others: i pulls the decision on j towards its own label, and j that
    on i. If the samples are alike, decisions are the signs of sums of such pulls, and the products of a label and
    a decision of i and of j have the covariance (2/π) K_ij² of two such signs (K_ij the share of the pull), which
    sums to 2/π per draw whatever the number of folds. Where samples differ decisions hang on no single draw, and
    the covariance fades: over 16, so that it does not within the noise of samples that are alike.
    """
    independent = accuracy * (1 - accuracy) / n
    if independent == 0:  # as if half a draw had been on the other side
        independent = 1 / (2 * n) / n
    z = (accuracy - 0.5) / np.sqrt(independent)
    return float(np.sqrt(independent * (1 + 2 / np.pi * np.exp(-(z**2) / 16))))
