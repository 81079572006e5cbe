"""Simulations that an observation is held against, and what members say of them: computed once per posterior."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone._arrays import entropy_of, rows_of_data, seed_of
from drystone.diagnostics.density_places import truth_places
from drystone.diagnostics.member_views import MemberViews, heaviest_members, likelihoods_by_weight, member_views
from drystone.diagnostics.neighbors import Neighbors
from drystone.diagnostics.residuals import Residuals

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Reference", "from_median", "reference_of"]

# Reference rows that members are asked at: enough for p-values down to 1/300 with half of them.
ROWS = 600
# Fewer rows than this say too little.
FEWEST_ROWS = 20
# Stands for an infinite difference.
FAR = 1e6


class Reference:
    """Some rows of a posterior's reference.

    Args:
        posterior: with a reference.
        seed: of the choice of rows, and of members' draws.
    """

    def __init__(self, posterior: StackedPosterior, seed: int) -> None:
        table = posterior.reference
        if table is None:
            raise ValueError(
                "this needs simulations that had no part in the weights: fit.posterior(members, reference=table)."
            )
        if table.N < FEWEST_ROWS:
            raise ValueError(f"`reference` must have at least {FEWEST_ROWS} rows for a check; got {table.N}.")
        self.posterior, self.seed = posterior, seed
        rng = np.random.default_rng([seed, 0])
        chosen = np.sort(rng.permutation(table.N)[:ROWS])
        everything = rows_of_data("y", np.asarray(table.y))
        self.y = everything[chosen]
        self.theta = table.theta[chosen]
        self.row_weights = table.row_weights[chosen]
        order = rng.permutation(len(chosen))
        self.halves = np.sort(order[: len(order) // 2]), np.sort(order[len(order) // 2 :])
        # Rows that no member is asked at make the cloud of the data denser.
        further = np.setdiff1d(np.arange(table.N), chosen)
        self._further = np.asarray(everything[further], float).reshape(len(further), self.data.shape[1])

    @cached_property
    def members(self) -> list[int]:
        """Positions of the heaviest members."""
        return heaviest_members(self.posterior, self.y)

    @cached_property
    def views(self) -> MemberViews:
        """What they say of the rows."""
        return member_views(self.posterior, self.members, self.y, self.seed)

    def views_of(self, y: np.ndarray) -> MemberViews:
        """Return what the same members say of one observation (1, ...), from draws of their own."""
        return member_views(self.posterior, self.members, y, self.seed_at(y))

    def seed_at(self, y: np.ndarray) -> int:
        """Return the seed of draws at an observation, a function of it: the same one would make answers alike."""
        return seed_of(np.random.SeedSequence([self.seed, *entropy_of(y)]))

    @cached_property
    def truth_places(self) -> np.ndarray:
        """Places of the true parameters' densities among those of draws, (n,)."""
        return truth_places(self.posterior, self.theta, self.y, self.seed + 3)

    @property
    def data(self) -> np.ndarray:
        """The data, flat, (n, m)."""
        return np.asarray(self.y, float).reshape(len(self.y), -1)

    @cached_property
    def neighbors_in_data(self) -> tuple[Neighbors, np.ndarray]:
        """The cloud of all data but the second half's, and how far these are from it."""
        cloud, held = self.halves
        neighbors = Neighbors(np.concatenate([self.data[cloud], self._further]))
        return neighbors, neighbors.distance(self.data[held])

    @cached_property
    def neighbors_in_summaries(self) -> tuple[Neighbors, np.ndarray]:
        """The cloud of what members see of the first half, and how far the second is from it."""
        cloud, held = self.halves
        neighbors = Neighbors(self.views.summaries[cloud])
        return neighbors, neighbors.distance(self.views.summaries[held])

    @cached_property
    def residuals(self) -> tuple[Residuals, np.ndarray]:
        """The data of the first half given members' means, and how far those of the second are from it."""
        cloud, held = self.halves
        whitened, means = self.neighbors_in_data[0].whitened(self.data), self.views.means
        residuals = Residuals(means[cloud], whitened[cloud])
        return residuals, residuals.distance(means[held], whitened[held])

    @cached_property
    def patterns(self) -> tuple[Neighbors, Residuals, np.ndarray]:
        """How members differ at the first half, given their means, and how unusual that is at the second."""
        cloud, held = self.halves
        means, differences = self.views.means, _finite(self.views.differences)
        scores = Neighbors(differences[cloud])
        whitened = scores.whitened(differences)
        residuals = Residuals(means[cloud], whitened[cloud])
        return scores, residuals, residuals.distance(means[held], whitened[held])

    def unusual_pattern(self, views: MemberViews) -> float:
        """Return how unusual the differences among members are at one observation, for their means."""
        scores, residuals, _ = self.patterns
        return float(residuals.distance(views.means, scores.whitened(_finite(views.differences)))[0])

    @cached_property
    def evidence_differences(self) -> tuple[Residuals, np.ndarray]:
        """How log evidences differ at the first half, given members' means; how unusual that is at the second."""
        cloud, held = self.halves
        means, differences = self.views.means, from_median(list(self._log_evidence.values()))
        residuals = Residuals(means[cloud], differences[cloud])
        return residuals, residuals.distance(means[held], differences[held])

    def unusual_evidence(self, y: np.ndarray, views: MemberViews) -> float:
        """Return how unusual the differences among log evidences are at an observation (1, ...)."""
        differences = from_median([member.log_evidence(y)[0] for _, member in self.with_evidence])
        return float(self.evidence_differences[0].distance(views.means, differences)[0])

    def log_evidence_of(self, y: np.ndarray) -> Iterator[tuple[str, np.ndarray, float]]:
        """Yield name, log evidence at the rows, (n,), and at an observation, of likelihoods with weight."""
        in_use = {self.posterior.members[k].name for k in self.members}
        for name, member in self.with_evidence:
            if name in in_use:
                yield name, self._log_evidence[name], float(member.log_evidence(y)[0][0])

    @cached_property
    def with_evidence(self) -> list[tuple[str, Any]]:
        """Names and members that are normalized likelihoods, the heaviest first, with weight or not."""
        chosen = (self.posterior.members[k] for k in likelihoods_by_weight(self.posterior, self.y))
        return [(member.name, member.posterior) for member in chosen]

    @cached_property
    def _log_evidence(self) -> dict[str, np.ndarray]:
        return {name: member.log_evidence(self.y)[0] for name, member in self.with_evidence}


def _finite(differences: np.ndarray) -> np.ndarray:
    """Return differences: members that all exclude the data agree; one that alone does so is as far as can be."""
    return np.nan_to_num(differences, nan=0.0, posinf=FAR, neginf=-FAR)


def from_median(log_evidence: list[np.ndarray]) -> np.ndarray:
    """Return log evidences (n,) of L members less their median, (n, L): one hopeless member moves no other."""
    values = np.stack(log_evidence, -1)
    with np.errstate(invalid="ignore"):
        return _finite(values - np.median(values, -1, keepdims=True))


def reference_of(posterior: StackedPosterior, seed: int = 0) -> Reference:
    """Return the reference of a posterior, the same object for the same seed."""
    known = posterior._references
    if seed not in known:
        known[seed] = Reference(posterior, seed)
    return known[seed]
