r"""Sample aggregation × anything differentiable: L-BFGS from the best single member, stopped early.

Held-out rows say after how many steps; then all rows are fitted. Jumps (in ranks, interval ends) are softened
while fitting, and exact on the held-out rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import scipy  # and not its parts, which it imports when they are used: most fits use none
import torch
from torch import Tensor

from drystone._early_stopping import EarlyStopping
from drystone.forms import Form, SampleAggregation
from drystone.forms.sample import STRUCTURES
from drystone.scores import Score
from drystone.solvers.choice import Candidate, choose, do_little, kept
from drystone.solvers.projected_gradient import soft_width
from drystone.solvers.solver import Solution, Solver, Status, differentiable, needs_critic
from drystone.table import Table, blocks
from drystone.table.inputs import spread_or_one

__all__ = ["LBFGS", "Coordinates", "best_member"]

# After how many steps "auto" may stop; most of what fresh rows gain is gained in the first ten.
STEPS = (1, 2, 4, 8, 16, 32, 64)
# Fewer numbers (N rows of d parameters) per coefficient than this leave a structure untried.
ENOUGH = 5


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

    def point(self, params: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the point of some parameters, the inverse of :meth:`params`."""
        matrix, (centre, spread) = params["matrix"], (self.centre.numpy(), self.spread.numpy())
        V = matrix / spread[:, None] * spread
        diagonal = np.diagonal(V, axis1=1, axis2=2)
        entries = {"scalar": diagonal[:, :1], "diagonal": diagonal, "full": V.reshape(len(V), -1)}[self.structure]
        offset = (params["offset"] - centre + (matrix @ centre).sum(0)) / spread
        return np.concatenate([offset, entries.ravel()])

    def member(self, k: int) -> np.ndarray:
        """Return the point that is member k alone."""
        d = len(self.centre)
        entries = {"scalar": np.ones(1), "diagonal": np.ones(d), "full": np.eye(d).ravel()}[self.structure]
        x = np.zeros((self.K, len(entries)))
        x[k] = entries
        return np.concatenate([np.zeros(d), x.ravel()])


@dataclass(frozen=True, repr=False)
class LBFGS(Solver[SampleAggregation, Score]):
    """L-BFGS from the best member, stopped after as many steps as held-out rows say, then fitted to all rows.

    Args:
        steps: at most so many.
        folds: of the cross-validation behind ``structure="auto"``.

    Example:
        >>> import drystone as ds
        >>> table, form = ds.toy.table(100, seed=1), ds.SampleAggregation("diagonal")
        >>> fit = ds.stack(table, form, ds.MomentScore(), solver=ds.solvers.LBFGS(steps=50))
        >>> fit.status.name, fit.iterations <= 50
        ('HELD_OUT', True)
    """

    handles: ClassVar = (SampleAggregation,)
    steps: int = 200
    folds: int = 3

    def unsupported_reason(self, form: Form, score: Score) -> str:
        """Return why it cannot solve this pair, or an empty text."""
        return needs_critic(score) or super().unsupported_reason(form, score)

    def minimize(self, table: Table, form: SampleAggregation, score: Score, tol: float, seed: int) -> Solution:
        """Return the aggregation that held-out rows ask for, fitted to all rows."""
        if form.structure == "auto":
            return self._choose(table, form, score, tol, seed)
        if form.holdout == 0:
            return Descent(table, form, score, self.steps, tol).solution(None)
        fitted_on, held_out = table.split(1 - form.holdout, seed)
        descent = Descent(fitted_on, form, score, self.steps, tol)
        # Of iterates that tie the first: later ones fit the other rows better and these no better.
        stopping = EarlyStopping(0)
        for step, x in enumerate(descent.path):
            stopping.update(descent.loss(x, held_out), lambda step=step: step)
        at_start = descent.loss(descent.path[0], held_out)
        gained = f"{at_start:.6g} → {stopping.loss:.6g}"
        note = f"step {stopping.best} of {len(descent.path) - 1} is best on {held_out.N} held-out rows: {gained}"
        # To the last step: that is where it converges, and it may on all rows.
        steps = None if stopping.best == len(descent.path) - 1 else stopping.best
        solution = Descent(table, form, score, self.steps if steps is None else steps, tol).solution(steps)
        return replace(solution, note=f"{note}; then fitted to all rows.")

    def _choose(self, table: Table, form: SampleAggregation, score: Score, tol: float, seed: int) -> Solution:
        """Return the structure and the number of steps that do best on rows left out, or a mixture."""
        sizes = {"scalar": table.K, "diagonal": table.K * table.d, "full": table.K * table.d**2}
        structures = [name for name in STRUCTURES if name == "scalar" or ENOUGH * sizes[name] <= table.N * table.d]
        variants = {
            f"{structure} matrices, {steps} steps": (replace(form, structure=structure), steps)
            for structure in structures
            for steps in STEPS
        }

        def candidates(rows: Table) -> dict[str, Candidate]:
            descents = {
                structure: Descent(rows, replace(form, structure=structure), score, STEPS[-1], tol)
                for structure in structures
            }
            return do_little(rows, score, seed) | {
                name: Candidate(variant, descents[variant.structure].params(steps))
                for name, (variant, steps) in variants.items()
            }

        choice = choose(table, candidates, score, self.folds, seed)
        if choice.little:
            return kept(choice, do_little(table, score, seed)[choice.name])
        variant, steps = variants[choice.name]
        solution = Descent(table, variant, score, steps, tol).solution(steps)
        return replace(solution, note=choice.note, choice=choice.name, form=variant)


