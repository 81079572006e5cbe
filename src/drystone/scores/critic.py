r"""A critic tells true pairs (θ_n, y_n) from stacked ones (θ*, y_n): a small classifier with balanced weights.

.. math::
    \ell(D) = \tfrac12 E \log D(\theta_n, y_n) + \tfrac12 E \log(1 - D(\theta^*, y_n)), \qquad
    \mathrm{JS} = \log 2 + \max_D \ell(D)

Truth and draws weigh one half each however many draws there are. On rows the critic has not seen, log 2 + ℓ(D) is
in expectation at most JS; 0 means it cannot tell them apart.

The critic may look at other draws R of the same posterior: (θ_n, y_n, R) and (θ*, y_n, R) are as far apart as the
pairs are, as long as R has been drawn apart from both. So a draw is never compared with a set that it is in.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from drystone._early_stopping import EarlyStopping
from drystone._parallel import seeded
from drystone.errors import StackingError
from drystone.estimate import mean_over_rows
from drystone.forms.independent import mixing_order
from drystone.forms.view import View
from drystone.table import Table, blocks
from drystone.table.inputs import flat_data, spread_or_one

__all__ = ["Critic", "Features", "held_out_bounds", "js_lower_bound", "pairs_of"]

# Epochs without a better bound on held-out rows after which the critic stops learning.
PATIENCE = 8
# Of the logistic regression that the critic begins with.
RIDGE = 1e-4
# Ranks within the members are features while they are at most so many (members × parameters).
MOST_RANKS = 64
# Draws per member that a rank within it rests on.
MOST_REFERENCE = 64


class Features:
    """Features of a pair: θ and its place among reference draws of its row, and both θ and y standardized.

    Args:
        table: of the truth and the data.
        reference: draws at each row, (N, R, d).
    """

    def __init__(self, table: Table, reference: Tensor) -> None:
        y = flat_data(table, "JensenShannon compares pairs (θ, y), so it needs")
        self.y = torch.as_tensor((y - y.mean(0)) / spread_or_one(y)).clamp(-6, 6).float()
        theta = table.theta
        self.centre, self.scale = torch.as_tensor(theta.mean(0)), torch.as_tensor(spread_or_one(theta))
        self.R, self.mean = reference.shape[1], reference.mean(1)
        self.squares = ((reference - self.mean[:, None]) ** 2).sum(1)  # about the mean, where it does not cancel
        # Variances of R draws err by 2/R; what the logs of the rows' vary beyond that is their own. They are drawn
        # towards the typical one as if by so many more draws of it.
        log_variance = (self.squares / self.R).clamp_min(1e-300).log()
        self.more = 2 / (log_variance.var(0) - 2 / self.R).clamp_min(1e-3)
        self.typical = log_variance.mean(0).exp()

    @property
    def size(self) -> int:
        """How many there are, 2d + d_y."""
        return 2 * len(self.centre) + self.y.shape[-1]

    def __call__(self, theta: Tensor, rows: Tensor, omitted: Tensor) -> Tensor:
        """Return features of theta, (n, ..., 2d + d_y), differentiable in theta; the first d are its places.

        Args:
            theta: parameters at n rows, (n, ..., d).
            rows: which rows, (n,).
            omitted: draws of the reference to leave out, (n, ..., o, d), with the axes of theta or ones.
        """
        middle = (1,) * (theta.ndim - 2)
        mean, squares, y = (x[rows].view(len(rows), *middle, -1) for x in (self.mean, self.squares, self.y))
        offset, left = omitted - mean[..., None, :], self.R - omitted.shape[-2]
        shift = -offset.sum(-2) / left
        own = (squares - (offset**2).sum(-2) - left * shift**2).clamp_min(0)
        sd = ((own + self.more * self.typical) / (left + self.more)).clamp_min(1e-300).sqrt()
        place = ((theta - mean - shift) / sd).clamp(-6, 6)
        return torch.cat(
            [place.float(), ((theta - self.centre) / self.scale).float(), y.expand(*theta.shape[:-1], -1)], -1
        )


def pairs_of(q: View, most: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return features of the true pairs, (N, F), and of ``most`` stacked ones per row, (N, n, F).

    Each stacked draw is placed among the other stacked draws of its row, by mean and standard deviation and by
    rank, and ranked within the members, without itself. The truth is placed among the same draws without the
    first.

    Args:
        q: the stacked posterior.
        most: the most stacked draws per row that are shown.
        seed: of the stacked draws.
    """
    with torch.no_grad():
        stacked = q.independent_draws(seed)
        N, S, d = stacked.shape
        if S < 3:
            raise ValueError(
                f"JensenShannon compares a draw with the others; it needs at least 3, got {S}. Keep more."
            )
        shown, rows, truth = stacked[:, :most], torch.arange(N), q.theta
        features = Features(q.table, stacked)
        of_truth = [features(truth, rows, shown[:, :1])]
        of_shown = [features(shown, rows, shown[:, :, None])]
        references = [(stacked, shown)]
        # Of all members, in use or not: a critic that sees more of one posterior than of another finds more.
        drawing = np.flatnonzero(q.peers.has("draws"))
        if len(drawing) * d <= MOST_RANKS:
            source = blocks.load(blocks.part(q.peers, drawing), {"draws"}).draws
            order = mixing_order(source.shape[2])[: max(MOST_REFERENCE, most)]  # as in the stacked draws
            for k in range(len(drawing)):
                member = torch.as_tensor(np.asarray(source[k][:, order], float))
                references.append((member, _left_out(shown, member)))
        for reference, left_out in references:
            of_truth.append(_rank(truth[:, None], reference, left_out[:, :1])[:, 0])
            of_shown.append(_rank(shown, reference, left_out))
    return torch.cat(of_truth, -1), torch.cat(of_shown, -1)


