r"""Mixture or sample aggregation × Jensen–Shannon: the stack against a critic, in turns (Sec. 2.3).

.. math::
    \min_{\text{params}} \max_D \tfrac12 E \log D(\theta_n, y_n) + \tfrac12 E \log(1 - D(\theta^*, y_n))

For a mixture the second term is Σ_k w_k E log(1 − D(θ̃_k, y)): linear in w, so the maximum over D is convex in w.
For aggregated samples the draws move with the parameters. Other terms of a sum are added to the stack's side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from drystone.errors import StackingError
from drystone.estimate import Estimate
from drystone.forms import Form, LocalMixture, Mixture, SampleAggregation
from drystone.forms.distances import first_draws
from drystone.scores import EnergyScore, JensenShannon, Score, Sum
from drystone.scores.critic import Critic, Features
from drystone.solvers.lbfgs import Coordinates, best_member, no_gradient
from drystone.solvers.projected_gradient import soft_width
from drystone.solvers.quadratic import QuadraticProgram
from drystone.solvers.solver import Solution, Solver
from drystone.table import Table

__all__ = ["Minimax"]

# Members that are looked at when the best single one by Jensen–Shannon is sought: the best few by energy score.
SHORT_LIST = 3


@dataclass(frozen=True, repr=False)
class Minimax(Solver):
    """Turns of a critic and the stack; of its first, average and last parameters the best on rows kept aside.

    Args:
        rounds: turns.
        critic_steps: batches the critic learns from in each.
        learning_rate: of the stack.
        holdout: the share of rows kept aside, on which the divergence is estimated.
    """

    handles: ClassVar = (Mixture, SampleAggregation)
    rounds: int = 300
    critic_steps: int = 4
    learning_rate: float = 0.02
    holdout: float = 0.3

    def refuses(self, form: Form, score: Score) -> str:
        """Why not, or nothing."""
        if not any(isinstance(term, JensenShannon) for _, term in score.terms):
            return "it plays against the critic of JensenShannon, which the score does not have"
        if isinstance(form, LocalMixture):
            return (
                "a network that plays against a critic cannot be told to have beaten global weights; "
                "use Mixture, or a score without an adversary"
            )
        if isinstance(form, SampleAggregation) and (why := no_gradient(score)):
            return why
        return super().refuses(form, score)

    def _solve(self, table: Table, form: Form, score: Score, tol: float, seed: int) -> Solution:
        """The best of start, average and end, by the held-out score."""
        game = Game(table, form, score, self.holdout, seed)
        path = game.play(self.rounds, self.critic_steps, self.learning_rate)
        candidates = {"its start": path[0], "the average of its last rounds": path[len(path) // 2 :].mean(0)}
        candidates["its last round"] = path[-1]
        judged = {name: game.judge(game.params(x)) for name, x in candidates.items()}
        chosen = min(judged, key=lambda name: judged[name][0])
        params = game.params(candidates[chosen])
        estimates = [("stacked", judged[chosen][1]), *game.references()]
        listed = ", ".join(f"{name} {estimate}" for name, estimate in estimates)
        note = f"kept {chosen}; held-out Jensen–Shannon on {len(game.aside)} rows: {listed}."
        return Solution(
            {name: value.numpy() for name, value in params.items()}, None, None, True, self.rounds, note
        )


class Game:
    """The two sides, on a table whose rows are split into those played on and those kept aside."""

    def __init__(self, table: Table, form: Form, score: Score, holdout: float, seed: int) -> None:
        self.table, self.form, self.score, self.seed = table, form, score, seed
        adversarial = [(c, term) for c, term in score.terms if isinstance(term, JensenShannon)]
        self.coefficient = sum(c for c, _ in adversarial)
        self.js = adversarial[0][1]
        rest = tuple((c, term) for c, term in score.terms if not isinstance(term, JensenShannon))
        self.rest = Sum(rest) if rest else None
        rng = np.random.default_rng(seed)
        order = rng.permutation(table.N)
        cut = round(holdout * table.N)
        if cut < 10 or table.N - cut < 20:
            raise ValueError(
                f"JensenShannon needs some tens of rows to play on and to judge by; got N = {table.N}."
            )
        self.aside, self.played = np.sort(order[:cut]), np.sort(order[cut:])
        self.rows, self.rng, self.features = table.select(rows=self.played), rng, Features(table)
        self.theta, self.a = torch.as_tensor(table.theta), torch.as_tensor(table.row_weights)
        self.draws = first_draws(table, 64).transpose(0, 1)  # (N, K, M, d)
        # Draws that are moved have no slope in a step; weights need one only where a score has steps of its own.
        steps = isinstance(form, SampleAggregation) or (self.rest is not None and not self.rest.smooth)
        self.softness = soft_width(self.rows) if steps else 0.0
        self.energy = QuadraticProgram().solve(self.rows, Mixture(), EnergyScore(), 1e-6, seed)
        if isinstance(form, Mixture):
            self.params: Callable[[Tensor], dict[str, Tensor]] = lambda x: {"weights": torch.softmax(x, 0)}
            # The energy score's solution, a little inside the simplex: a good and cheap start.
            weights = 0.95 * self.energy.params["weights"] + 0.05 / table.K
            self.start = torch.tensor(np.log(weights))
        else:
            assert isinstance(form, SampleAggregation)
            coordinates = Coordinates.of(self.rows, form.structure)
            self.params = coordinates.params
            self.start = torch.tensor(coordinates.member(best_member(self.rows, form, EnergyScore())))

    def play(self, rounds: int, critic_steps: int, learning_rate: float) -> Tensor:
        """Positions of the stack after every round, (rounds + 1, P)."""
        x = self.start.clone().requires_grad_()
        # For weights the unit is a logit; for matrices the parameters' spread, which wants smaller steps.
        stack = torch.optim.Adam([x], learning_rate * (5 if isinstance(self.form, Mixture) else 1))
        inputs = self.features(self.theta[:1], torch.zeros(1, dtype=torch.long)).shape[-1]
        critic = Critic(inputs, self.js.hidden, 3e-3, self.seed)
        path = [x.detach().clone()]
        for _ in range(rounds):
            for _ in range(critic_steps):
                rows = self._batch()
                with torch.no_grad():
                    draws, weights = self._draws(x, rows)
                    truth, fake = self.features(self.theta[rows], rows), self.features(draws, rows)
                critic.step(truth, fake, self.a[rows].float(), weights)
            rows = self._batch()
            stack.zero_grad()
            draws, weights = self._draws(x, rows)
            penalty = -softplus(critic.logit(self.features(draws, rows)))  # log(1 − D): the stack wants it low
            fooled = penalty.mean(-1) if weights is None else penalty @ weights
            a = self.a[rows].float() / self.a[rows].float().sum()
            loss = self.coefficient * (a @ fooled) / 2 + self._penalty(self.params(x), self.rows)
            if self.rest is not None:
                loss = loss + self.rest(self.form.combine(self.params(x), self.rows, self.softness))
            loss.backward()
            if x.grad is None or not torch.isfinite(x.grad).all():
                raise StackingError(
                    "the stack's gradient against the critic is not finite; check `draws` and `y`."
                )
            stack.step()
            path.append(x.detach().clone())
        return torch.stack(path)

    def judge(self, params: dict[str, Tensor]) -> tuple[float, Estimate]:
        """The whole score, with the divergence of a fresh critic on the rows kept aside."""
        with torch.no_grad():
            estimate, rest = self._divergence(self.form, params), float(self._penalty(params, self.table))
            if self.rest is not None:
                rest += float(self.rest(self.form.combine(params, self.table.select(rows=self.aside))))
        return self.coefficient * estimate.value + rest, estimate

    def references(self) -> list[tuple[str, Estimate]]:
        """The divergence of the best single member (of the best few by energy) and of uniform weights."""
        K, energy = self.table.K, EnergyScore()
        vertices = torch.eye(K, dtype=torch.float64)
        with torch.no_grad():
            alone = [float(energy(Mixture().combine({"weights": w}, self.table))) for w in vertices]
            short_list = {
                int(k): self._divergence(Mixture(), {"weights": vertices[k]})
                for k in np.argsort(alone)[:SHORT_LIST]
            }
            uniform = self._divergence(Mixture(), {"weights": vertices.mean(0)})
        best = min(short_list, key=lambda k: short_list[k].value)
        return [(f"best member ({self.table.names[best]})", short_list[best]), ("uniform", uniform)]

    def _penalty(self, params: dict[str, Tensor], table: Table) -> Tensor:
        """Of the Dirichlet prior on a mixture's weights."""
        if not isinstance(self.form, Mixture) or self.form.concentration == 1:
            return torch.zeros(())
        return -self.form.pseudocount(table) * params["weights"].log().sum()

    def _divergence(self, form: Form, params: dict[str, Tensor]) -> Estimate:
        view = form.combine(params, self.table)
        draws = view.draws(min(self.js.draws, self.table.draws.shape[2]), self.seed)
        return self.js.between(self.features, view, draws, self.played, self.aside)

    def _batch(self) -> Tensor:
        return torch.as_tensor(self.rng.choice(self.played, min(256, len(self.played)), replace=False))

    def _draws(self, x: Tensor, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Draws for some rows, (n, m, d): one of each member, weighed by w; or combined ones, all alike."""
        M = self.draws.shape[2]
        if isinstance(self.form, Mixture):
            members = torch.arange(self.draws.shape[1])
            s = torch.as_tensor(self.rng.integers(M, size=(len(rows), len(members))))
            return self.draws[rows[:, None], members, s], torch.softmax(x, 0).float()
        params = self.params(x)
        s = torch.as_tensor(self.rng.integers(M, size=8))
        return params["offset"] + torch.einsum("kij,nksj->nsi", params["matrix"], self.draws[rows][:, :, s]), None
