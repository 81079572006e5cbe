"""A score: an objective on a stacked posterior. Lower is better, always; means over rows, always."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone._spec import Spec
from drystone.forms.view import View

__all__ = ["RowScore", "Score", "Sum", "as_scale", "row_scores", "unit"]


class Score(Spec, ABC):
    r"""A column of the paper's Table 1: a functional S(Φ, θ_1..N) of the stacked posterior on a table.

    Scores add and scale: ``LogScore() + 10 * RankCvM()`` is a :class:`Sum` whose terms are reported one by one.
    A score of your own needs ``needs`` and ``__call__`` (or :class:`RowScore` and ``rows``), written with torch
    so that the generic solver can differentiate it. One that cannot be differentiated, such as a count, says
    ``smooth = False``: the weights of a :class:`~drystone.Mixture` are then searched.

    Attributes:
        needs: the statistics of the stacked posterior it looks at: of log_q, rank, mean, moments, interval, draws.
        convex: whether it is convex in the weights of a mixture; then a solver can certify its optimum.
        has_units: whether its value carries the parameters' units; then tolerances are relative to it.
        smooth: whether it has a gradient that changes continuously; else solvers soften its steps.
        adversarial: whether it is the value of a game against a critic, and so has no gradient of its own.
        calibration_only: whether the prior itself would be perfect by it, as it is by ranks.
        lower_bound: whether its value estimates the quantity from below, which every output then says.
        infinite: what it means if the value is +∞, for an error; empty where +∞ is a value like others.

    Example:
        >>> import drystone as ds
        >>> class Bias(ds.Score):
        ...     needs = frozenset({"mean"})
        ...     def __call__(self, q): return (q.average(q.error()) ** 2).sum()
        >>> fit = ds.stack(ds.toy.table(200, seed=1), score=ds.LogScore() + 10 * Bias())
        >>> fit.terms["Bias()"] < 1e-3
        True
    """

    needs: ClassVar[frozenset[str]]
    convex: ClassVar[bool] = False
    has_units: ClassVar[bool] = False
    smooth: ClassVar[bool] = True
    adversarial: ClassVar[bool] = False
    calibration_only: ClassVar[bool] = False
    lower_bound: ClassVar[bool] = False
    infinite: ClassVar[str] = ""

    @abstractmethod
    def __call__(self, q: View) -> Tensor:
        """Return the score, a scalar."""

    def on_samples(self, q: View, weightings: np.ndarray) -> np.ndarray:
        """Return the score on halves of the rows and on the other halves, (2B,), for its standard error.

        Args:
            q: the posterior on all rows.
            weightings: row weights of B half-samples, then of their complements, (2B, N).
        """
        return np.array([float(self(q.reweighted(torch.as_tensor(a)))) for a in weightings])

    @property
    def terms(self) -> tuple[tuple[float, Score], ...]:
        """The (coefficient, score) pairs that it is the sum of; a single score is its own only term."""
        return ((1.0, self),)

    def __add__(self, other: Score | int) -> Sum:
        if isinstance(other, int) and other == 0:  # the start of the builtin ``sum``
            return Sum(self.terms)
        if not isinstance(other, Score):
            return NotImplemented
        return Sum((*self.terms, *other.terms))

    __radd__ = __add__

    def __mul__(self, factor: float) -> Sum:
        if isinstance(factor, Score):
            raise TypeError("scores are added, not multiplied; did you mean `a + b`?")
        return Sum(tuple((float(factor) * coefficient, score) for coefficient, score in self.terms))

    __rmul__ = __mul__


class RowScore(Score):
    """A score that is the mean over rows of a quantity that each row has for itself.

    Example:
        >>> import drystone as ds
        >>> class QuarticError(ds.RowScore):
        ...     needs, convex = frozenset({"mean"}), True
        ...     def rows(self, q): return (q.error() ** 4).mean(1)
        >>> fit = ds.stack(ds.toy.table(200, seed=1), score=QuarticError())
        >>> fit.status.name, fit.gap < 1e-6
        ('CERTIFIED', True)
    """

    @abstractmethod
    def rows(self, q: View) -> Tensor:
        """Return the score of each row, (N,)."""

    def __call__(self, q: View) -> Tensor:
        """Return Σ_n a_n rows_n."""
        return q.mean_of(self._checked_rows)

    def _checked_rows(self, q: View) -> Tensor:
        """Return the score of each row; raise unless it is a number per row, in torch."""
        rows = self.rows(q)
        if not isinstance(rows, Tensor):
            raise TypeError(
                f"`rows` of {self!r} must return a torch tensor, (N,); got {type(rows).__name__}. Compute with "
                "torch what the view gives, so that it can be differentiated; or set `smooth = False` and return "
                "torch.as_tensor(...)."
            )
        if rows.shape != q.row_weights.shape:
            raise ValueError(
                f"`rows` of {self!r} must return one number per row, ({len(q.row_weights)},); got "
                f"{tuple(rows.shape)}. Average over the parameters: .mean(1)."
            )
        return rows

    def on_samples(self, q: View, weightings: np.ndarray) -> np.ndarray:
        """Return Σ_n a_n rows_n for each sample, (2B,)."""
        return weightings @ self.rows(q).numpy()


class Sum(Score):
    """Σ_i c_i S_i with c_i > 0 (Sec. 3, hybrid stacking): a flat sequence of (coefficient, score).

    Terms with coefficient 0 are dropped. A negative coefficient would ask for a worse score, and raises.

    Example:
        >>> from drystone.scores import LogScore, RankCvM
        >>> LogScore() + 0.1 * (RankCvM() + LogScore())
        LogScore() + 0.1*RankCvM() + 0.1*LogScore()
    """

    def __init__(self, terms: tuple[tuple[float, Score], ...]) -> None:
        for coefficient, score in terms:
            if not 0 <= coefficient < float("inf"):
                raise ValueError(f"coefficients of a sum must be ≥ 0 and finite; got {coefficient} for {score!r}.")
        self._terms = tuple((coefficient, score) for coefficient, score in terms if coefficient > 0)

    @property
    def terms(self) -> tuple[tuple[float, Score], ...]:
        """The terms with a coefficient above 0."""
        return self._terms

    @property
    def needs(self) -> frozenset[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """What any of its terms needs."""
        return frozenset().union(*(score.needs for _, score in self.terms))

    @property
    def convex(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all of its terms are."""
        return all(score.convex for _, score in self.terms)

    @property
    def smooth(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all of its terms are."""
        return all(score.smooth for _, score in self.terms)

    @property
    def lower_bound(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether any of its terms is."""
        return any(score.lower_bound for _, score in self.terms)

    def __call__(self, q: View) -> Tensor:
        """Return Σ_i c_i S_i(q)."""
        values = [coefficient * score(q) for coefficient, score in self.terms]
        if not values:
            raise ValueError("a sum of scores needs a term with a coefficient above 0.")
        return sum(values[1:], values[0])

    def on_samples(self, q: View, weightings: np.ndarray) -> np.ndarray:
        """Return Σ_i c_i S_i for each sample, (2B,)."""
        return np.sum([coefficient * score.on_samples(q, weightings) for coefficient, score in self.terms], 0)

    def __iter__(self) -> Iterator[tuple[float, Score]]:
        return iter(self.terms)

    def __len__(self) -> int:
        return len(self.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sum) and self.terms == other.terms

    def __hash__(self) -> int:
        return hash(self.terms)

    def __repr__(self) -> str:
        return " + ".join(
            repr(score) if coefficient == 1 else f"{coefficient:g}*{score!r}" for coefficient, score in self.terms
        )

    def describe(self) -> dict[str, Any]:
        """Return the sum as JSON."""
        return {
            "name": "Sum",
            "terms": [[coefficient, score.describe()] for coefficient, score in self.terms],
        }


def row_scores(score: Score, q: View) -> Tensor | None:
    """Return the score of each row, (N,), or None if a term of the score is not a mean over rows."""
    terms = [(coefficient, term) for coefficient, term in score.terms if isinstance(term, RowScore)]
    if len(terms) < len(score.terms):
        return None
    return torch.stack([coefficient * term.rows(q) for coefficient, term in terms]).sum(0)


def as_scale(scale: Sequence[float] | None) -> tuple[float, ...] | None:
    """Return a scale (a tuple, list or array) as a tuple of numbers, which can be compared and saved."""
    if scale is None:
        return None
    if np.ndim(scale) != 1:
        raise TypeError(f"`scale` must hold one positive number per parameter, or be None; got {scale!r}.")
    return tuple(float(value) for value in scale)


def unit(scale: tuple[float, ...] | None, d: int) -> Tensor:
    """Return ``scale`` as a tensor (d,), ones if None."""
    if scale is None:
        return torch.ones(d, dtype=torch.float64)
    if len(scale) != d or not all(0 < value < float("inf") for value in scale):
        raise ValueError(f"`scale` must hold d = {d} positive numbers; got {scale}.")
    return torch.tensor(scale, dtype=torch.float64)
