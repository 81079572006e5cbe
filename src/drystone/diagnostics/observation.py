"""The posterior at one observation: draws and weights there, and whether they can be believed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_integer
from drystone._messages import digits_for
from drystone.diagnostics.credible_sets import CredibleSet, credible_set
from drystone.diagnostics.disagreement import Disagreement, disagreement
from drystone.diagnostics.in_distribution import InDistribution, in_distribution
from drystone.diagnostics.local_calibration import Change
from drystone.diagnostics.predictive import Predictive, Summary, predictive
from drystone.errors import IntractableError
from drystone.table.inputs import as_levels, each_level
from drystone.table.statistics import quantile

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["PosteriorAt", "posterior_at"]

# Members that are listed by weight.
LISTED = 5


@dataclass(frozen=True, eq=False)
class PosteriorAt:
    """The stacked posterior at one observation.

    Attributes:
        y: the observation, of the shape of a row of the data.
        draws: of the stacked posterior there, (S, d).
        parameters: the names of θ.
        weights: of the members in use there, by name; empty for forms without a set of weights.
        bounds: of the parameters by the prior, (d, 2), if a member knows them; or None.
        in_distribution: whether the observation is like the simulations; None without a reference.
        disagreement: whether members disagree there more than at simulations; None without a reference, or without
            two members that can be compared.
        credible_set: that contains θ with probability at least 1 − alpha, whatever the members; None without a
            reference, or without a density.
        predictive: whether data simulated from the posterior look like the observation; None without a simulator.
        change: what a refinement there changed (:func:`drystone.refine`); None without one.
        missing: what cannot be answered, and why, one sentence each.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(300, seed=1))
        >>> posterior = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(600, seed=2))
        >>> here = posterior.at([1.5])
        >>> here.draws.shape, round(float(here.mean[0]), 1)
        ((10000, 1), 1.5)
        >>> print(here.sentences[0])
        The observation is like the simulations (p = ...
    """

    y: np.ndarray
    draws: np.ndarray = field(repr=False)
    parameters: tuple[str, ...]
    weights: Mapping[str, float]
    bounds: np.ndarray | None = None
    in_distribution: InDistribution | None = None
    disagreement: Disagreement | None = None
    credible_set: CredibleSet | None = None
    predictive: Predictive | None = None
    change: Change | None = None
    missing: tuple[str, ...] = ()

    @property
    def mean(self) -> np.ndarray:
        """The posterior mean, (d,)."""
        return self.draws.mean(0)

    @property
    def cov(self) -> np.ndarray:
        """The posterior covariance, (d, d)."""
        return np.atleast_2d(np.cov(self.draws, rowvar=False))

    def interval(self, alpha: float = 0.1) -> np.ndarray:
        """Return the central 1 − alpha interval of each parameter, (d, 2)."""
        (alpha,) = each_level(as_levels(alpha))
        return quantile(self.draws, [alpha / 2, 1 - alpha / 2], 0).T

    def __str__(self) -> str:
        lines = []
        for name, mean, sd, (low, high) in zip(
            self.parameters, self.mean, self.draws.std(0), self.interval(0.1), strict=True
        ):
            n = digits_for(mean, sd)
            lines.append(f"{name}: {mean:.{n}g} ± {sd:.2g}, 90 % in [{low:.{n}g}, {high:.{n}g}]")
        heaviest = sorted(self.weights.items(), key=lambda item: -item[1])[:LISTED]
        if heaviest:
            rest = f" and {len(self.weights) - LISTED} more" if len(self.weights) > LISTED else ""
            lines.append("Weights here: " + ", ".join(f"{name} {w:.2f}" for name, w in heaviest) + rest + ".")
        return "\n".join([*lines, *self.sentences])

    __repr__ = __str__

    @property
    def sentences(self) -> tuple[str, ...]:
        """The answers in words, and what is missing."""
        answers = (self.in_distribution, self.disagreement, self.credible_set, self.predictive, self.change)
        sentences = [str(answer) for answer in answers if answer is not None]
        like = self.in_distribution
        if self.credible_set is not None and like is not None and (like.alarm or like.too_few):
            this_one = "this one is not" if like.alarm else "this one may not be"
            sentences.append(
                f"The probability of the set holds for observations like the simulations, which {this_one}."
            )
        return (*sentences, *self.missing)


def posterior_at(
    posterior: StackedPosterior,
    y_o: ArrayLike | None = None,
    *,
    alpha: float = 0.1,
    simulator: Any = None,
    summaries: Mapping[str, Summary] | None = None,
    draws: int = 10_000,
    seed: int = 0,
) -> PosteriorAt:
    """Return the posterior at one observation; see :meth:`drystone.StackedPosterior.at`.

    Args:
        posterior: with a ``reference``, for the checks.
        y_o: the observation; None for the default one.
        alpha: miscoverage of the credible set.
        simulator: a task, or a function ``(theta, rng) -> y``, to simulate data from the posterior.
        summaries: functions of data by which these are held against the observation; see :func:`predictive`.
        draws: of the posterior.
        seed: same seed, same result.
    """
    y, draws = posterior.one_observation(y_o), as_integer("draws", draws, 2)
    answers: dict[str, Any] = {}
    missing = []
    if posterior.reference is None:
        missing.append(
            "Not checked: the posterior has no reference simulations. Give test rows to "
            "fit.posterior(members, reference=table), or to ds.infer(..., test=(theta, y))."
        )
    else:
        answers["in_distribution"] = in_distribution(posterior, y, seed=seed)
        for name, answer in {
            "disagreement": lambda: disagreement(posterior, y, seed=seed),
            "credible_set": lambda: credible_set(posterior, y, alpha, seed=seed),
        }.items():
            try:
                answers[name] = answer()
            except IntractableError as reason:
                missing.append(f"No {name.replace('_', ' ')}: {reason}")
    sample = np.asarray(posterior.sample((draws,), y, seed=seed))
    if simulator is None:
        missing.append("No simulated data: there is no simulator. Give posterior.at(y_o, simulator=...).")
    else:
        answers["predictive"] = predictive(sample, y[0], simulator, summaries=summaries, seed=seed)
    return PosteriorAt(
        y[0],
        sample,
        posterior.fit.parameters,
        weights_in_use(posterior, y),
        posterior.bounds,
        missing=tuple(missing),
        **answers,
    )


def weights_in_use(posterior: StackedPosterior, y: np.ndarray) -> dict[str, float]:
    """Return the weights of the members at one row y (1, ...), by name; none of forms that have no such set."""
    fit = posterior.fit
    try:
        weights = fit.form.weights_at(fit.params, y).reshape(-1)
    except IntractableError:
        return {}
    return {name: float(w) for name, w in zip(fit.names, weights, strict=True) if w > 0}
