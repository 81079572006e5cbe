r"""The paper's toy (App. D.1): four Gaussian posteriors, equally far from the truth, wrong in different ways.

The true posterior is N(y, 1). Two members are shifted, one is too narrow, one too wide and shifted; each has a
Kullback–Leibler divergence of about ½ from the truth, so the log score alone cannot tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from drystone.table import Table

__all__ = ["MEMBERS", "Gaussian", "simulate", "table"]


@dataclass(frozen=True)
class Gaussian:
    """q(θ|y) = N(y + shift, sd²), as a member.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(200, seed=1)
        >>> members = {"exact": ds.toy.Gaussian(0.0, 1.0), **ds.toy.MEMBERS}
        >>> fit = ds.stack(ds.tabulate(members, theta, y))
        >>> fit.names[fit.weights.argmax()]
        'exact'
    """

    shift: float
    sd: float

    def log_prob(self, theta: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log density for paired rows theta (N, 1), y (N, 1): (N,)."""
        z = (theta - y - self.shift)[:, 0] / self.sd
        return -(z**2) / 2 - np.log(self.sd * np.sqrt(2 * np.pi))

    def sample(self, n: int, y: np.ndarray, seed: int | None = None) -> np.ndarray:
        """Return draws, (n, N, 1)."""
        return y + self.shift + self.sd * np.random.default_rng(seed).normal(size=(n, *y.shape))


MEMBERS = {
    "right": Gaussian(1.0, 1.0),
    "left": Gaussian(-1.0, 1.0),
    "narrow": Gaussian(0.0, 0.56),
    "wide": Gaussian(0.5, 2.45),
}


def simulate(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return n simulations theta (n, 1), y (n, 1) whose exact posterior is N(y, 1).

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(1000, seed=1)
        >>> theta.shape, y.shape, round(float((theta - y).std()))
        ((1000, 1), (1000, 1), 1)
    """
    rng = np.random.default_rng(seed)
    y = 3 * rng.normal(size=(n, 1))
    return y + rng.normal(size=(n, 1)), y


def table(n: int, seed: int = 0, draws: int = 200) -> Table:
    """Return the four members on n simulations, with log densities and draws.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(200, seed=1)
        >>> table
        Table(K=4 members, N=200 simulations, d=1 parameter; gives draws, interval, log_q, mean, moments, rank)
        >>> table.names
        ('right', 'left', 'narrow', 'wide')
    """
    theta, y = simulate(n, seed)
    log_q = np.stack([member.log_prob(theta, y) for member in MEMBERS.values()])
    # Seeds of the members' draws: apart from each other and from the simulations'.
    seeds = np.random.SeedSequence([seed, 1]).generate_state(len(MEMBERS))
    sampled = [member.sample(draws, y, int(s)) for member, s in zip(MEMBERS.values(), seeds, strict=True)]
    return Table(
        theta,
        y,
        log_q=log_q,
        draws=np.stack(sampled).swapaxes(1, 2),
        names=list(MEMBERS),
        parameters=["theta"],
    )
