r"""A critic tells true pairs (θ_n, y_n) from stacked ones (θ*, y_n): a small classifier with balanced weights.

.. math::
    \ell(D) = \tfrac12 E \log D(\theta_n, y_n) + \tfrac12 E \log(1 - D(\theta^*, y_n)), \qquad
    \mathrm{JS} = \log 2 + \max_D \ell(D)

Truth and draws weigh one half each however many draws there are. On rows the critic has not seen, log 2 + ℓ(D) is
in expectation at most JS; 0 means it cannot tell them apart.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from drystone._early_stopping import EarlyStopping
from drystone._parallel import seeded
from drystone.errors import StackingError
from drystone.estimate import Estimate, mean_over_rows
from drystone.table import Table
from drystone.table.inputs import flat_data, spread_or_one

__all__ = ["Critic", "Features", "held_out_divergence", "js_lower_bound"]

# Epochs without a better bound on held-out rows after which the critic stops learning.
PATIENCE = 15


class Features:
    """Features of a pair: θ and y standardised, and θ relative to the members' average posterior."""

    def __init__(self, table: Table) -> None:
        y = flat_data(table, "JensenShannon compares pairs (θ, y), so it needs")
        self.y = torch.as_tensor((y - y.mean(0)) / spread_or_one(y)).clamp(-6, 6).float()
        theta = table.theta
        self.centre, self.scale = torch.as_tensor(theta.mean(0)), torch.as_tensor(spread_or_one(theta))
        mean, variance = torch.as_tensor(table.mean), torch.as_tensor(table.cov).diagonal(dim1=-2, dim2=-1)
        self.mean = mean.mean(0)
        self.sd = (variance + (mean - self.mean) ** 2).mean(0).sqrt().clamp_min(1e-300)

    def __call__(self, theta: Tensor, rows: Tensor) -> Tensor:
        """Return features of theta (n, ..., d) at n rows: (n, ..., F), differentiable in theta."""
        middle = (1,) * (theta.ndim - 2)
        mean, sd, y = (
            array[rows].view(len(rows), *middle, -1).expand(*theta.shape[:-1], -1)
            for array in (self.mean, self.sd, self.y)
        )
        relative = ((theta - mean) / sd).clamp(-6, 6)
        return torch.cat([((theta - self.centre) / self.scale).float(), relative.float(), y], -1)


class Critic:
    """A classifier under training: the logit of D, and one step at a time."""

    def __init__(self, inputs: int, hidden: tuple[int, ...], learning_rate: float, seed: int) -> None:
        sizes = [inputs, *hidden]
        with seeded(seed):  # torch initialises layers from its global generator only
            layers = [layer for a, b in pairwise(sizes) for layer in (_linear(a, b), nn.SiLU())]
            self.network = nn.Sequential(*layers, _linear(sizes[-1], 1))
        self.optimiser = torch.optim.AdamW(self.network.parameters(), learning_rate, weight_decay=1e-2)

    def logit(self, features: Tensor) -> Tensor:
        """Return the log odds that a pair is true, (...)."""
        return self.network(features)[..., 0]

    def step(self, truth: Tensor, draws: Tensor, a: Tensor, weights: Tensor | None = None) -> float:
        """Take one ascent step of ℓ on a batch, and return its value before the step."""
        self.optimiser.zero_grad()
        with torch.enable_grad():  # a score may be evaluated where gradients are off
            value = js_lower_bound(self.logit(truth), self.logit(draws), a, weights)
            (-value).backward()
        self.optimiser.step()
        return value.item()


def js_lower_bound(truth: Tensor, draws: Tensor, a: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return ℓ(D) + log 2 from logits of truth (n,) and draws (n, m), rows weighted by a, draws by ``weights``.

    In expectation over rows that the critic has not seen, it is at most the Jensen–Shannon divergence.
    """
    return (a * by_row(truth, draws, weights)).sum() / a.sum()


def by_row(truth: Tensor, draws: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the bound of each row, (n,)."""
    negative = softplus(draws)  # −log(1 − D)
    mixed = negative.mean(-1) if weights is None else negative @ weights
    return np.log(2) - (softplus(-truth) + mixed) / 2


def held_out_divergence(
    features: Features,
    theta: Tensor,
    draws: Tensor,
    a: Tensor,
    fit_rows: np.ndarray,
    test_rows: np.ndarray,
    hidden: tuple[int, ...],
    epochs: int,
    seed: int,
) -> Estimate:
    """Train a critic on some rows (stopped early on a fifth of them), and estimate the divergence on others.

    Args:
        features: its inputs.
        theta: the truth, (N, d).
        draws: of the stacked posterior, (N, n, d).
        a: row weights, (N,).
        fit_rows: rows to train on.
        test_rows: rows to estimate the divergence on.
        hidden: units of its layers.
        epochs: the most epochs.
        seed: of its initial weights and batches.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(fit_rows)
    stop, train = (torch.as_tensor(part) for part in np.split(order, [max(1, len(order) // 5)]))
    test = torch.as_tensor(test_rows)
    truth_at, draws_at = (
        {i: features(x[r], r) for i, r in enumerate((train, stop, test))} for x in (theta, draws)
    )
    critic = Critic(truth_at[0].shape[-1], hidden, 3e-3, seed)
    a = a.float()
    stopping: EarlyStopping[Tensor | None] = EarlyStopping(None, PATIENCE)
    for _ in range(epochs):
        for batch in torch.as_tensor(rng.permutation(len(train))).split(128):
            value = critic.step(truth_at[0][batch], draws_at[0][batch], a[train][batch])
            if not np.isfinite(value):
                raise StackingError(
                    "the critic of the Jensen–Shannon score diverged; check `theta`, `y`, `draws`."
                )
        with torch.no_grad():
            loss = -float(js_lower_bound(critic.logit(truth_at[1]), critic.logit(draws_at[1]), a[stop]))
            stopping.update(loss, lambda: by_row(critic.logit(truth_at[2]), critic.logit(draws_at[2])).double())
        if stopping.exhausted:
            break
    best = stopping.best
    assert best is not None
    weight = (a[test].double() / a[test].double().sum()).numpy()
    return mean_over_rows(best.numpy(), weight)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a layer in single precision, as the features are, whatever torch's default is."""
    return nn.Linear(inputs, outputs, dtype=torch.float32)
