r"""Sample aggregation × anything differentiable: L-BFGS from the best single member, stopped early.

Steps (ranks, interval ends) are softened while fitting, and exact on the rows kept aside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy  # and not its parts, which it imports when they are used: most fits use none
import torch
from torch import Tensor

from drystone.forms import Form, SampleAggregation
from drystone.scores import RankCvM, Score
from drystone.solvers.projected_gradient import soft_width
from drystone.solvers.solver import Solution, Solver, needs_critic
from drystone.table import Table
from drystone.table.inputs import spread_or_one

__all__ = ["Coordinates", "Descent", "best_member", "no_gradient"]


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
        """Centred and scaled by the rows of a table."""
        theta = table.theta
        return cls(structure, table.K, torch.as_tensor(theta.mean(0)), torch.as_tensor(spread_or_one(theta)))

    def params(self, x: Tensor) -> dict[str, Tensor]:
        """Offset (d,) and matrices (K, d, d) in the user's units."""
        d = len(self.centre)
        entries = x[d:].view(self.K, -1)
        diagonal = self.structure != "full"
        V = torch.diag_embed(entries.expand(self.K, d)) if diagonal else entries.view(self.K, d, d)
        matrix = V * self.spread[:, None] / self.spread[None, :]
        return {"offset": self.centre + self.spread * x[:d] - (matrix @ self.centre).sum(0), "matrix": matrix}

    def member(self, k: int) -> np.ndarray:
        """The point that is member k alone."""
        d = len(self.centre)
        entries = {"scalar": np.ones(1), "diagonal": np.ones(d), "full": np.eye(d).ravel()}[self.structure]
        x = np.zeros((self.K, len(entries)))
        x[k] = entries
        return np.concatenate([np.zeros(d), x.ravel()])


def no_gradient(score: Score) -> str:
    """Why a score has no gradient in the parameters of a sample aggregation, or nothing."""
    if any(isinstance(term, RankCvM) and term.statistic is not None for _, term in score.terms):
        return "ranks of a user's statistic have no gradient in the matrices of a sample aggregation"
    return ""


@dataclass(frozen=True, repr=False)
class Descent(Solver):
    """L-BFGS on most of the rows; the iterate that is best on the others.

    Args:
        steps: at most so many.
    """

    handles: ClassVar = (SampleAggregation,)
    steps: int = 200

    def refuses(self, form: Form, score: Score) -> str:
        """Why not, or nothing."""
        return no_gradient(score) or needs_critic(score) or super().refuses(form, score)

    def _solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The best iterate on the rows kept aside, never worse there than the best single member."""
        assert isinstance(form, SampleAggregation)
        kept, aside = table.split(1 - form.holdout, seed)
        coordinates = Coordinates.of(kept, form.structure)
        softness = soft_width(kept) if "draws" in table.gives else 0.0

        def fitted(x: np.ndarray) -> tuple[float, np.ndarray]:
            point = torch.tensor(x, requires_grad=True)
            loss = score(form.combine(coordinates.params(point), kept, softness)) / size
            (gradient,) = torch.autograd.grad(loss, point)
            return loss.item(), gradient.numpy()

        def held_out(x: np.ndarray) -> float:
            with torch.no_grad():
                return float(score(form.combine(coordinates.params(torch.tensor(x)), aside)))

        start = coordinates.member(best_member(kept, form, score))
        path = [(held_out(start), start)]
        # In units of the start, so that L-BFGS stops by the same rule whatever the units of the parameters are.
        size = abs(path[0][0]) or 1.0
        end = scipy.optimize.minimize(
            fitted,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=lambda x: path.append((held_out(x), x.copy())),
            options={"maxiter": self.steps, "gtol": tol},
        )
        # The first of the best: later iterates that only tie fit the other rows better and these no better.
        chosen = int(np.argmin([loss for loss, _ in path]))
        loss, x = path[chosen]
        params = {name: value.numpy() for name, value in coordinates.params(torch.tensor(x)).items()}
        gained = f"{path[0][0]:.6g} → {loss:.6g}"
        note = f"step {chosen} of {len(path) - 1} is best on {aside.N} rows kept aside: {gained}."
        stationarity = float(np.abs(fitted(x)[1]).max())
        # Stopped early on purpose, or at a minimum of the rows fitted; not by the limit, nor by a failed search.
        converged = chosen < len(path) - 1 or bool(end.success)
        return Solution(params, None, stationarity, converged, len(path) - 1, note)


def best_member(table: Table, form: SampleAggregation, score: Score) -> int:
    """The member with the least score, each alone."""
    d = table.d
    alone = {"offset": torch.zeros(d, dtype=torch.float64), "matrix": torch.eye(d, dtype=torch.float64)[None]}
    with torch.no_grad():
        losses = [float(score(form.combine(alone, table.select(members=[k])))) for k in range(table.K)]
    return int(np.argmin(losses))
