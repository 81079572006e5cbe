"""What a user of sbi gets without choosing anything: NPE and NLE, the better of its two common flows.

The better one is that of the lower validation loss, on the tenth of the simulations that sbi itself holds out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drystone._files import replacing
from drystone._parallel import seeded
from drystone.adapters import from_sbi
from drystone.simulation.prior import Uniform

__all__ = ["Defaults", "sbi_prior"]

FAMILIES = ("maf", "nsf")
Array = np.ndarray


@dataclass(frozen=True)
class Posterior:
    """A posterior of sbi that is shown transformed data."""

    member: Any
    transform: Callable[[Array], Array]

    def log_prob(self, theta: Array, y: Array) -> Array:
        """Return log q(θ_n | y_n) for paired rows."""
        return self.member.log_prob(theta, self.transform(y))

    def sample(self, n: int, y: Array, seed: int | None = None) -> Array:
        """Return n draws per row, (n, N, d)."""
        return self.member.sample(n, self.transform(y), seed=seed)


@dataclass(frozen=True)
class Likelihood:
    """A likelihood of sbi of transformed data; what the transform adds to its density is free of θ."""

    member: Any
    transform: Callable[[Array], Array]

    def log_likelihood(self, theta: Array, y: Array) -> Array:
        """Return log q(y_n | θ_n) up to a term in y, for paired rows."""
        return self.member.log_likelihood(theta, self.transform(y))


@dataclass(frozen=True)
class Defaults:
    """sbi's defaults for given simulations; estimators are trained as far as they are not on disk.

    Attributes:
        theta: Parameters, (N, d).
        y: Their data, (N, m).
        prior: p(θ), uniform or log-normal.
        seed: Of the training.
        folder: Where the estimators are stored.
        transform: Of y, before sbi sees it.
        epochs: The most epochs; None for sbi's own rule, early stopping alone.
    """

    theta: Array
    y: Array
    prior: Any
    seed: int
    folder: Path
    transform: Callable[[Array], Array] = np.asarray
    epochs: int | None = None

    def posterior(self) -> Posterior:
        """Return the better posterior (NPE)."""
        from sbi.inference.posteriors import DirectPosterior

        return Posterior(from_sbi(DirectPosterior(self._better("NPE"), sbi_prior(self.prior))), self.transform)

    def likelihood(self) -> Likelihood:
        """Return the better likelihood (NLE)."""
        return Likelihood(from_sbi(self._better("NLE")), self.transform)

    def _better(self, kind: str) -> Any:
        """Return the estimator with the lower validation loss."""
        trained = [self._trained(kind, family) for family in FAMILIES]
        return min(trained, key=lambda one: one["loss"])["estimator"]

    def _trained(self, kind: str, family: str) -> dict[str, Any]:
        """Return an estimator and its validation loss."""
        path = self.folder / f"{kind}-{family}.pt"
        if not path.exists():
            from sbi import inference

            path.parent.mkdir(parents=True, exist_ok=True)
            data = (torch.tensor(a, dtype=torch.float32) for a in (self.theta, self.transform(self.y)))
            limit = {} if self.epochs is None else {"max_num_epochs": self.epochs}
            with seeded(self.seed):
                trainer = getattr(inference, kind)(
                    prior=sbi_prior(self.prior), density_estimator=family, show_progress_bars=False
                )
                estimator = trainer.append_simulations(*data).train(**limit)
            loss = float(trainer.summary["best_validation_loss"][-1])
            with replacing(path) as temporary:
                torch.save({"estimator": estimator, "loss": loss}, temporary)
        return torch.load(path, weights_only=False)  # files of our own


def sbi_prior(prior: Any) -> torch.distributions.Distribution:
    """Return a uniform or log-normal prior as sbi wants it."""
    from sbi.utils import BoxUniform

    def tensor(values: Any) -> torch.Tensor:
        return torch.tensor(values, dtype=torch.float32)

    if isinstance(prior, Uniform):
        return BoxUniform(tensor(prior.support.lower), tensor(prior.support.upper))
    log = torch.distributions.LogNormal(tensor(prior.log.mean), tensor(prior.log.sd))
    return torch.distributions.Independent(log, 1)
