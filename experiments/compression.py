r"""Thousands of summaries to a few dozen numbers: regressions on θ, and principal components.

.. math:: c(y) = \left( \frac1F \sum_f m_f(y),\; P^\top z(y) \right)

The regressions :math:`m_f` predict the standardised, unbounded parameters; each is fitted without one fold of the
training rows. A training row is shown the prediction of the one regression that was fitted without it, so that the
flows learn an accuracy that holds for new data; new data are shown the average of all regressions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from drystone._parallel import seeded
from drystone.estimate import split_folds
from drystone.simulation.support import Support
from drystone.training.preprocessing import DataTransform, Scaling

__all__ = ["Compression", "compress"]

Array = NDArray[np.floating]
# Settings of the networks; early stopping decides how many epochs are used.
UNITS, DROPOUT, BATCH, RATE, DECAY, EPOCHS, PATIENCE = 256, 0.3, 128, 1e-3, 1e-4, 60, 6


@dataclass(frozen=True)
class Compression:
    """A fitted compression.

    Attributes:
        scaled: Standardises and clips the summaries.
        components: The same, reduced to principal components.
        networks: One regression per fold.
        training: The compressed training rows, (N, d + components).
    """

    scaled: DataTransform
    components: DataTransform
    networks: tuple[nn.Module, ...]
    training: NDArray[np.float32]

    def __call__(self, y: Array) -> NDArray[np.float32]:
        """Return new rows y (N, m), compressed to (N, d + components)."""
        z = self.scaled(y)
        regressions = np.mean([predict(network, z) for network in self.networks], axis=0)
        return np.hstack([regressions, self.components(y)]).astype(np.float32)


def compress(theta: Array, y: Array, prior: object, *, components: int, folds: int, seed: int) -> Compression:
    """Fit a compression to training rows theta (N, d), y (N, m)."""
    x = Support.of(prior, theta.shape[1]).to_real(theta)[0]
    x = Scaling.fit(x).apply(x).astype(np.float32)
    scaled, reduced = DataTransform.fit(y), DataTransform.fit(y, components=components)
    z = scaled(y)
    networks, unseen = [], np.empty_like(x)
    with seeded(seed):
        for rows, left_out in split_folds(len(x), folds, seed):
            networks.append(regress(z[rows], x[rows], seed))
            unseen[left_out] = predict(networks[-1], z[left_out])
    return Compression(scaled, reduced, tuple(networks), np.hstack([unseen, reduced(y)]).astype(np.float32))


def regress(z: NDArray[np.float32], x: NDArray[np.float32], seed: int) -> nn.Module:
    """Fit a network to predict x (N, d) from z (N, m) by least squares, stopped early on a tenth of the rows."""
    network = nn.Sequential(
        nn.Dropout(DROPOUT), nn.Linear(z.shape[1], UNITS), nn.ReLU(), nn.Dropout(DROPOUT),
        nn.Linear(UNITS, UNITS), nn.ReLU(), nn.Linear(UNITS, x.shape[1]),
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(z))
    held_out, rows = order[: len(z) // 10], order[len(z) // 10 :]
    adam = torch.optim.AdamW(network.parameters(), lr=RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, EPOCHS)
    best, since, state = np.inf, 0, {}
    for _ in range(EPOCHS):
        network.train()
        for batch in np.array_split(rng.permutation(rows), max(1, len(rows) // BATCH)):
            adam.zero_grad()
            nn.functional.mse_loss(network(torch.from_numpy(z[batch])), torch.from_numpy(x[batch])).backward()
            adam.step()
        schedule.step()
        loss, since = float(((predict(network, z[held_out]) - x[held_out]) ** 2).mean()), since + 1
        if loss < best:
            best, since, state = loss, 0, {name: value.clone() for name, value in network.state_dict().items()}
        if since >= PATIENCE:
            break
    network.load_state_dict(state)
    return network.eval()


def predict(network: nn.Module, z: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the network's prediction without dropout."""
    with torch.no_grad():
        return network.eval()(torch.from_numpy(z)).numpy()
