r"""A flow restricted to the box of the prior: what it puts outside is cut off, and the rest is renormalized.

With the density f of the flow over standardized parameters x, the box B and a density u on it,

.. math::
    q(x \mid c) = \frac{f(x \mid c)\, 1(x \in B) + \varepsilon\, u(x)}{A(c) + \varepsilon}, \qquad
    A(c) = \int_B f(x \mid c)\, dx.

A posterior under a uniform prior is a likelihood cut off at the bounds, and so is q: the flow need not learn the
cut. The small share of u, uniform between two bounds and standard normal elsewhere, keeps density and draws
defined where a flow has next to none of its mass inside. A(c) is the share of a fixed set of points of low
discrepancy that the flow maps into the box. It is a function of c alone, so the density does not depend on which
rows are evaluated together.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import qmc

from drystone.flows.flow import Flow
from drystone.simulation.rejection import draw_accepted
from drystone.simulation.support import Support
from drystone.training.preprocessing import Scaling

__all__ = ["Restriction"]

# Share ε of u. It costs log(1 + ε / A) nats inside, and bounds the proposals per draw by 1 / ε.
DEFENSIVE = 1e-3
# Points that A is estimated from: so many at a time, until ENOUGH lie inside or MOST are spent. Independent points
# would leave log (A + ε) a standard error below √(1 / ENOUGH), 6 %, if A > ENOUGH / MOST, and below 18 % if not.
BLOCK, ENOUGH, MOST = 512, 256, 8192
# Most shares that a member remembers, at some 100 bytes each.
REMEMBERED = 100_000


class Restriction:
    """A box in standardized parameters, and a flow restricted to it.

    Args:
        flow: The density f in standardized coordinates.
        support: The support of the prior, whose map leaves parameters between two bounds as they are.
        scaling: Standardizes the parameters.
    """

    def __init__(self, flow: Flow, support: Support, scaling: Scaling) -> None:
        self.flow, self.boxed = flow, support.boxed
        self.lower, self.upper = (
            np.where(self.boxed, (bounds - scaling.shift) / scaling.scale, side)
            for bounds, side in ((support.lower, -np.inf), (support.upper, np.inf))
        )
        self._shares: dict[bytes, float] = {}

    def log_prob(self, x: NDArray[np.float64], c: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return log q(x_n | c_n), (N,), for rows x (N, d) in the box and contexts c (N, m)."""
        log_f = self.flow.log_prob(x, c).astype(np.float64)
        return np.logaddexp(log_f, np.log(DEFENSIVE) + self._log_u(x)) - np.log(self.share(c) + DEFENSIVE)

    def sample(self, n: int, c: NDArray[np.float32], seed: int | None) -> NDArray[np.float64]:
        """Return n draws at each row of c (N, m), (n, N, d)."""
        rng = np.random.default_rng(seed)

        def propose(m: int, rows: NDArray[np.intp]) -> NDArray[np.float64]:
            x = self.flow.sample(m, c[rows], rng).astype(np.float64)
            of_u = rng.random((m, len(rows))) < DEFENSIVE / (1 + DEFENSIVE)
            x[of_u] = self._draw_u(int(of_u.sum()), rng)
            return x

        if n == 0 or not len(c):
            return np.empty((n, len(c), len(self.lower)))
        return draw_accepted(n, len(c), propose, self._inside)

    def share(self, c: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return A(c_n), the share of the flow in the box, (N,)."""
        if not len(c):
            return np.zeros(0)
        # Rows of one observation stand together, and are looked up once.
        starts = np.flatnonzero(np.r_[True, (c[1:] != c[:-1]).any(1)])
        shares = [self._share_at(c[start]) for start in starts]
        return np.repeat(shares, np.diff(np.r_[starts, len(c)]))

    def _share_at(self, c: NDArray[np.float32]) -> float:
        key = c.tobytes()
        share = self._shares.get(key)  # once: another thread may forget all
        if share is None:
            inside = points = 0
            # One context at a time: how rows are grouped must not change a bit.
            while inside < ENOUGH and points < MOST:
                noise = self._noise[points : points + BLOCK]
                inside += int(self._inside(self.flow.push(noise[None], c[None])[0]).sum())
                points += BLOCK
            if len(self._shares) >= REMEMBERED:
                self._shares.clear()
            self._shares[key] = share = inside / points
        return share

    @cached_property
    def _noise(self) -> NDArray[np.float32]:
        """Standard normal points of low discrepancy, (MOST, d)."""
        points = qmc.Sobol(len(self.lower), rng=0).random(MOST)
        return ndtri(np.clip(points, 1e-9, 1 - 1e-9)).astype(np.float32)

    def _inside(self, x: NDArray) -> NDArray[np.bool_]:
        return np.all((x >= self.lower) & (x <= self.upper), axis=-1)

    def _log_u(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        others = ~self.boxed
        volume = np.log(self.upper[self.boxed] - self.lower[self.boxed]).sum()
        return -0.5 * (x[:, others] ** 2 + np.log(2 * np.pi)).sum(1) - volume

    def _draw_u(self, n: int, rng: np.random.Generator) -> NDArray[np.float64]:
        x = rng.standard_normal((n, len(self.lower)))
        x[:, self.boxed] = rng.uniform(self.lower[self.boxed], self.upper[self.boxed], (n, self.boxed.sum()))
        return x
