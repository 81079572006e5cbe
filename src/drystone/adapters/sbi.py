"""Members from sbi: any posterior it builds.

What each gives:

| posterior | density | draws |
|---|---|---|
| ``DirectPosterior`` (NPE) | all rows at once | all rows at once |
| ``NPE_A_Posterior``, ``FilteredDirectPosterior`` | row by row | row by row |
| ``VectorFieldPosterior`` (FMPE, NPSE) | all rows at once | all rows at once |
| ``VIPosterior``, amortised | all rows at once | all rows at once |
| ``ImportanceSamplingPosterior`` | row by row | row by row |
| ``MCMCPosterior``, ``RejectionPosterior`` (NLE, NRE) | none: only unnormalised | row by row |

The first four can leak over the bounds of a prior; they are held to its support, draws and density alike, by
:func:`drystone.adapters.restrict` rather than by sbi's ``leakage_correction``, which never ends if all leaks.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from drystone.adapters.restrict import AT_ONCE, restrict
from drystone.errors import SamplingError
from drystone.seeding import seeded

if TYPE_CHECKING:
    from sbi.inference.posteriors.base_posterior import NeuralPosterior

__all__ = ["SbiDensity", "SbiDraws", "from_sbi", "sbi_posterior_of"]

# Rows of theta and y whose density is evaluated at once.
ROWS = 10_000


def from_sbi(
    posterior: NeuralPosterior, *, prior: Any = None, error: float = 0.05, seconds: float | None = 60.0
) -> Any:
    """A member from an sbi posterior; from an ``EnsemblePosterior`` a mapping of names to members.

    Args:
        posterior: any posterior of sbi. Of an ensemble, members are called ``member_0``, ``member_1``, …, in its
            order; its own weights are not used, for new ones are what stacking finds.
        prior: hold the member to the support of this prior; None for the one the posterior has.
        error: of the estimated share of the member that leaks out of the support, at each row of y; see
            :func:`drystone.adapters.restrict`. Larger if draws are slow (FMPE, NPSE).
        seconds: how long a ``RejectionPosterior`` may try at one row of y; None for as long as it takes.

    Returns:
        a member: ``sample(n, y, seed)`` and, where sbi has a normalised density, ``log_prob(theta, y)``.
    """
    from sbi.inference import EnsemblePosterior, ImportanceSamplingPosterior, MCMCPosterior, RejectionPosterior
    from sbi.inference.posteriors import DirectPosterior, VectorFieldPosterior, VIPosterior

    if isinstance(posterior, EnsemblePosterior):
        members = [from_sbi(p, prior=prior, error=error, seconds=seconds) for p in posterior.posteriors]
        return {f"member_{k}": member for k, member in enumerate(members)}
    if isinstance(posterior, DirectPosterior):
        # A subclass that overrides the method for one observation has no batched one that does the same.
        batched = type(posterior).log_prob is DirectPosterior.log_prob
        made = _direct(posterior) if batched else _direct_by_row(posterior)
    elif isinstance(posterior, VectorFieldPosterior):
        made = _vector_field(posterior)
    elif isinstance(posterior, VIPosterior):
        made = _variational(posterior)
    elif isinstance(posterior, ImportanceSamplingPosterior):
        return _importance(posterior)
    elif isinstance(posterior, RejectionPosterior):
        return _rejection(posterior, seconds)
    elif isinstance(posterior, MCMCPosterior):
        return _mcmc(posterior)
    else:
        raise TypeError(f"`posterior` must be one of sbi's posteriors; got {type(posterior).__name__}.")
    own = posterior._prior if isinstance(posterior, VIPosterior) else posterior.prior
    return restrict(made, own if prior is None else prior, error=error)


class SbiDraws:
    """The draws of an sbi posterior, before anything is rejected.

    Args:
        posterior: sbi's object.
        draw: n and rows of x to draws (n, N, d).
    """

    def __init__(self, posterior: Any, draw: Callable[[int, Tensor], Tensor]) -> None:
        self.posterior, self._draw = posterior, draw

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """n draws for each row of y: (n, N, d)."""
        x = _tensor(y, self.posterior)
        with seeded(seed), torch.no_grad(), _quiet():
            parts = [self._draw(n, part).cpu().numpy() for part in x.split(max(1, AT_ONCE // n))]
        return np.concatenate(parts, 1)

    def __repr__(self) -> str:
        return f"sbi {type(self.posterior).__name__}"


class SbiDensity(SbiDraws):
    """The draws and the density of an sbi posterior, before anything is rejected."""

    def __init__(
        self, posterior: Any, draw: Callable[[int, Tensor], Tensor], log_prob: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        super().__init__(posterior, draw)
        self._log_prob = log_prob

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log densities of paired rows theta (N, d), y (N, ...): (N,)."""
        rows = zip(_tensor(theta, self.posterior).split(ROWS), _tensor(y, self.posterior).split(ROWS), strict=True)
        with torch.no_grad(), _quiet():
            parts = [self._log_prob(*pair).cpu().numpy() for pair in rows]
        return np.concatenate(parts)


