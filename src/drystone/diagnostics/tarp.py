r"""Tests of accuracy with random points (TARP; Lemos, Coogan, Hezaveh & Perreault-Levasseur 2023).

Choose a reference point x for each simulation, and draw the ball around it that reaches to the true θ. The share
of draws inside is uniform where the posterior is exact, in all parameters at once; and an estimate for which it is
uniform *for every reference that depends on y* is exact, which ranks of single parameters cannot say.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike

from drystone._arrays import as_numpy
from drystone.comparison import Fits, methods
from drystone.diagnostics.calibration import Calibration, rank_calibration
from drystone.diagnostics.ranks import Ranks, middle
from drystone.table import Table

__all__ = ["tarp"]


def tarp(
    table: Table, fits: Fits = None, *, references: ArrayLike | None = None, seed: int = 0, level: float = 0.95
) -> Calibration:
    r"""Compute ECDFs of the share of draws nearer than θ to a random point: coverage against credibility.

    .. math::
        f_n = \frac1S \sum_s 1\{\|\tilde\theta_{ns} - x_n\| \le \|\theta_n - x_n\|\}

    Above the diagonal first and then below it, the posterior is too narrow, or biased; the other way round, too
    wide. Distances are in units of the range of each parameter over the table. Draws of your own are a table of
    one member: ``Table(theta, draws=draws[None])``.

    Args:
        table: rows that neither members nor fits have seen, with ``draws``.
        fits: a stacking, or several by name; those that have no draws are skipped.
        references: points x_n, (N, d); None for uniform ones in the box of the table's θ.
        seed: of the references, and of the draws of stacks.
        level: of the band.

    Returns:
        curves with one column, named "ball".

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(500, seed=1))
        >>> print(ds.diagnostics.tarp(ds.toy.table(200, seed=3), fit))
        Calibration of 4 members and 2 methods:
        uniform: outside the band for ball
        stacked: inside the band
    """
    if "draws" not in table.gives:
        raise ValueError(f"TARP needs `draws`; the table gives: {', '.join(sorted(table.gives))}.")
    low, high = table.theta.min(0), table.theta.max(0)
    size = np.where(high > low, high - low, 1.0)
    if references is None:
        x = low + size * np.random.default_rng(seed).random(table.theta.shape)
    else:
        x = as_numpy(references)
        if x.shape != table.theta.shape:
            raise ValueError(f"`references` must have shape (N, d) = {table.theta.shape}; got {x.shape}.")

    def share(draws: np.ndarray) -> np.ndarray:
        """Return u of f_n for draws (N, S, d): (N, 1)."""
        draws = np.asarray(draws)
        inside = _distance(draws, x[:, None], size) <= _distance(table.theta, x, size)[:, None]
        return middle(inside.mean(1), draws.shape[1])[:, None]

    with torch.no_grad():
        views = methods(table, fits, {"draws"}, seed)
        drawn = {name: view.draws(seed=seed).numpy() for name, view in views.items()}
    has, nothing = table.has("draws"), np.full((table.N, 1), np.nan)
    shares = Ranks(
        members=np.stack([share(table.draws[k]) if has[k] else nothing for k in range(table.K)]),
        methods={name: share(draws) for name, draws in drawn.items()},
        names=table.names,
        parameters=("ball",),
        row_weights=table.row_weights,
        draws=table.S,
    )
    return rank_calibration(shares, level)


def _distance(points: np.ndarray, x: np.ndarray, size: np.ndarray) -> np.ndarray:
    return (((points - x) / size) ** 2).sum(-1)