def _left_out(shown: Tensor, member: Tensor) -> Tensor:
    """Return the draw of a member that each shown one is, or else one of the same number, (N, n, d)."""
    n = shown.shape[1]
    same = (shown[:, :, None] == member[:, None, :n]).all(-1)
    index = torch.where(same.any(-1), same.int().argmax(-1), torch.arange(n))
    return member.gather(1, index[..., None].expand_as(shown))


def _rank(theta: Tensor, reference: Tensor, left_out: Tensor) -> Tensor:
    """Return the share of reference draws (N, R, d), less one, below theta, (N, n, d), less ½."""
    ordered, at = reference.mT.sort(-1).values.contiguous(), theta.mT.contiguous()
    below = torch.searchsorted(ordered, at).mT - (left_out < theta).long()
    return below.float() / (reference.shape[1] - 1) - 0.5


@dataclass(frozen=True)
class Quadratic:
    r"""A logistic regression on the places z of the parameters and their squares.

    .. math::
        \mathrm{logit}\, D = \beta_0 + \sum_j (\beta_j z_j + \gamma_j z_j^2)

    It is the optimal critic of Gaussian posteriors that are shifted or of another width, and has few coefficients
    to learn from few rows.

    Attributes:
        coefficients: β and γ, (2d + 1,).
    """

    coefficients: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        """Return the logit, (...)."""
        d = (len(self.coefficients) - 1) // 2
        return _terms(features[..., :d]) @ self.coefficients.to(features.dtype)

    @classmethod
    def fit(cls, truth: Tensor, draws: Tensor, a: Tensor, d: int) -> Quadratic:
        """Return the maximum of ℓ less a little ridge.

        Args:
            truth: features of the true pairs, (n, F).
            draws: features of the stacked ones, (n, m, F).
            a: row weights, (n,).
            d: how many parameters.
        """
        of_truth, of_draws = (_terms(x[..., :d].double()) for x in (truth, draws))
        beta = torch.zeros(2 * d + 1, dtype=torch.float64, requires_grad=True)
        optimiser = torch.optim.LBFGS([beta], max_iter=100, line_search_fn="strong_wolfe")

        def loss() -> Tensor:
            optimiser.zero_grad()
            value = RIDGE * beta @ beta - js_lower_bound(of_truth @ beta, of_draws @ beta, a.double())
            value.backward()
            return value

        with torch.enable_grad():
            optimiser.step(loss)
        return cls(beta.detach())


