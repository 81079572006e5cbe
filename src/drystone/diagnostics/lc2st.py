r"""Local two-sample test L-C2ST at one observation (Linhart, Gramfort & Rodrigues 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone._messages import require
from drystone.diagnostics.classifiers import cloned, network
from drystone.table.inputs import spread_or_one

__all__ = ["LC2ST", "lc2st"]


@dataclass(frozen=True, eq=False)
class LC2ST:
    """Whether a posterior can be told from the exact one at one observation.

    Attributes:
        statistic: mean squared deviation of the classifier's probability from ½, at draws of the posterior.
        null: the same for classifiers trained on swapped pairs, (trials,): as for an exact posterior.
        p_value: share of the null at least as large, counting the statistic itself.
        probability: that each draw is the posterior's, not the truth's, (S,): above ½ where it has too much mass.

    Example:
        >>> import drystone as ds
        >>> from sklearn.linear_model import LogisticRegression
        >>> (theta, y), member = ds.toy.simulate(200, seed=1), ds.toy.MEMBERS["right"]
        >>> draws, draws_at = member.sample(1, y, seed=1)[0], member.sample(100, y[:1], seed=2)[:, 0]
        >>> result = ds.diagnostics.lc2st(
        ...     theta, y, draws, at=y[0], draws_at=draws_at, classifier=LogisticRegression(), trials=20
        ... )
        >>> result.null.shape, result.probability.shape, bool(result.statistic > result.null.max())
        ((20,), (100,), True)
    """

    statistic: float
    null: np.ndarray
    p_value: float
    probability: np.ndarray

    def __str__(self) -> str:
        return f"L-C2ST statistic {self.statistic:.4f}, p = {self.p_value:.3f} ({len(self.null)} trials)"

    __repr__ = __str__


def lc2st(
    theta: ArrayLike,
    y: ArrayLike,
    draws: ArrayLike,
    *,
    at: ArrayLike,
    draws_at: ArrayLike,
    classifier: Any = None,
    trials: int = 100,
    seed: int = 0,
) -> LC2ST:
    r"""Test whether q(θ|y_o) is the exact posterior at one observation y_o, without knowing that one.

    A classifier learns to tell (θ_n, y_n) from (θ̃_n, y_n), θ̃_n ~ q(· | y_n). Exact posteriors leave it no clue:

    .. math::
        t = \frac1S \sum_s (c(\tilde\theta_s, y_o) - \tfrac12)^2, \qquad \tilde\theta_s \sim q(\cdot|y_o)

    Its distribution under the null is found by swapping θ_n and θ̃_n at random and training again.

    Args:
        theta: true parameters of simulations that nothing was trained on, (N, d).
        y: their data, (N, ...).
        draws: one draw of the posterior for each of them, (N, d).
        at: the observation y_o, of the shape of a row of ``y``.
        draws_at: draws of the posterior at y_o, (S, d).
        classifier: any scikit-learn classifier with ``predict_proba``; None for a network as in :func:`c2st`.
        trials: classifiers trained under the null; the least p-value is 1/(trials + 1).
        seed: of the swaps and the classifiers.

    Example:
        >>> import drystone as ds
        >>> from sklearn.linear_model import LogisticRegression
        >>> (theta, y), member = ds.toy.simulate(200, seed=1), ds.toy.MEMBERS["right"]
        >>> draws, draws_at = member.sample(1, y, seed=1)[0], member.sample(100, y[:1], seed=2)[:, 0]
        >>> result = ds.diagnostics.lc2st(
        ...     theta, y, draws, at=y[0], draws_at=draws_at, classifier=LogisticRegression(), trials=20
        ... )
        >>> print(f"{result.p_value:.3f}")  # the least that 20 trials can give
        0.048
    """
    require("sklearn", "diagnostics", "a classifier test")
    theta, draws, draws_at = as_numpy(theta), as_numpy(draws), as_numpy(draws_at)
    N = len(theta)
    if theta.ndim != 2 or draws.shape != theta.shape:
        raise ValueError(
            f"`theta` and `draws` must have the same shape (N, d), one draw per simulation; "
            f"got {theta.shape} and {draws.shape}."
        )
    if draws_at.ndim != 2 or draws_at.shape[1] != theta.shape[1]:
        raise ValueError(f"`draws_at` must have shape (S, d) with d = {theta.shape[1]}; got {draws_at.shape}.")
    data, observed = as_numpy(y).reshape(N, -1), as_numpy(at).reshape(1, -1)
    if observed.shape[1] != data.shape[1]:
        raise ValueError(f"`at` must have {data.shape[1]} values, as a row of `y`; got {observed.shape[1]}.")

    true, drawn = np.hstack([theta, data]), np.hstack([draws, data])
    local = np.hstack([draws_at, np.repeat(observed, len(draws_at), 0)])
    centre, scale = true.mean(0), spread_or_one(true)
    true, drawn, local = ((part - centre) / scale for part in (true, drawn, local))
    classifier = network(true.shape[1]) if classifier is None else classifier

    def probability(swap: np.ndarray, seed: int) -> np.ndarray:
        """Return c at the draws of the observation, trained with some pairs swapped."""
        first, second = np.where(swap[:, None], drawn, true), np.where(swap[:, None], true, drawn)
        fitted = cloned(classifier, seed).fit(np.concatenate([first, second]), np.repeat([0, 1], N))
        return fitted.predict_proba(local)[:, 1]

    rng = np.random.default_rng(seed)
    c = probability(np.zeros(N, bool), seed)
    statistic = float(((c - 0.5) ** 2).mean())
    null = np.array([((probability(rng.random(N) < 0.5, seed + 1 + i) - 0.5) ** 2).mean() for i in range(trials)])
    return LC2ST(statistic, null, float((1 + (null >= statistic).sum()) / (1 + trials)), c)
