"""The likelihoods of a run as members: normalized at points that its own posteriors propose.

``normalizer.json`` holds the posteriors that propose, with their weights, and the settings of
:func:`drystone.normalize`: with the prior and the files of the members it makes the same members again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from drystone._defaults import DEFENSIVE, ERROR, POINTS_OF_LIKELIHOODS
from drystone._files import read_sealed_json, without_seal, write_sealed_json
from drystone.adapters import Density
from drystone.errors import DamagedError
from drystone.likelihood import normalize
from drystone.likelihood.proposal import weighted_mixture
from drystone.stacking import stack
from drystone.table import Table
from drystone.training.ensemble import Ensemble

__all__ = ["FILE", "RunNormalizer"]

FILE = "normalizer.json"
FORMAT = 1
# Most posteriors that propose points: each is evaluated at every point, which takes half of the time.
PROPOSING = 4


@dataclass(frozen=True)
class RunNormalizer:
    """Settings from which the likelihoods of a run become members.

    Attributes:
        proposal: names and weights of the posteriors that points are drawn from; none for the prior alone.
        draws: points per row, to begin with.
        defensive: share of the points that are drawn from the prior.
        error: difference in nats between the naive and the conservative log density that few rows should exceed.
        seed: seed of the points.
    """

    proposal: Mapping[str, float]
    draws: int = POINTS_OF_LIKELIHOODS
    defensive: float = DEFENSIVE
    error: float = ERROR
    seed: int = 0

    @classmethod
    def fit(cls, posteriors: Ensemble | None, theta: np.ndarray, y: np.ndarray, seed: int) -> RunNormalizer:
        """Choose the posteriors with most weight in their stack on rows theta (N, d), y (N, ...)."""
        if posteriors is None:
            return cls({}, seed=seed)
        table = Table(theta, log_q=posteriors.log_prob(theta, y), names=posteriors.names)
        weights = stack(table, nonfinite="drop").weights
        largest = [int(k) for k in np.argsort(-weights, kind="stable")[:PROPOSING] if weights[k] > 0]
        total = float(weights[largest].sum())
        return cls({posteriors.names[k]: float(weights[k]) / total for k in largest}, seed=seed)

    def members(self, posteriors: Ensemble | None, likelihoods: Ensemble, prior: object) -> dict[str, Density]:
        """Return the likelihoods as members, by name."""
        proposal = None
        if self.proposal and posteriors is not None:
            proposing = [posteriors[name] for name in self.proposal]
            proposal = weighted_mixture(proposing, list(self.proposal.values()))
        return dict(
            normalize(
                likelihoods,
                prior=prior,
                proposal=proposal,
                draws=self.draws,
                defensive=self.defensive,
                error=self.error,
                seed=self.seed,
            )
        )

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        write_sealed_json(path, {"format": FORMAT, **asdict(self)})

    @classmethod
    def load(cls, path: Path) -> RunNormalizer:
        """Read the file; raise if it is not what was written."""
        content, has_checksum = read_sealed_json(path)
        if content.pop("format", None) != FORMAT:
            raise DamagedError(f"{path} is not of format {FORMAT}; was it written by a later version?")
        if not has_checksum:
            raise without_seal(path)
        try:
            return cls(**content)
        except (TypeError, ValueError) as error:
            raise DamagedError(f"{path} is damaged: {error}") from None
