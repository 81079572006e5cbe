"""Simulations that an observation is held against, and what members say of them: computed once per posterior."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from drystone._arrays import entropy_of, rows_of_data
from drystone.diagnostics.density_places import truth_places
from drystone.diagnostics.member_views import MemberViews, heaviest_members, member_views
from drystone.diagnostics.neighbors import Neighbors
from drystone.diagnostics.residuals import Residuals

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Reference", "reference_of"]

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
        entropy = np.random.SeedSequence([self.seed, *entropy_of(y)])
        return int(entropy.generate_state(1, np.uint64)[0] >> 2)

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
        means, differences = self.views.means, self._pattern(self.views, list(self._log_evidence.values()))
        scores = Neighbors(differences[cloud])
        whitened = scores.whitened(differences)
        residuals = Residuals(means[cloud], whitened[cloud])
        return scores, residuals, residuals.distance(means[held], whitened[held])

    def unusual_pattern(self, y: np.ndarray, views: MemberViews) -> float:
        """Return how unusual the differences among members are at an observation (1, ...), for their means."""
        scores, residuals, _ = self.patterns
        evidence = [np.array([value]) for _, _, value in self.log_evidence_of(y)]
        return float(residuals.distance(views.means, scores.whitened(self._pattern(views, evidence)))[0])

    @staticmethod
    def _pattern(views: MemberViews, log_evidence: list[np.ndarray]) -> np.ndarray:
        """Return all differences among members at n rows: of posteriors and, of likelihoods, in log evidence."""
        columns = [views.differences]
        if len(log_evidence) > 1:
            with np.errstate(invalid="ignore"):
                columns.append(np.stack(log_evidence[:-1], -1) - np.mean(log_evidence, 0)[:, None])
        # Members that all exclude the data agree; one that alone does so differs as much as can be.
        return np.nan_to_num(np.concatenate(columns, -1), nan=0.0, posinf=FAR, neginf=-FAR)

    @cached_property
    def _log_evidence(self) -> dict[str, np.ndarray]:
        return {name: member.log_evidence(self.y)[0] for name, member in self._with_evidence()}

    def log_evidence_of(self, y: np.ndarray) -> Iterator[tuple[str, np.ndarray, float]]:
        """Yield name, log evidence at the rows, (n,), and at an observation, of the members that have one."""
        for name, member in self._with_evidence():
            yield name, self._log_evidence[name], float(member.log_evidence(y)[0][0])

    def _with_evidence(self) -> Iterator[tuple[str, Any]]:
        for k in self.members:
            member = self.posterior.members[k]
            if member.normalized_in_y and member.has("log_evidence"):
                yield member.name, member.posterior


def reference_of(posterior: StackedPosterior, seed: int = 0) -> Reference:
    """Return the reference of a posterior, the same object for the same seed."""
    if seed not in posterior.references:
        posterior.references[seed] = Reference(posterior, seed)
    return posterior.references[seed]
