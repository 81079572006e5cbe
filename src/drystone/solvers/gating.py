r"""Local mixture × any mixture score: train a gating network from the global solution; keep it only if it wins."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from drystone.errors import StackingError
from drystone.forms import Form, LocalMixture, Mixture, View
from drystone.forms.local import needed_data
from drystone.scores import RowScore, Score
from drystone.solvers.gradient import soft_width
from drystone.solvers.solver import Solution, Solver
from drystone.table import Table

__all__ = ["Gating"]

# The share of uniform weights mixed in at the start, so that a member without global weight can gain a local one.
FLOOR = 0.05


@dataclass(frozen=True, repr=False)
class Gating(Solver):
    """Adam on all rows at once, early stopping, and a fall-back to global weights.

    Args:
        globally: the solver of the global mixture; None for the one registered for the score.
    """

    globally: Solver | None = None

    def solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The network, or the global mixture if that is as good on the rows kept aside."""
        assert isinstance(form, LocalMixture)
        needed_data(table)
        kept, aside = table.split(1 - form.holdout, seed)
        weights = self._global(kept, score, tol, seed).params["weights"]
        everywhere = Mixture().combine({"weights": torch.tensor(weights)}, aside)
        with torch.no_grad():
            to_beat = float(score(everywhere))
        network = _initial(form, kept, weights, seed)
        network, steps = _train(form, network, kept, aside, score)
        with torch.no_grad():
            local = form.combine(network, aside)
            gain, error = to_beat - float(score(local)), _standard_error(everywhere, local, score)
        margin = f"{gain:.4g} ± {error:.2g}" if error else f"{gain:.4g}"
        if not np.isfinite(gain):
            raise StackingError(
                f"training of the gating network diverged (held-out gain {gain}); lower learning_rate."
            )
        if gain <= 2 * error:
            solution = self._global(table, score, tol, seed)
            note = f"fell back to global weights: local ones gain {margin} on {aside.N} rows kept aside."
            return replace(solution, form=Mixture(), note=f"{note} {solution.note}".strip())
        note = f"local weights beat global ones by {margin} on {aside.N} rows kept aside."
        return Solution({name: value.numpy() for name, value in network.items()}, None, None, True, steps, note)

    def _global(self, table: Table, score: Score, tol: float, seed: int) -> Solution:
        from drystone.solvers import pick

        return (self.globally or pick(Mixture(), score)).solve(table, Mixture(), score, tol, seed)


def _initial(form: LocalMixture, table: Table, weights: np.ndarray, seed: int) -> dict[str, Tensor]:
    """A network whose last layer is 0 and whose biases are the logarithms of the global weights."""
    generator = torch.Generator().manual_seed(seed)
    features = form.features(needed_data(table))
    spread = features.std(0, correction=0)
    network = {
        "y_mean": features.mean(0),
        "y_scale": torch.where(spread > 1e-12 * features.abs().amax(0), spread, 1.0),
    }
    sizes = [features.shape[1], *form.hidden]
    for i, (fan_in, fan_out) in enumerate(zip(sizes, form.hidden, strict=False)):
        bound = (3 / fan_in) ** 0.5  # unit variance in, unit variance out
        uniform = torch.rand(fan_in, fan_out, generator=generator, dtype=torch.float64)
        network[f"layer_{i}"], network[f"bias_{i}"] = (
            bound * (2 * uniform - 1),
            torch.zeros(fan_out, dtype=torch.float64),
        )
    last, K = len(form.hidden), len(weights)
    network[f"layer_{last}"] = torch.zeros(sizes[-1], K, dtype=torch.float64)
    network[f"bias_{last}"] = torch.tensor(np.log((1 - FLOOR) * weights + FLOOR / K))
    return network


def _train(
    form: LocalMixture, network: dict[str, Tensor], kept: Table, aside: Table, score: Score
) -> tuple[dict[str, Tensor], int]:
    """The network that was best on the rows kept aside, and the number of steps taken."""
    trained = {name: value.requires_grad_() for name, value in network.items() if not name.startswith("y_")}
    optimiser = torch.optim.AdamW(trained.values(), form.learning_rate, weight_decay=form.weight_decay)
    softness = 0.0 if score.smooth else soft_width(kept)
    best, best_step, step, least = network, 0, 0, np.inf
    for step in range(form.epochs + 1):
        with torch.no_grad():
            loss_aside = float(score(form.combine(network, aside)))
        if loss_aside < least:
            least, best_step = loss_aside, step
            best = {name: value.detach().clone() for name, value in network.items()}
        if step - best_step >= form.patience or not np.isfinite(loss_aside):
            break
        optimiser.zero_grad()
        score(form.combine(network, kept, softness)).backward()
        optimiser.step()
    return best, step


def _standard_error(everywhere: View, local: View, score: Score) -> float:
    """Of the gain, paired by row; 0 if a term of the score is not a mean over rows."""
    if not all(isinstance(term, RowScore) for _, term in score.terms):
        return 0.0
    difference = sum(
        c * (term.rows(everywhere) - term.rows(local)) for c, term in score.terms if isinstance(term, RowScore)
    )
    assert isinstance(difference, Tensor)
    a = local.row_weights
    return float((a**2 * (difference - a @ difference) ** 2).sum().sqrt())