def sbi_posterior_of(member: Any) -> Any:
    """The sbi posterior behind a member that :func:`from_sbi` made, or None."""
    member = getattr(member, "member", member)
    return member.posterior if isinstance(member, SbiDraws) else None


def _direct(posterior: Any) -> SbiDensity:
    estimator = posterior.posterior_estimator.eval()
    return SbiDensity(
        posterior,
        lambda n, x: estimator.sample((n,), condition=x),
        lambda theta, x: estimator.log_prob(theta[None], condition=x)[0],
    )


def _direct_by_row(posterior: Any) -> SbiDensity:
    return SbiDensity(
        posterior,
        _each(lambda n, x: posterior.sample((n,), x=x, reject_outside_prior=False, show_progress_bars=False)),
        _each_density(lambda theta, x: posterior.log_prob(theta, x=x, norm_posterior=False)),
    )


def _vector_field(posterior: Any) -> SbiDensity:
    potential, estimator = posterior.potential_fn, posterior.vector_field_estimator.eval()

    def log_prob(theta: Tensor, x: Tensor) -> Tensor:
        """The flow's density; sbi's own method does the same, one observation at a time."""
        flow = potential.neural_ode(x)
        if estimator.compose_enabled:
            return flow.log_prob(estimator.to_z(theta)) - estimator.log_abs_det()
        return flow.log_prob(theta)

    options = {"reject_outside_prior": False, "show_progress_bars": False}
    if estimator.compose_enabled:
        return SbiDensity(posterior, _each(lambda n, x: posterior.sample((n,), x=x, **options)), log_prob)
    return SbiDensity(posterior, lambda n, x: posterior.sample_batched((n,), x=x, **options), log_prob)


def _variational(posterior: Any) -> SbiDensity:
    if posterior._mode != "amortized":
        raise ValueError(
            "this VIPosterior was fitted to one observation, and stacking needs a posterior of every simulation; "
            "train it with `train_amortized`."
        )

    def draw(n: int, x: Tensor) -> Tensor:
        draws = posterior.sample((n,), x=x)
        return draws[:, None] if len(x) == 1 else draws

    return SbiDensity(posterior, draw, lambda theta, x: posterior.log_prob(theta, x=x))


def _importance(posterior: Any) -> SbiDensity:
    def log_prob(theta: Tensor, x: Tensor) -> Tensor:
        # The normalising constant is an estimate: with a seed, so that the density is one function.
        with seeded(0):
            return posterior.log_prob(theta, x=x)

    draw = _each(lambda n, x: posterior.sample((n,), x=x, method="sir"))
    return SbiDensity(posterior, draw, _each_density(log_prob))


def _rejection(posterior: Any, seconds: float | None) -> SbiDraws:
    def draw(n: int, x: Tensor) -> Tensor:
        try:
            # It finds the maximum of the potential by gradient ascent.
            with torch.enable_grad():
                draws = posterior.sample((n,), x=x, show_progress_bars=False, max_sampling_time=seconds)
        except RuntimeError as error:
            raise SamplingError(f"rejection sampling at x = {x[0].tolist()} gave up: {error}") from error
        return draws.detach()

    return SbiDraws(posterior, _each(draw))


def _mcmc(posterior: Any) -> SbiDraws:
    def draw(n: int, x: Tensor) -> Tensor:
        with torch.enable_grad():  # for Hamiltonian Monte Carlo
            return posterior.sample((n,), x=x, show_progress_bars=False).detach()

    return SbiDraws(posterior, _each(draw))


def _each(draw: Callable[[int, Tensor], Tensor]) -> Callable[[int, Tensor], Tensor]:
    """Draws for rows of x, (n, N, d), out of a function for one of them."""
    return lambda n, x: torch.stack([draw(n, row[None]).reshape(n, -1) for row in x], 1)


def _each_density(log_prob: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """Densities of paired rows out of a function for one x, called once for each different x."""

    def paired(theta: Tensor, x: Tensor) -> Tensor:
        different, which = torch.unique(x, dim=0, return_inverse=True)
        answer = theta.new_empty(len(theta))
        for i, row in enumerate(different):
            answer[which == i] = log_prob(theta[which == i], row[None])
        return answer

    return paired


def _tensor(array: np.ndarray, posterior: Any) -> Tensor:
    """In single precision and on the posterior's device, as sbi's networks are."""
    return torch.as_tensor(np.asarray(array, np.float32), device=posterior._device)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without sbi's warnings of draws outside the prior, which are rejected later, and of batch sizes."""
    with warnings.catch_warnings():
        for message in (
            ".*reject_outside_prior=False",
            "Capping max_sampling_batch_size",
            "Note that for batched",
        ):
            warnings.filterwarnings("ignore", message)
        yield
