"""The stacked posterior as a ``NeuralPosterior`` of sbi, with a default x, a potential, ``map()`` and components.

It takes the calls of sbi's ``EnsemblePosterior`` too: ``weights``, ``posteriors``, ``num_components``, ``to``, and
``individually=`` of ``log_prob`` and ``map``.
"""

from __future__ import annotations

from typing import Any

import torch
from sbi.inference import EnsemblePosterior
from sbi.inference.posteriors.base_posterior import NeuralPosterior
from sbi.inference.potentials.base_potential import BasePotential
from sbi.utils import mcmc_transform
from sbi.utils.torchutils import process_device
from torch import Tensor

from drystone.adapters.sbi import sbi_posterior_of
from drystone.posterior import StackedPosterior

__all__ = ["StackedNeuralPosterior", "StackedPotential", "to_sbi", "to_sbi_ensemble"]

# Step of the differences in units of the posterior's standard deviation: wide enough for densities in single
# precision (errors of about 1e-6 nats), narrow enough for their curvature.
STEP = 0.01
# Draws from which the standard deviation is computed.
DRAWS = 200


def to_sbi(stacked: StackedPosterior, prior: Any = None) -> StackedNeuralPosterior:
    """Return the stacked posterior as a ``NeuralPosterior``; the default prior is that of its first sbi member."""
    if prior is None:
        posteriors = (sbi_posterior_of(member.posterior) for member in stacked.members)
        prior = next((posterior.potential_fn.prior for posterior in posteriors if posterior is not None), None)
    if prior is not None and not isinstance(prior, torch.distributions.Distribution):
        raise TypeError(f"`prior` must be a torch distribution, as sbi's priors are; got {type(prior).__name__}.")
    return StackedNeuralPosterior(stacked, prior)


def to_sbi_ensemble(stacked: StackedPosterior) -> EnsemblePosterior:
    """Return sbi's own ensemble of the members with positive weight, with the weights of the fit."""
    if not stacked.fit.form.is_mixture:
        raise ValueError(
            f"only a Mixture is an EnsemblePosterior; got {stacked.fit.form!r}. Use to_sbi(ensemble=False)."
        )
    weighted = [(m, w) for m, w in zip(stacked.members, stacked.weights.tolist(), strict=True) if w > 0]
    posteriors = [sbi_posterior_of(member.posterior) for member, _ in weighted]
    foreign = [member.name for (member, _), p in zip(weighted, posteriors, strict=True) if p is None]
    if foreign:
        raise ValueError(
            f"{foreign[:5]} are not members from sbi (ds.adapters.from_sbi); use to_sbi(ensemble=False)."
        )
    classes = sorted({type(posterior).__name__ for posterior in posteriors})
    if len(classes) > 1:
        raise ValueError(
            f"sbi's EnsemblePosterior has a density only if all posteriors are of one class; got "
            f"{', '.join(classes)}. Use to_sbi(ensemble=False)."
        )
    weights = [weight for _, weight in weighted]
    return EnsemblePosterior(posteriors, weights=weights, theta_transform=posteriors[0].theta_transform)


