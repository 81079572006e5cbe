"""The members of an inference: networks of two kinds, likelihoods normalized, some of them trained again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from drystone.runs.normalizer import RunNormalizer
from drystone.stacking import Stacking
from drystone.table import Table
from drystone.training import Ensemble
from drystone.training.likelihood import TrainedLikelihood

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Networks", "better_of", "no_worse", "used_members"]


class Networks(NamedTuple):
    """The networks of an inference; None for a kind that has none."""

    posteriors: Ensemble[Any] | None
    likelihoods: Ensemble[Any] | None

    def members(self, normalizer: RunNormalizer, prior: object) -> dict[str, Any]:
        """Return all members by name: the posteriors, and the likelihoods normalized."""
        members: dict[str, Any] = {}
        if self.posteriors is not None:
            members |= {member.name: member for member in self.posteriors}
        if self.likelihoods is not None:
            members |= normalizer.members(self.posteriors, self.likelihoods, prior)
        return members

    @property
    def frame(self) -> pd.DataFrame:
        """A row per network: kind, hyperparameters and course of the training."""
        import pandas as pd

        frames = []
        for kind, ensemble in zip(("posterior", "likelihood"), self, strict=True):
            if ensemble is not None:
                frames.append(ensemble.frame)
                frames[-1].insert(0, "kind", kind)
        return pd.concat(frames)


def used_members(fit: Stacking, normalizer: RunNormalizer, table: Table) -> set[str]:
    """Return the members that are trained again: with weight, proposing points, or the best on its own."""
    best = table.names[int(np.nanargmax(table.log_q.mean(1)))]
    return {*fit.member_weights, *normalizer.proposal, best}


def no_worse(before: Ensemble[Any], after: Ensemble[Any], theta: np.ndarray, y: np.ndarray) -> Ensemble[Any]:
    """Return each refitted member, or the member before if refitting lowered its density at these rows.

    The last epoch of a training whose parameters are not averaged may be a bad one, and nothing else tells.
    """

    def log_density(member: Any) -> float:
        density = member.log_likelihood if isinstance(member, TrainedLikelihood) else member.log_prob
        return float(density(theta, y).mean())

    return Ensemble(better_of([before[name] for name in after.names], after, log_density).values())


def better_of(before: Iterable[Any], after: Iterable[Any], score: Callable[[Any], float]) -> dict[str, Any]:
    """Return the members by name, each as it was or as it is after the training, whichever scores higher."""
    pairs = zip(before, after, strict=True)
    return {first.name: second if score(second) >= score(first) else first for first, second in pairs}
