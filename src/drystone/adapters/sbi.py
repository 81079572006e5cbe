"""Members from sbi: any posterior it builds, and the likelihoods and ratios it trains.

What each posterior gives:

| posterior | density | draws |
|---|---|---|
| ``DirectPosterior`` (NPE) | all rows at once | all rows at once |
| ``NPE_A_Posterior``, ``FilteredDirectPosterior`` | row by row | row by row |
| ``VectorFieldPosterior`` (FMPE, NPSE) | all rows at once | all rows at once |
| ``VIPosterior``, amortized | all rows at once | all rows at once |
| ``MCMCPosterior``, ``RejectionPosterior``, ``ImportanceSamplingPosterior`` (own potential) | none | row by row |

Over a neural likelihood or ratio (NLE, NRE) the last three become likelihood members: only the estimator is used,
all rows at once, and :func:`drystone.normalize` makes posteriors of them. sbi's importance sampling estimates a
density that is too high where its points miss the posterior, and its chains take seconds per row. Over a posterior
estimator they are that estimator.

The first four can leak over the bounds of a prior; they are held to its support, draws and density alike, by
:func:`drystone.adapters.restrict` rather than by sbi's ``leakage_correction``, which never ends if all leaks.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from drystone._messages import require
from drystone._parallel import seeded
from drystone.adapters.restrict import AT_ONCE, ROWS, restrict
from drystone.adapters.sbi_rounds import warn_of_rounds
from drystone.errors import SamplingError

if TYPE_CHECKING:
    from sbi.inference.posteriors.base_posterior import NeuralPosterior
    from sbi.inference.trainers.base import NeuralInference

__all__ = ["SbiDensity", "SbiDraws", "SbiLikelihood", "SbiRatio", "from_sbi", "sbi_posterior_of"]


def from_sbi(
    posterior: NeuralPosterior | NeuralInference | nn.Module,
    prefix: str = "",
    *,
    prior: Any = None,
    error: float = 0.05,
    seconds: float | None = 60.0,
) -> Any:
    """Return a member from an sbi posterior; from an ``EnsemblePosterior`` a mapping of names to members.

    Args:
        posterior: any posterior of sbi; a trained ``inference`` object, whose posterior is built, and which knows
            whether it was trained in several rounds, for one observation (a warning says what to do); or what
            training a neural likelihood (NLE) or ratio (NRE) returned: a bare density estimator is taken as one of
            y, so give a posterior of NPE as it was built. Of an ensemble, members are called ``member_0``,
            ``member_1``, …, in its order, after ``prefix``; its own weights are not used, for new ones are what
            stacking finds.
        prefix: before the names of an ensemble's members, so that several ensembles can be merged.
        prior: hold the member to the support of this prior; None for the one the posterior has.
        error: of the estimated share of the member that leaks out of the support, at each row of y; see
            :func:`drystone.adapters.restrict`. Larger if draws are slow (FMPE, NPSE).
        seconds: how long a ``RejectionPosterior`` may try at one row of y; None for as long as it takes.

    Returns:
        a member: ``sample(n, y, seed)`` and, where sbi has a normalized density, ``log_prob(theta, y)``; or a
        likelihood member, ``log_likelihood(theta, y)``, for :func:`drystone.normalize`.

    Example:
        >>> import drystone as ds, torch
        >>> from sbi.inference.posteriors import DirectPosterior
        >>> from sbi.neural_nets import posterior_nn
        >>> from sbi.utils import BoxUniform
        >>> theta, y = (torch.as_tensor(array, dtype=torch.float32) for array in ds.toy.simulate(100, seed=1))
        >>> prior = BoxUniform(torch.tensor([-20.0]), torch.tensor([20.0]))
        >>> posterior = DirectPosterior(posterior_nn("mdn")(theta, y), prior)  # or inference.build_posterior()
        >>> member = ds.adapters.from_sbi(posterior)
        >>> member.sample(10, y[:5].numpy(), seed=1).shape
        (10, 5, 1)
    """
    require("sbi", "sbi", "from_sbi")
    from sbi.inference import EnsemblePosterior
    from sbi.inference.trainers.base import NeuralInference

    trainer = posterior if isinstance(posterior, NeuralInference) else None
    if trainer is not None:
        posterior = _built(trainer)
    posteriors = posterior.posteriors if isinstance(posterior, EnsemblePosterior) else [posterior]
    for one in posteriors:
        warn_of_rounds(trainer, one)
    members = [_member(one, prior, error, seconds) for one in posteriors]
    if isinstance(posterior, EnsemblePosterior):
        return {f"{prefix}member_{k}": member for k, member in enumerate(members)}
    return members[0]


def _built(trainer: Any) -> Any:
    """Return the posterior of a trainer of sbi."""
    if trainer._neural_net is None:
        raise ValueError(f"this {type(trainer).__name__} is not trained yet; call its `train()` first.")
    return trainer.build_posterior()


def _member(posterior: Any, prior: Any, error: float, seconds: float | None) -> Any:
    """Return the member that one posterior of sbi, or one estimator of y, is."""
    from sbi.inference import ImportanceSamplingPosterior, MCMCPosterior, RejectionPosterior
    from sbi.inference.posteriors import DirectPosterior, VectorFieldPosterior, VIPosterior

    likelihood = _likelihood(posterior)
    if likelihood is not None:
        return likelihood
    if isinstance(posterior, ImportanceSamplingPosterior | RejectionPosterior | MCMCPosterior):
        estimator = getattr(posterior.potential_fn, "posterior_estimator", None)
        if estimator is not None:  # the potential is log q itself
            return restrict(Estimator(posterior, estimator), posterior.potential_fn.prior, error=error)
    if isinstance(posterior, DirectPosterior):
        # A subclass that overrides the method for one observation has no batched one that does the same.
        batched = type(posterior).log_prob is DirectPosterior.log_prob
        made = Estimator(posterior, posterior.posterior_estimator) if batched else DirectByRow(posterior)
    elif isinstance(posterior, VectorFieldPosterior):
        composed = posterior.vector_field_estimator.compose_enabled
        made = ComposedVectorField(posterior) if composed else VectorField(posterior)
    elif isinstance(posterior, VIPosterior):
        made = Variational(posterior)
    elif isinstance(posterior, ImportanceSamplingPosterior):
        return Resampled(posterior)
    elif isinstance(posterior, RejectionPosterior):
        return Rejection(posterior, seconds)
    elif isinstance(posterior, MCMCPosterior):
        return MarkovChain(posterior)
    else:
        raise TypeError(
            "`posterior` must be one of sbi's posteriors or trained inference objects; got "
            f"{type(posterior).__name__}."
        )
    own = posterior._prior if isinstance(posterior, VIPosterior) else posterior.prior
    return restrict(made, own if prior is None else prior, error=error)


class SbiDraws(ABC):
    """The draws of an sbi posterior, before anything is rejected.

    Args:
        posterior: sbi's object.
    """

    def __init__(self, posterior: Any) -> None:
        self.posterior = posterior

    @abstractmethod
    def _draw(self, n: int, x: Tensor) -> Tensor:
        """Return n draws for each row of x: (n, N, d)."""

    @property
    def y_shape(self) -> tuple[int, ...] | None:
        """Shape of one observation, if sbi's estimator knows it."""
        names = ("posterior_estimator", "vector_field_estimator")
        estimators = (getattr(self.posterior, name, None) for name in names)
        shapes = (getattr(estimator, "condition_shape", None) for estimator in estimators)
        return next((tuple(shape) for shape in shapes if shape is not None), None)

    def to(self, device: torch.device) -> None:
        """Move the posterior to a device."""
        self.posterior.to(device)

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """Return n draws for each row of y: (n, N, d)."""
        x = _tensor(y, self.posterior)
        with seeded(seed), torch.no_grad(), _quiet():
            parts = [self._draw(n, part).cpu().numpy() for part in x.split(max(1, AT_ONCE // max(1, n)))]
        return np.concatenate(parts, 1)

    def __repr__(self) -> str:
        return f"sbi {type(self.posterior).__name__}"


class SbiDensity(SbiDraws):
    """The draws and the density of an sbi posterior, before anything is rejected."""

    @abstractmethod
    def _log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        """Log densities of paired rows: (N,)."""

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log densities of paired rows theta (N, d), y (N, ...): (N,)."""
        rows = zip(_tensor(theta, self.posterior).split(ROWS), _tensor(y, self.posterior).split(ROWS), strict=True)
        with torch.no_grad(), _quiet():
            parts = [self._log_prob(*pair).cpu().numpy() for pair in rows]
        return np.concatenate(parts)


class SbiLikelihood:
    """A neural likelihood of sbi as a likelihood member: a normalized density of y.

    Args:
        estimator: sbi's.
    """

    normalized_in_y = True

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator.eval()

    def log_likelihood(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return log q(y_n | θ_n) for paired rows theta (N, d), y (N, ...): (N,)."""
        of, given = (tuple(getattr(self.estimator, f"{name}_shape")) for name in ("input", "condition"))
        if of != given and (of, given) == (np.shape(theta)[1:], np.shape(y)[1:]):
            raise ValueError(
                f"this {type(self.estimator).__name__} is a density of theta given y, as NPE trains it, not one "
                "of y; pass the posterior, DirectPosterior(estimator, prior), to from_sbi."
            )
        return _by_rows(theta, y, self._log_likelihood)

    def _log_likelihood(self, theta: Tensor, x: Tensor) -> Tensor:
        return self.estimator.log_prob(x[None], condition=theta)[0]

    def simulate(self, theta: np.ndarray, seed: int) -> np.ndarray:
        """Return emulated data, one row per row of theta (N, d): (N, ...)."""
        with seeded(seed), torch.no_grad(), _quiet():
            return self.estimator.sample((1,), condition=torch.as_tensor(theta, dtype=torch.float32))[0].numpy()

    def __repr__(self) -> str:
        return f"sbi {type(self.estimator).__name__} of y"


class SbiRatio:
    """A neural ratio of sbi as a likelihood member, up to a term in y.

    Args:
        estimator: sbi's.
    """

    normalized_in_y = False

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator.eval()

    def log_likelihood(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the log ratios of paired rows theta (N, d), y (N, ...): (N,)."""
        return _by_rows(theta, y, self.estimator.unnormalized_log_ratio)

    def __repr__(self) -> str:
        return f"sbi {type(self.estimator).__name__}"


def _likelihood(posterior: Any) -> SbiLikelihood | SbiRatio | None:
    """Return the likelihood member of a trained likelihood or ratio, or of a posterior over one; else None."""
    from sbi.neural_nets.estimators.base import ConditionalDensityEstimator
    from sbi.neural_nets.ratio_estimators import RatioEstimator

    if isinstance(
        posterior, nn.Module
    ):  # what training returned: a density estimator without posterior is one of y
        if isinstance(posterior, RatioEstimator):
            return SbiRatio(posterior)
        if isinstance(posterior, ConditionalDensityEstimator):
            return SbiLikelihood(posterior)
        return None
    # Variational posteriors are normalized densities of their own, whatever they were fitted to.
    potential = None if hasattr(posterior, "_mode") else getattr(posterior, "potential_fn", None)
    likelihood, ratio = (getattr(potential, f"{name}_estimator", None) for name in ("likelihood", "ratio"))
    if likelihood is not None:
        return SbiLikelihood(likelihood)
    return None if ratio is None else SbiRatio(ratio)


def _by_rows(theta: np.ndarray, y: np.ndarray, value: Callable[[Tensor, Tensor], Tensor]) -> np.ndarray:
    """Return a value of paired rows, some rows at a time: (N,)."""
    pair = (torch.as_tensor(np.asarray(array, np.float32)).split(ROWS) for array in (theta, y))
    with torch.no_grad(), _quiet():
        parts = [value(*rows).reshape(len(rows[0])).cpu().numpy() for rows in zip(*pair, strict=True)]
    return np.concatenate(parts)


def sbi_posterior_of(member: Any) -> Any:
    """Return the sbi posterior behind a member that :func:`from_sbi` made, or None."""
    member = getattr(member, "member", member)
    return member.posterior if isinstance(member, SbiDraws) else None


class Estimator(SbiDensity):
    """A posterior whose estimator is asked, for all rows at once."""

    def __init__(self, posterior: Any, estimator: Any) -> None:
        super().__init__(posterior)
        self.estimator = estimator.eval()

    def _draw(self, n: int, x: Tensor) -> Tensor:
        return self.estimator.sample((n,), condition=x)

    def _log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        return self.estimator.log_prob(theta[None], condition=x)[0]


class DirectByRow(SbiDensity):
    """A ``DirectPosterior`` with methods of its own for one observation."""

    def _draw(self, n: int, x: Tensor) -> Tensor:
        options = {"reject_outside_prior": False, "show_progress_bars": False}
        return _each(x, lambda row: self.posterior.sample((n,), x=row, **options))

    def _log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        return _each_density(theta, x, lambda t, row: self.posterior.log_prob(t, x=row, norm_posterior=False))


class VectorField(SbiDensity):
    """A ``VectorFieldPosterior``: a flow along a learnt field."""

    def __init__(self, posterior: Any) -> None:
        super().__init__(posterior)
        self.estimator = posterior.vector_field_estimator.eval()

    def _draw(self, n: int, x: Tensor) -> Tensor:
        return self.posterior.sample_batched((n,), x=x, reject_outside_prior=False, show_progress_bars=False)

    def _log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return the flow's density; sbi's own method does the same, one observation at a time."""
        return self.posterior.potential_fn.neural_ode(x).log_prob(theta)


class ComposedVectorField(VectorField):
    """One whose field lives in a standardized space; sbi draws from it one observation at a time."""

    def _draw(self, n: int, x: Tensor) -> Tensor:
        options = {"reject_outside_prior": False, "show_progress_bars": False}
        return _each(x, lambda row: self.posterior.sample((n,), x=row, **options))

    def _log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        return super()._log_prob(self.estimator.to_z(theta), x) - self.estimator.log_abs_det()


class Variational(SbiDensity):
    """A ``VIPosterior`` that was trained for every observation."""

    def __init__(self, posterior: Any) -> None:
        super().__init__(posterior)
        if posterior._mode != "amortized":
            raise ValueError(
                "this VIPosterior was fitted to one observation, and stacking needs a posterior of every "
                "simulation; train it with `train_amortized`."
            )

    def _draw(self, n: int, x: Tensor) -> Tensor:
        draws = self.posterior.sample((n,), x=x)
        return draws[:, None] if len(x) == 1 else draws

    def _log_prob(self, theta: Tensor, x: Tensor) -> Tensor:
        return self.posterior.log_prob(theta, x=x)


class Resampled(SbiDraws):
    """An ``ImportanceSamplingPosterior``: its draws alone, for its density errs high without bound."""

    def _draw(self, n: int, x: Tensor) -> Tensor:
        return _each(x, lambda row: self.posterior.sample((n,), x=row, method="sir"))


class Rejection(SbiDraws):
    """A ``RejectionPosterior``, which may take ``seconds`` for a row."""

    def __init__(self, posterior: Any, seconds: float | None) -> None:
        super().__init__(posterior)
        self.seconds = seconds

    def _draw(self, n: int, x: Tensor) -> Tensor:
        def draw(x: Tensor) -> Tensor:
            options = {"show_progress_bars": False, "max_sampling_time": self.seconds}
            try:
                # It finds the maximum of the potential by gradient ascent.
                with torch.enable_grad():
                    return self.posterior.sample((n,), x=x, **options).detach()
            except RuntimeError as error:
                raise SamplingError(f"rejection sampling at x = {x[0].tolist()} gave up: {error}") from error

        return _each(x, draw)


class MarkovChain(SbiDraws):
    """An ``MCMCPosterior``."""

    def _draw(self, n: int, x: Tensor) -> Tensor:
        with torch.enable_grad():  # for Hamiltonian Monte Carlo
            return _each(x, lambda row: self.posterior.sample((n,), x=row, show_progress_bars=False).detach())


def _each(x: Tensor, draw: Callable[[Tensor], Tensor]) -> Tensor:
    """Return draws for rows of x, (n, N, d), with a function that draws (n, d) for one of them."""
    draws = [draw(row[None]) for row in x]
    return torch.stack([d.reshape(len(d), -1) for d in draws], 1)


def _each_density(theta: Tensor, x: Tensor, log_prob: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return densities of paired rows with a function for one x, called once for each different x."""
    different, which = torch.unique(x, dim=0, return_inverse=True)
    answer = theta.new_empty(len(theta))
    for i, row in enumerate(different):
        answer[which == i] = log_prob(theta[which == i], row[None])
    return answer


def _tensor(array: np.ndarray, posterior: Any) -> Tensor:
    """Return a tensor in single precision on the posterior's device, as sbi's networks are."""
    return torch.as_tensor(np.asarray(array, np.float32), device=posterior._device)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence sbi's warnings of draws outside the prior, which are rejected later, and of batch sizes."""
    with warnings.catch_warnings():
        for message in (
            ".*reject_outside_prior=False",
            "Capping max_sampling_batch_size",
            "Note that for batched",
        ):
            warnings.filterwarnings("ignore", message)
        yield
