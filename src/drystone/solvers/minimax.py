r"""Mixture or sample aggregation × Jensen–Shannon: the stack against a critic, in turns (Sec. 2.3).

.. math::
    \min_{\text{params}} \max_D \tfrac12 E \log D(\theta_n, y_n) + \tfrac12 E \log(1 - D(\theta^*, y_n))

For a mixture the second term is Σ_k w_k E log(1 − D(θ̃_k, y)): linear in w, so the maximum over D is convex in w.
For aggregated samples the draws move with the parameters. Other terms of a sum are added to the stack's side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from drystone.errors import StackingError
from drystone.estimate import Estimate, mean_over_rows, split_folds
from drystone.forms import Form, Mixture, SampleAggregation
from drystone.forms.distances import mixed_draws
from drystone.forms.view import JoinedView
from drystone.scores import EnergyScore, JensenShannon, LogScore, Score, Sum
from drystone.scores.critic import Critic, Features
from drystone.solvers.choice import CLEAR, FOLDS, UNIFORM
from drystone.solvers.lbfgs import LBFGS, Coordinates, best_member
from drystone.solvers.log_score import SQP
from drystone.solvers.projected_gradient import soft_width
from drystone.solvers.quadratic import QuadraticProgram
from drystone.solvers.solver import Solution, Solver, Status
from drystone.table import Table

__all__ = ["Minimax"]

# Members that are looked at when the best single one by Jensen–Shannon is sought: the best few by energy score.
SHORT_LIST = 3


@dataclass(frozen=True, repr=False)
class Minimax(Solver[Form, Score]):
    """Turns of a critic and the stack; of its first, average and last parameters the best on held-out rows.

    Local mixtures cannot play: whether their network beats global weights would rest on the critic as well.

    Args:
        rounds: turns.
        critic_steps: batches the critic learns from in each.
        learning_rate: of the stack.
        holdout: the share of held-out rows, on which the divergence is estimated.

    Example:
        >>> import drystone as ds
        >>> score = ds.JensenShannon(hidden=(8,), epochs=5, draws=2)
        >>> fit = ds.stack(ds.toy.table(50, seed=1), score=score, solver=ds.solvers.Minimax(rounds=3))
        >>> print(fit.status)
        stopped where held-out rows were fitted best, without a certificate
    """

    handles: ClassVar = (Mixture, SampleAggregation)
    rounds: int = 300
    critic_steps: int = 4
    learning_rate: float = 0.02
    holdout: float = 0.3

    def unsupported_reason(self, form: Form, score: Score) -> str:
        """Return why it cannot solve this pair, or an empty text."""
        if not any(term.adversarial for _, term in score.terms):
            return "it plays against the critic of JensenShannon, which the score does not have"
        why = super().unsupported_reason(form, score)
        return f"{why}; use one of these, or a score without an adversary" if why else ""

    def minimize(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """Return the best of start, average and end, by the held-out score; or what is as good and simpler."""
        game = Game(table, form, score, self.holdout, seed)
        path = game.play(self.rounds, self.critic_steps, self.learning_rate)
        points = {"its start": path[0], "the average of its last rounds": path[len(path) // 2 :].mean(0)}
        points["its last round"] = path[-1]
        judged = {name: game.judge(game.form, game.side.params(x)) for name, x in points.items()}
        chosen = min(judged, key=lambda name: judged[name].value)
        taken, listed = judged[chosen], f"stacked {judged[chosen].divergence}"
        # A structure that was asked for is the paper's, and is kept.
        if not isinstance(form, SampleAggregation) or form.structure == "auto":
            rivals = game.rivals()
            simple = _simplest(rivals, game.coefficient)
            rival = rivals[simple]
            against = game.judge(rival.form, {"weights": rival.fit(game.rows)})
            listed += f", {simple} {against.divergence}; on all rows, cross-fitted: "
            listed += ", ".join(f"{name} {it.judged.divergence}" for name, it in rivals.items())
            if not taken.clearly_better(against, game.coefficient):
                chosen, taken = simple, replace(against, params={"weights": rival.fit(table)})
        note = f"kept {chosen}; held-out Jensen–Shannon (lower bounds) on {len(game.held_out)} rows: {listed}."
        arrays = {name: value.numpy() for name, value in taken.params.items()}
        return Solution(arrays, None, None, Status.HELD_OUT, self.rounds, note, taken.form, chosen)


@dataclass(frozen=True)
class Judged:
    """Parameters of a form, judged on held-out rows by a critic of their own.

    Attributes:
        form: the form.
        params: its parameters.
        value: the whole score.
        bounds: of the divergence, of each row, (n,).
        row_weights: of these rows, summing to one, (n,).
    """

    form: Form
    params: dict[str, Tensor]
    value: float
    bounds: np.ndarray
    row_weights: np.ndarray

    @property
    def divergence(self) -> Estimate:
        """The divergence in the score."""
        return mean_over_rows(self.bounds, self.row_weights)

    def clearly_better(self, other: Judged, coefficient: float) -> bool:
        """Return whether the score is less than another's by more than chance, of the divergence in both."""
        difference = mean_over_rows(other.bounds - self.bounds, self.row_weights)
        return self.value < other.value - CLEAR * coefficient * difference.se


