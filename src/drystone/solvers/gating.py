r"""Local mixture × any mixture score: train a gating network from the global solution; keep it only if it wins."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from drystone._early_stopping import EarlyStopping
from drystone.errors import StackingError
from drystone.estimate import bootstrap_weights
from drystone.forms import Form, LocalMixture, Mixture, View
from drystone.scores import RowScore, Score
from drystone.solvers.log_score import SQP
from drystone.solvers.projected_gradient import ProjectedGradient, soft_width
from drystone.solvers.quadratic import QuadraticProgram
from drystone.solvers.rank import ConvexConcave
from drystone.solvers.solver import Solution, Solver, Status, differentiable, needs_critic
from drystone.table import Table
from drystone.table.inputs import flat_data, spread_or_one

__all__ = ["Gating"]

# What a member without global weight gets as training leaves the global solution, as a part of an equal share:
# from a logit of −∞ it could gain no local weight.
FLOOR = 0.05
# Resamplings of the rows behind the standard error of the gain.
BOOTSTRAP = 60
# Rows that local weights are judged by, at least.
FEWEST = 10
# Solvers of the global mixture: the first that takes the score.
GLOBAL = (SQP(), ConvexConcave(), QuadraticProgram(), ProjectedGradient())


@dataclass(frozen=True, repr=False)
class Gating(Solver[LocalMixture, Score]):
    """Adam on all rows at once, early stopping, and a fall-back to global weights.

    Args:
        globally: the solver of the global mixture; None for the first of ``GLOBAL`` that takes the score.

    Example:
        >>> import drystone as ds
        >>> solver = ds.solvers.Gating(globally=ds.solvers.Multiplicative())
        >>> form = ds.LocalMixture(hidden=(8,), epochs=20)
        >>> fit = ds.stack(ds.toy.table(200, seed=1), form, solver=solver, tol=1e-3)
        >>> print(fit.notes[0])
        fell back to global weights: local ones gain ... rows that neither has seen.
    """

    handles: ClassVar = (LocalMixture,)
    globally: Solver | None = None

    def unsupported_reason(self, form: Form, score: Score) -> str:
        """Return why it cannot solve this pair, or an empty text."""
        return needs_critic(score) or super().unsupported_reason(form, score)

    def minimize(self, table: Table, form: LocalMixture, score: Score, tol: float, seed: int) -> Solution:
        """Return the network, or the global mixture if that is as good on rows that neither has seen."""
        flat_data(table, "weights that depend on the data need")
        fitted_on, held_out = table.split(1 - form.holdout, seed)
        stop_by, judge_by = held_out.split(0.5, seed)  # what stops the training may not judge it too
        weights = self._global(fitted_on, score, tol, seed).params["weights"]
        training = _train(form, _initial(form, fitted_on, weights, seed), fitted_on, stop_by, score)
        everywhere = Mixture().combine({"weights": torch.tensor(weights)}, judge_by)
        local = form.combine(training.best, judge_by)
        gain, error = _gain(everywhere, local, score, seed) if training.step > 0 else (0.0, 0.0)
        if np.isnan(gain):
            raise StackingError("training of the gating network diverged; lower `learning_rate`.")
        verdict = f"{gain:.4g} ± {error:.2g} on {judge_by.N} rows that neither has seen"
        too_few = judge_by.effective_rows < FEWEST
        if too_few or gain <= 2 * error:
            solution = self._global(table, score, tol, seed)
            which = ", which are too few to tell" if too_few else ""
            note = f"fell back to global weights: local ones gain {verdict}{which}."
            return replace(solution, form=Mixture(), note=f"{note} {solution.note}".strip())
        note = f"local weights beat global ones by {verdict}."
        params = {name: value.numpy() for name, value in training.best.items()}
        return Solution(params, None, None, Status.HELD_OUT, training.steps - 1, note)

    def _global(self, table: Table, score: Score, tol: float, seed: int) -> Solution:
        """Return the solution with one set of weights."""
        form = Mixture()
        solver = self.globally or next(s for s in GLOBAL if not s.unsupported_reason(form, score))
        return solver.solve(table, form, score, tol, seed)


def _initial(form: LocalMixture, table: Table, weights: np.ndarray, seed: int) -> dict[str, Tensor]:
    """Return the global weights as a network: its last layer is 0, its biases are their logarithms."""
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
    network[f"bias_{last}"] = torch.log(torch.tensor(weights))
    return network


def _lifted(bias: Tensor) -> Tensor:
    """Return logits of which none is −∞: members without weight get ``FLOOR`` of an equal share each."""
    weights, K = torch.softmax(bias, 0), len(bias)
    without = weights == 0
    return torch.log(torch.where(without, FLOOR / K, weights * (1 - FLOOR * without.sum() / K)))


def _train(
    form: LocalMixture, network: dict[str, Tensor], fitted_on: Table, held_out: Table, score: Score
) -> EarlyStopping[dict[str, Tensor]]:
    """Return the network that is best on the held-out rows; number 0 is the one given, the global solution."""

    def held_out_loss() -> float:
        with torch.no_grad():
            return float(score(form.combine(network, held_out)))

    def state() -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in network.items()}

    stopping = EarlyStopping(state(), form.patience)
    stopping.update(held_out_loss(), state)
    last = f"bias_{len(form.hidden)}"
    network = {**network, last: _lifted(network[last])}
    trained = {name: value.requires_grad_() for name, value in network.items() if not name.startswith("y_")}
    optimiser = torch.optim.AdamW(trained.values(), form.learning_rate, weight_decay=form.weight_decay)
    softness = 0.0 if score.smooth else soft_width(fitted_on)
    for _ in range(form.epochs):
        optimiser.zero_grad()
        differentiable(score, form.combine(network, fitted_on, softness)).backward()
        optimiser.step()
        loss = held_out_loss()
        stopping.update(loss, state)
        if stopping.exhausted or not np.isfinite(loss):
            break
    return stopping


def _gain(everywhere: View, local: View, score: Score, seed: int) -> tuple[float, float]:
    """Return the gain of local weights over global ones, and its standard error by resampling the rows of both."""
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
    """Return the term's value with global less that with local weights, under each weighting of the rows."""
    if isinstance(term, RowScore):
        return weightings @ (term.rows(everywhere) - term.rows(local))
    return torch.stack([term(everywhere.reweighted(a)) - term(local.reweighted(a)) for a in weightings])