class Descent:
    """L-BFGS from the best single member on the rows of a table.

    Attributes:
        path: the start and the iterates.
    """

    def __init__(self, table: Table, form: SampleAggregation, score: Score, steps: int, tol: float) -> None:
        self.table, self.form, self.score, self.tol = table, form, score, tol
        self.coordinates = Coordinates.of(table, form.structure)
        self.softness = soft_width(table) if "draws" in table.gives else 0.0
        start = self.coordinates.member(best_member(table, form, score))
        self.path = [start]
        # In units of the start, so that L-BFGS stops by the same rule whatever the units of the parameters are.
        self.size = abs(self.loss(start, table)) or 1.0
        self.end = None
        if steps > 0:
            self.end = scipy.optimize.minimize(
                self._fitted,
                start,
                jac=True,
                method="L-BFGS-B",
                callback=lambda x: self.path.append(x.copy()),
                options={"maxiter": steps, "gtol": tol},
            )

    def loss(self, x: np.ndarray, table: Table) -> float:
        """Return the score on the rows of a table, nothing softened."""
        with torch.no_grad():
            return float(self.score(self.form.combine(self.coordinates.params(torch.tensor(x)), table)))

    def params(self, step: int) -> dict[str, np.ndarray]:
        """Return the parameters after so many steps, or the last."""
        x = torch.tensor(self.path[min(step, len(self.path) - 1)])
        return {name: value.numpy() for name, value in self.coordinates.params(x).items()}

    def solution(self, steps: int | None) -> Solution:
        """Return the last iterate; ``steps`` is where it was meant to stop, None for where it converges."""
        taken = len(self.path) - 1
        stationarity = float(np.abs(self._fitted(self.path[-1])[1]).max())
        if steps is not None:
            status = Status.HELD_OUT
        elif self.end is not None and self.end.success:
            status = Status.CONVERGED
        else:  # by the limit, or by a failed search
            status = Status.STEP_LIMIT if self.end is not None and self.end.nit >= taken > 0 else Status.STALLED
        return Solution(self.params(taken), None, stationarity, status, taken)

    def _fitted(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the softened score and its gradient."""
        point = torch.tensor(x, requires_grad=True)
        view = self.form.combine(self.coordinates.params(point), self.table, self.softness)
        loss = differentiable(self.score, view) / self.size
        (gradient,) = torch.autograd.grad(loss, point)
        return loss.item(), gradient.numpy()


def best_member(table: Table, form: SampleAggregation, score: Score) -> int:
    """Return the member with the least score, each alone."""
    d = table.d
    alone = {"offset": torch.zeros(d, dtype=torch.float64), "matrix": torch.eye(d, dtype=torch.float64)[None]}
    with torch.no_grad():
        losses = [float(score(form.combine(alone, blocks.part(table, [k])))) for k in range(table.K)]
    return int(np.argmin(losses))