def _terms(place: Tensor) -> Tensor:
    """Return 1, z and z², (..., 2d + 1)."""
    return torch.cat([torch.ones_like(place[..., :1]), place, place**2], -1)


class Critic:
    """A classifier under training: the logit of D, and one step at a time.

    Args:
        inputs: how many features.
        hidden: units of its layers.
        learning_rate: of its steps.
        seed: of its initial weights.
        start: the logit that it begins with and adds to; None for the network's own.
    """

    def __init__(
        self,
        inputs: int,
        hidden: tuple[int, ...],
        learning_rate: float,
        seed: int,
        start: Quadratic | None = None,
    ) -> None:
        sizes, self.start = [inputs, *hidden], start
        with seeded(seed):  # torch initializes layers from its global generator only
            layers = [layer for a, b in pairwise(sizes) for layer in (_linear(a, b), nn.SiLU())]
            last = _linear(sizes[-1], 1)
        if start is not None:  # the network learns what the start leaves
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
        self.network = nn.Sequential(*layers, last)
        self.optimiser = torch.optim.AdamW(self.network.parameters(), learning_rate, weight_decay=1e-2)

    def logit(self, features: Tensor) -> Tensor:
        """Return the log odds that a pair is true, (...)."""
        logit = self.network(features)[..., 0]
        return logit if self.start is None else logit + self.start(features)

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


def held_out_bounds(
    truth: Tensor,
    draws: Tensor,
    a: Tensor,
    d: int,
    fit_rows: np.ndarray,
    test_rows: np.ndarray,
    hidden: tuple[int, ...],
    epochs: int,
    seed: int,
) -> np.ndarray:
    """Train a critic on some rows, and return the bound of each of some others, (len(test_rows),).

    It begins as a logistic regression on four fifths of the rows it may learn from. Its network learns the rest,
    as long as that helps on the other fifth, and is left out unless it helps there by more than a standard error.

    Args:
        truth: features of the true pairs, (N, F).
        draws: features of the stacked ones, (N, n, F).
        a: row weights, (N,).
        d: how many parameters.
        fit_rows: rows to train on.
        test_rows: rows to estimate the divergence on.
        hidden: units of its layers.
        epochs: the most epochs.
        seed: of its initial weights and batches.
    """
    rng, a = np.random.default_rng(seed), a.float()
    order = rng.permutation(fit_rows)
    stop, train = (torch.as_tensor(part) for part in np.split(order, [max(1, len(order) // 5)]))
    test = torch.as_tensor(test_rows)
    start = Quadratic.fit(truth[train], draws[train], a[train], d)
    critic = Critic(truth.shape[-1], hidden, 3e-3, seed, start)
    seen = torch.cat([stop, test])

    def bounds() -> Tensor:
        return by_row(critic.logit(truth[seen]), critic.logit(draws[seen])).double()

    with torch.no_grad():
        of_start = bounds()
    stopping = EarlyStopping(of_start, PATIENCE)
    for _ in range(epochs):
        for batch in torch.as_tensor(rng.permutation(train.numpy())).split(128):
            value = critic.step(truth[batch], draws[batch], a[batch])
            if not np.isfinite(value):
                raise StackingError(
                    "the critic of the Jensen–Shannon score diverged; check `theta`, `y`, `draws`."
                )
        with torch.no_grad():
            now = bounds()
        stopping.update(-float(a[stop].double() @ now[: len(stop)]), now.clone)
        if stopping.exhausted:
            break
    share = (a[stop] / a[stop].sum()).double().numpy()
    gain = mean_over_rows((stopping.best - of_start)[: len(stop)].numpy(), share)
    best = stopping.best if gain.value > gain.se else of_start
    return best[len(stop) :].numpy()


def _linear(inputs: int, outputs: int) -> nn.Linear:
    """Return a layer in single precision, as the features are, whatever torch's default is."""
    return nn.Linear(inputs, outputs, dtype=torch.float32)
