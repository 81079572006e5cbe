r"""Sample aggregation × anything differentiable: L-BFGS from the best single member, stopped early.

Steps (ranks, interval ends) are softened while fitting, and exact on the held-out rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # and not its parts, which it imports when they are used: most fits use none
import torch
from torch import Tensor

from drystone._early_stopping import EarlyStopping
from drystone.forms import Form, SampleAggregation
from drystone.scores import Score
from drystone.solvers.projected_gradient import soft_width
from drystone.solvers.solver import Solution, Solver, Status, needs_critic
from drystone.table import Table
from drystone.table.inputs import spread_or_one

__all__ = ["LBFGS", "Coordinates", "best_member"]


@dataclass(frozen=True)
class Coordinates:
    r"""Free parameters of a sample aggregation, for parameters θ of zero mean and unit spread.

    .. math::
        \theta^* = c + s \Big( v_0 + \sum_k V_k (\tilde\theta_k - c)/s \Big)
    """

    structure: str
    K: int
    centre: Tensor
    spread: Tensor

    @classmethod
    def of(cls, table: Table, structure: str) -> Coordinates:
        """Return the units that center and scale by the rows of a table."""
        theta = table.theta
        return cls(structure, table.K, torch.as_tensor(theta.mean(0)), torch.as_tensor(spread_or_one(theta)))

    def params(self, x: Tensor) -> dict[str, Tensor]:
        """Return offset (d,) and matrices (K, d, d) in the user's units."""
        d = len(self.centre)
        entries = x[d:].view(self.K, -1)
        diagonal = self.structure != "full"
        V = torch.diag_embed(entries.expand(self.K, d)) if diagonal else entries.view(self.K, d, d)
        matrix = V * self.spread[:, None] / self.spread[None, :]
        return {"offset": self.centre + self.spread * x[:d] - (matrix @ self.centre).sum(0), "matrix": matrix}

    def member(self, k: int) -> np.ndarray:
        """Return the point that is member k alone."""
        d = len(self.centre)
        entries = {"scalar": np.ones(1), "diagonal": np.ones(d), "full": np.eye(d).ravel()}[self.structure]
        x = np.zeros((self.K, len(entries)))
        x[k] = entries
        return np.concatenate([np.zeros(d), x.ravel()])


@dataclass(frozen=True, repr=False)
class LBFGS(Solver[SampleAggregation, Score]):
    """L-BFGS on most of the rows; the iterate that is best on the others.

    Args:
        steps: at most so many.
    """

    handles: ClassVar = (SampleAggregation,)
    steps: int = 200

    def unsupported_reason(self, form: Form, score: Score) -> str:
        """Return why it cannot solve this pair, or an empty text."""
        return needs_critic(score) or super().unsupported_reason(form, score)

    def minimize(self, table: Table, form: SampleAggregation, score: Score, tol: float, seed: int) -> Solution:
        """Return the best iterate on held-out rows, never worse there than the best single member."""
        fitted_on, held_out = table.split(1 - form.holdout, seed)
        coordinates = Coordinates.of(fitted_on, form.structure)
        softness = soft_width(fitted_on) if "draws" in table.gives else 0.0

        def fitted(x: np.ndarray) -> tuple[float, np.ndarray]:
            point = torch.tensor(x, requires_grad=True)
            loss = score(form.combine(coordinates.params(point), fitted_on, softness)) / size
            (gradient,) = torch.autograd.grad(loss, point)
            return loss.item(), gradient.numpy()

        def held_out_loss(x: np.ndarray) -> float:
            with torch.no_grad():
                return float(score(form.combine(coordinates.params(torch.tensor(x)), held_out)))

        start = coordinates.member(best_member(fitted_on, form, score))
        at_start = held_out_loss(start)
        # Of iterates that tie the first: later ones fit the other rows better and these no better.
        stopping = EarlyStopping(start)
        stopping.update(at_start, lambda: start)
        # In units of the start, so that L-BFGS stops by the same rule whatever the units of the parameters are.
        size = abs(at_start) or 1.0
        end = scipy.optimize.minimize(
            fitted,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=lambda x: stopping.update(held_out_loss(x), x.copy),
            options={"maxiter": self.steps, "gtol": tol},
        )
        taken, x = stopping.steps - 1, stopping.best
        params = {name: value.numpy() for name, value in coordinates.params(torch.tensor(x)).items()}
        gained = f"{at_start:.6g} → {stopping.loss:.6g}"
        note = f"step {stopping.step} of {taken} is best on {held_out.N} held-out rows: {gained}."
        stationarity = float(np.abs(fitted(x)[1]).max())
        # Stopped early on purpose, or at a minimum of the rows fitted; not by the limit, nor by a failed search.
        if stopping.step < taken:
            status = Status.HELD_OUT
        elif end.success:
            status = Status.CONVERGED
        else:
            status = Status.STEP_LIMIT if taken >= self.steps else Status.STALLED
        return Solution(params, None, stationarity, status, taken, note)


def best_member(table: Table, form: SampleAggregation, score: Score) -> int:
    """Return the member with the least score, each alone."""
    d = table.d
    alone = {"offset": torch.zeros(d, dtype=torch.float64), "matrix": torch.eye(d, dtype=torch.float64)[None]}
    with torch.no_grad():
        losses = [float(score(form.combine(alone, table.select(members=[k])))) for k in range(table.K)]
    return int(np.argmin(losses))
