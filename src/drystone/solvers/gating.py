r"""Local mixture × any mixture score: train a gating network from the global solution; keep it only if it wins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone.errors import StackingError
from drystone.estimate import bootstrap_weights
from drystone.forms import Form, LocalMixture, Mixture, View
from drystone.scores import RowScore, Score
from drystone.solvers.projected_gradient import soft_width
from drystone.solvers.solver import Solution, Solver, needs_critic
from drystone.table import Table
from drystone.table.inputs import flat_data, spread_or_one

__all__ = ["Gating"]

# The share of uniform weights mixed in at the start, so that a member without global weight can gain a local one.
FLOOR = 0.05
# Resamplings of the rows behind the standard error of the gain.
BOOTSTRAP = 60


@dataclass(frozen=True, repr=False)
class Gating(Solver):
    """Adam on all rows at once, early stopping, and a fall-back to global weights.

    Args:
        globally: the solver of the global mixture; None for the one registered for the score.
    """

    handles: ClassVar = (LocalMixture,)
    globally: Solver | None = None

    def refuses(self, form: Form, score: Score) -> str:
        """Why not, or nothing."""
        return needs_critic(score) or super().refuses(form, score)

    def _solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The network, or the global mixture if that is as good on the rows kept aside."""
        assert isinstance(form, LocalMixture)
        flat_data(table, "weights that depend on the data need")
        kept, aside = table.split(1 - form.holdout, seed)
        stop_by, judge_by = aside.split(0.5, seed)  # what stops the training may not judge it too
        weights = self._global(kept, score, tol, seed).params["weights"]
        network, steps = _train(form, _initial(form, kept, weights, seed), kept, stop_by, score)
        everywhere = Mixture().combine({"weights": torch.tensor(weights)}, judge_by)
        local = form.combine(network, judge_by)
        gain, error = _gain(everywhere, local, score, seed)
        if np.isnan(gain):
            raise StackingError("training of the gating network diverged; lower `learning_rate`.")
        verdict = f"by {gain:.4g} ± {error:.2g} on {judge_by.N} rows that neither has seen"
        if gain <= 2 * error:
            solution = self._global(table, score, tol, seed)
            note = f"fell back to global weights: local ones gain {verdict[3:]}."
            return replace(solution, form=Mixture(), note=f"{note} {solution.note}".strip())
        note = f"local weights beat global ones {verdict}."
        return Solution({name: value.numpy() for name, value in network.items()}, None, None, True, steps, note)

    def _global(self, table: Table, score: Score, tol: float, seed: int) -> Solution:
        from drystone.solvers import pick  # which in turn knows us

        return (self.globally or pick(Mixture(), score)).solve(table, Mixture(), score, tol, seed)


def _initial(form: LocalMixture, table: Table, weights: np.ndarray, seed: int) -> dict[str, Tensor]:
    """A network whose last layer is 0 and whose biases are the logarithms of the global weights."""
    generator = torch.Generator().manual_seed(seed)
    features = form.features(np.asarray(table.y))
    scale = torch.as_tensor(spread_or_one(features.numpy()))
    network = {"y_mean": features.mean(0), "y_scale": scale}
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


def _gain(everywhere: View, local: View, score: Score, seed: int) -> tuple[float, float]:
    """What local weights gain over global ones, and its standard error by resampling the rows (both alike)."""
    a = local.row_weights
    weightings = torch.stack([a, *map(torch.as_tensor, bootstrap_weights(a.numpy(), BOOTSTRAP, seed))])
    with torch.no_grad():
        differences = sum(
            (c * _differences(term, everywhere, local, weightings) for c, term in score.terms),
            torch.zeros(len(weightings), dtype=torch.float64),
        )
    gain = float(differences[0])
    # Global weights that leave a row unexplained lose without bound.
    return gain, float(differences[1:].std()) if np.isfinite(gain) else 0.0


def _differences(term: Score, everywhere: View, local: View, weightings: Tensor) -> Tensor:
    """The term's value with global less that with local weights, under each weighting of the rows."""
    if isinstance(term, RowScore):
        return weightings @ (term.rows(everywhere) - term.rows(local))
    return torch.stack([term(everywhere.reweighted(a)) - term(local.reweighted(a)) for a in weightings])