@dataclass(frozen=True)
class Rival:
    """A mixture that the stack must be better than.

    Attributes:
        form: the form.
        fit: its weights, fitted to some rows.
        judged: on all rows, by fits and critics that have not seen them.
    """

    form: Mixture
    fit: Callable[[Table], Tensor]
    judged: Judged


class Side(ABC):
    """The stack's side of the game: its coordinates, and its draws as a function of them.

    Attributes:
        form: the form, with whatever it leaves open decided.
        start: the coordinates at the beginning, (P,).
        rate: the learning rate in units of the solver's.
        soft: whether steps must be softened even where the score has none of its own.
    """

    form: Form
    start: Tensor
    rate: ClassVar[float]
    soft: ClassVar[bool]

    @abstractmethod
    def __init__(self, form: Form, rows: Table, seed: int) -> None:
        """Begin on some rows."""

    @abstractmethod
    def params(self, x: Tensor) -> dict[str, Tensor]:
        """Return the parameters of the form at coordinates x."""

    @abstractmethod
    def draws(
        self, params: dict[str, Tensor], members: Tensor, rows: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return draws for some rows, (n, m, d), their weights, and the members' draws that they are made of.

        The weights are (m,), or None if all are the same; the members' draws are (n, 1, o, d).

        Args:
            params: the parameters.
            members: draws of the members, (N, K, M, d).
            rows: which rows.
            rng: chooses among the draws.
        """

    def penalty(self, params: dict[str, Tensor], table: Table) -> Tensor:
        """Return the penalty of the form."""
        return torch.zeros(())


class MixtureSide(Side):
    """Logits of the weights. A batch has one draw of each member, weighed by w."""

    rate: ClassVar = 5  # the unit is a logit
    soft: ClassVar = False

    def __init__(self, form: Form, rows: Table, seed: int) -> None:
        self.form = self.mixture = cast(Mixture, form)
        # The energy score's solution, a little inside the simplex: a good and cheap start.
        energy = QuadraticProgram().solve(rows, Mixture(), EnergyScore(), 1e-6, seed)
        self.start = torch.tensor(np.log(0.95 * energy.params["weights"] + 0.05 / rows.K))

    def params(self, x: Tensor) -> dict[str, Tensor]:
        """Return the weights."""
        return {"weights": torch.softmax(x, 0)}

    def draws(
        self, params: dict[str, Tensor], members: Tensor, rows: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return one draw of each member for each row, and the members' weights."""
        s = torch.as_tensor(rng.integers(members.shape[2], size=len(rows)))
        draws = members[rows, :, s]
        return draws, params["weights"].float(), draws[:, None]

    def penalty(self, params: dict[str, Tensor], table: Table) -> Tensor:
        """Return that of the Dirichlet prior on the weights."""
        c = self.mixture.pseudocount(table)
        return -c * params["weights"].log().sum() if c > 0 else torch.zeros(())


class SampleSide(Side):
    """Offset and matrices in units of the parameters' spread. A batch has sums of the members' draws."""

    rate: ClassVar = 1  # the unit is the parameters' spread, which needs smaller steps than a logit
    soft: ClassVar = True  # draws that are moved have no slope in a step

    def __init__(self, form: Form, rows: Table, seed: int) -> None:
        aggregation, start = cast(SampleAggregation, form), None
        if aggregation.structure == "auto":  # as the energy score chooses
            energy = LBFGS().solve(rows, aggregation, EnergyScore(), 1e-6, seed)
            if isinstance(energy.form, SampleAggregation):
                aggregation, start = energy.form, energy.params
            else:
                aggregation = replace(aggregation, structure="diagonal")
        self.form, self.coordinates = aggregation, Coordinates.of(rows, aggregation.structure)
        if start is None:
            x = self.coordinates.member(best_member(rows, aggregation, EnergyScore()))
        else:
            x = self.coordinates.point(start)
        self.start = torch.tensor(x)

    def params(self, x: Tensor) -> dict[str, Tensor]:
        """Return the offset and the matrices."""
        return self.coordinates.params(x)

    def draws(
        self, params: dict[str, Tensor], members: Tensor, rows: Tensor, rng: np.random.Generator
    ) -> tuple[Tensor, Tensor | None, Tensor]:
        """Return up to eight combined draws for each row, all of the same weight."""
        M = members.shape[2]
        s = torch.as_tensor(rng.permutation(M)[: min(8, M // 2)])
        origin = members[rows][:, :, s]
        draws = params["offset"] + torch.einsum("kij,nksj->nsi", params["matrix"], origin)
        return draws, None, origin.flatten(1, 2)[:, None]


# The side of each form that can play.
SIDES: dict[type[Form], type[Side]] = {Mixture: MixtureSide, SampleAggregation: SampleSide}


def _side_of(form: Form) -> type[Side]:
    """Return the side of a form, or of the class it inherits from."""
    return next(SIDES[cls] for cls in type(form).__mro__ if cls in SIDES)


class Game:
    """The two sides, on a table whose rows are split into those played on and held-out ones."""

    def __init__(self, table: Table, form: Form, score: Score, holdout: float, seed: int) -> None:
        self.table, self.given, self.seed = table, form, seed
        adversarial = [(c, term) for c, term in score.terms if term.adversarial]
        self.coefficient = sum(c for c, _ in adversarial)
        self.js = cast(JensenShannon, adversarial[0][1])
        rest = tuple((c, term) for c, term in score.terms if not term.adversarial)
        self.rest = Sum(rest) if rest else None
        rng = np.random.default_rng(seed)
        order = rng.permutation(table.N)
        cut = round(holdout * table.N)
        if cut < 10 or table.N - cut < 20:
            raise ValueError(
                f"JensenShannon needs some tens of rows to play on and to judge by; got N = {table.N}."
            )
        self.held_out, self.played = np.sort(order[:cut]), np.sort(order[cut:])
        self.rows, self.rng = table.select(rows=self.played), rng
        self.theta, self.a = torch.as_tensor(table.theta), torch.as_tensor(table.row_weights)
        self.draws = mixed_draws(table, 64).transpose(0, 1)  # (N, K, M, d)
        if self.draws.shape[2] < 3:
            raise ValueError(
                "JensenShannon compares a draw with others of its member; it needs at least 3 draws, got "
                f"{self.draws.shape[2]}. Keep more in the table."
            )
        self.features = Features(table, self.draws.flatten(1, 2))
        self.side = _side_of(form)(form, self.rows, seed)
        self.form = self.side.form
        # Weights need softened steps only where a score has steps of its own.
        soft = self.side.soft or (self.rest is not None and not self.rest.smooth)
        self.softness = soft_width(self.rows) if soft else 0.0

    def play(self, rounds: int, critic_steps: int, learning_rate: float) -> Tensor:
        """Return the coordinates of the stack after every round, (rounds + 1, P)."""
        side = self.side
        x = side.start.clone().requires_grad_()
        stack = torch.optim.Adam([x], learning_rate * side.rate)
        critic = Critic(self.features.size, self.js.hidden, 3e-3, self.seed)
        path = [x.detach().clone()]
        for _ in range(rounds):
            for _ in range(critic_steps):
                rows = self._batch()
                with torch.no_grad():
                    draws, weights, origin = side.draws(side.params(x), self.draws, rows, self.rng)
                    truth = self.features(self.theta[rows], rows, origin[:, 0])
                    fake = self.features(draws, rows, origin)
                critic.step(truth, fake, self.a[rows].float(), weights)
            rows = self._batch()
            stack.zero_grad()
            draws, weights, origin = side.draws(side.params(x), self.draws, rows, self.rng)
            # log(1 − D): the stack wants it low.
            penalty = -softplus(critic.logit(self.features(draws, rows, origin)))
            fooled = penalty.mean(-1) if weights is None else penalty @ weights
            a = self.a[rows].float() / self.a[rows].float().sum()
            loss = self.coefficient * (a @ fooled) / 2 + side.penalty(side.params(x), self.rows)
            if self.rest is not None:
                loss = loss + self.rest(self.form.combine(side.params(x), self.rows, self.softness))
            loss.backward()
            if x.grad is None or not torch.isfinite(x.grad).all():
                raise StackingError(
                    "the stack's gradient against the critic is not finite; check `draws` and `y`."
                )
            stack.step()
            path.append(x.detach().clone())
        return torch.stack(path)

    def judge(self, form: Form, params: dict[str, Tensor]) -> Judged:
        """Return the whole score, and the divergence in it, by a fresh critic on the held-out rows."""
        a = self.a[self.held_out].numpy()
        with torch.no_grad():
            bounds = self.js.between(form.combine(params, self.table), self.played, self.held_out)
            value = self.coefficient * float(a @ bounds) / a.sum() + float(self.side.penalty(params, self.table))
            if self.rest is not None:
                value += float(self.rest(form.combine(params, self.table.select(rows=self.held_out))))
        return Judged(form, params, value, bounds, a / a.sum())

    def rivals(self) -> dict[str, Rival]:
        """Return what is as simple: the mixture of another score, which comes first, the best member, and uniform.

        A critic of few rows misses much, and what it sees of several posteriors differs by chance. So these are
        judged on all rows, by five critics that leave out a fifth each; the mixture is then one fitted to the
        others.
        """
        energy, vertices = EnergyScore(), torch.eye(self.table.K, dtype=torch.float64)
        form = self.given if isinstance(self.given, Mixture) else Mixture()
        with torch.no_grad():
            alone = [float(energy(Mixture().combine({"weights": w}, self.table))) for w in vertices]
        short_list = [int(k) for k in np.argsort(alone)[:SHORT_LIST]]
        best = min(short_list, key=lambda k: self.judge(form, {"weights": vertices[k]}).value)
        solver, score = _mixture_solver(self.table)
        fits: dict[str, Callable[[Table], Tensor]] = {
            f"mixture by {score!r}": lambda rows: torch.tensor(
                solver.solve(rows, form, score, 1e-6, self.seed).params["weights"]
            ),
            f"best member ({self.table.names[best]})": lambda rows: vertices[best],
            UNIFORM: lambda rows: vertices.mean(0),
        }
        return {name: Rival(form, fit, self._cross_fitted(form, fit)) for name, fit in fits.items()}

    def _cross_fitted(self, form: Mixture, fit: Callable[[Table], Tensor]) -> Judged:
        """Return weights judged on all rows: on each part those of the other parts, by critics of the others."""
        parts, left_out, every = [], [], []
        for fitted_on, rows in split_folds(self.table.N, FOLDS, self.seed):
            every.append(fit(self.table.select(rows=fitted_on)))
            parts.append(form.combine({"weights": every[-1]}, self.table.select(rows=rows)))
            left_out.append(rows)
        params, view = {"weights": torch.stack(every).mean(0)}, JoinedView(self.table, parts, left_out)
        with torch.no_grad():
            bounds, a = self.js.rows(view).numpy(), self.table.row_weights
            value = self.coefficient * float(a @ bounds) + float(self.side.penalty(params, self.table))
            if self.rest is not None:
                value += float(self.rest(view))
        return Judged(form, params, value, bounds, a)

    def _batch(self) -> Tensor:
        return torch.as_tensor(self.rng.choice(self.played, min(256, len(self.played)), replace=False))


def _mixture_solver(table: Table) -> tuple[Solver, Score]:
    """Return what fits a mixture by the log score, which is near the best by the divergence, or else by energy."""
    dense = table.has("log_q").all() and np.isfinite(table.log_q).all()
    return (SQP(), LogScore()) if dense else (QuadraticProgram(), EnergyScore())


def _simplest(rivals: dict[str, Rival], coefficient: float) -> str:
    """Return the first rival, or the best of those that are clearly better."""
    first = next(iter(rivals))
    clear = [n for n in rivals if rivals[n].judged.clearly_better(rivals[first].judged, coefficient)]
    return min(clear, key=lambda name: rivals[name].judged.value, default=first)