class StackedNeuralPosterior(NeuralPosterior):
    """A stacked posterior with sbi's interface.

    Args:
        stacked: The posterior.
        prior: A torch distribution, or None; ``map()`` optimizes in the unbounded space of its support.
    """

    def __init__(self, stacked: StackedPosterior, prior: Any) -> None:
        transform = None if prior is None else mcmc_transform(prior)
        super().__init__(StackedPotential(stacked, prior), theta_transform=transform, device="cpu")
        self.stacked, self.prior = stacked, prior
        self._purpose = f"It is {stacked!r}."

    def sample(
        self,
        sample_shape: Any = torch.Size(),
        x: Tensor | None = None,
        show_progress_bars: bool = True,
        **kwargs: Any,
    ) -> Tensor:
        """Return exchangeable draws at one observation, (*sample_shape, d); ``seed`` is the only other option."""
        return self.stacked.sample(sample_shape, self._x_else_default_x(x), **kwargs)

    def sample_batched(
        self, sample_shape: Any, x: Tensor, show_progress_bars: bool = True, **kwargs: Any
    ) -> Tensor:
        """Return exchangeable draws at B observations, (*sample_shape, B, d); ``seed`` is the only option."""
        return self.stacked.sample_batched(sample_shape, torch.as_tensor(x), **kwargs)

    def log_prob(
        self,
        theta: Tensor,
        x: Tensor | None = None,
        track_gradients: bool = False,
        individually: bool = False,
    ) -> Any:
        """Return the normalized log density of theta (S, d) at one observation, (S,).

        With ``individually``, as sbi's ensembles do: log weights (K, 1) and the components' log densities (K, S).
        """
        if not individually:
            return self.potential(theta, x, track_gradients)
        x = self._x_else_default_x(x)
        theta = torch.atleast_2d(torch.as_tensor(theta))
        densities = [component.stacked.log_prob(theta, x) for component in self._components]
        return self._log_weights, torch.stack([density.to(theta.dtype) for density in densities])

    def log_prob_batched(self, theta: Tensor, x: Tensor) -> Tensor:
        """Return the normalized log density of theta (S, B, d) at B observations, (S, B)."""
        return self.stacked.log_prob_batched(theta, torch.as_tensor(x))

    def map(self, x: Tensor | None = None, *args: Any, individually: bool = False, **kwargs: Any) -> Any:
        """Return the mode as sbi finds it; with ``individually``, log weights (K, 1) and the components' modes.

        ``x`` sets the default observation first; further arguments are those of ``NeuralPosterior.map``.
        """
        if x is not None:
            self.set_default_x(x)
        if not individually:
            return super().map(None, *args, **kwargs)
        observation = self._x_else_default_x(None)
        modes = [component.map(observation, *args, **kwargs) for component in self._components]
        return self._log_weights, torch.stack(modes)

    def to(self, device: str | torch.device) -> StackedNeuralPosterior:
        """Move the members, the prior and the default observation to a device; return ``self``."""
        self._device = process_device(device)
        self.stacked.to(self._device)
        if self.prior is not None:
            if hasattr(self.prior, "to"):
                self.prior.to(self._device)
            self.theta_transform = mcmc_transform(self.prior, device=self._device)
        self.potential_fn.device = self._device
        if self._x is not None:
            self._x = self._x.to(self._device)
        return self

    # ── as sbi's EnsemblePosterior ───────────────────────────────────────────────────────────────────────

    @property
    def weights(self) -> Tensor:
        """The weights of the components, (num_components,)."""
        return torch.tensor(list(self.stacked.member_weights.values()), device=self._device)

    @property
    def num_components(self) -> int:
        """How many members carry weight."""
        return int((self.stacked.weights > 0).sum())

    @property
    def posteriors(self) -> list[Any]:
        """The members that carry weight: sbi's own posteriors, or members of other libraries as such."""
        components = [(sbi_posterior_of(c.stacked.members[0].posterior), c) for c in self._components]
        return [component if own is None else own for own, component in components]

    @property
    def _log_weights(self) -> Tensor:
        return self.weights.log().reshape(-1, 1)

    @property
    def _components(self) -> list[StackedNeuralPosterior]:
        """Return each member that carries weight as a posterior alone."""
        fit = self.stacked.fit
        if not fit.form.is_mixture:
            raise ValueError(f"only a Mixture has components with weights; got {fit.form!r}.")
        members = [member for member in self.stacked.members if member.name in fit.member_weights]
        alone = [
            type(fit).single([m.name], 0, parameters=fit.parameters).posterior([m.posterior]) for m in members
        ]
        return [StackedNeuralPosterior(posterior, self.prior) for posterior in alone]


class StackedPotential(BasePotential):
    """The log density at the current observation, with its gradient by central differences.

    Members therefore need no gradients of their own, whatever library they come from; a gradient costs 2d
    densities. Next to a bound of the support the difference is one-sided.
    """

    def __init__(self, stacked: StackedPosterior, prior: Any) -> None:
        self.stacked = stacked
        super().__init__(prior, device="cpu")

    def set_x(self, x_o: Tensor | None, x_is_iid: bool | None = True) -> None:
        """Set the observation."""
        super().set_x(x_o, x_is_iid)
        self._step: Tensor | None = None

    def __call__(self, theta: Tensor, track_gradients: bool = True) -> Tensor:
        """Return the log density of theta (S, d), (S,)."""
        theta = torch.as_tensor(theta)
        if not track_gradients:
            return self._log_prob(theta)
        if self._step is None:
            self._step = STEP * self.stacked.sample((DRAWS,), self.x_o, seed=0).std(0).double()
        return _WithDifferences.apply(theta, self._log_prob, self._step)

    def _log_prob(self, theta: Tensor) -> Tensor:
        return self.stacked.log_prob(theta, self.x_o).to(theta.dtype)


class _WithDifferences(torch.autograd.Function):
    """A function of the rows of theta (S, d), differentiated numerically."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, function: Any, step: Tensor) -> Tensor:
        ctx.function, ctx.step = function, step
        values = function(theta)
        ctx.save_for_backward(theta, values)
        return values

    @staticmethod
    def backward(ctx: Any, *outputs: Tensor) -> tuple[Tensor, None, None]:
        theta, values = ctx.saved_tensors
        (S, d), steps = theta.shape, torch.diag(ctx.step)
        # Rows θ_s ± h_j e_j, (2, d, S, d): all of them in one call.
        points = theta.double() + torch.stack([steps, -steps])[:, :, None]
        above, below = ctx.function(points.reshape(-1, d)).reshape(2, d, S)
        rises, falls = above.isfinite(), below.isfinite()
        difference = torch.where(rises, above, values) - torch.where(falls, below, values)
        width = ctx.step[:, None] * (rises.double() + falls.double())
        slope = torch.where(rises | falls, difference / width, 0.0)
        return (outputs[0][:, None] * slope.T).to(theta.dtype), None, None
