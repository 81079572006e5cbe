"""Level lines of a function on a grid, by marching squares."""

from __future__ import annotations

import numpy as np

__all__ = ["level_lines"]

Node = tuple[int, int]


def level_lines(z: np.ndarray, level: float) -> list[np.ndarray]:
    """Closed lines z = ``level`` around where z is at least that, linear between nodes.

    Args:
        z: values at the nodes of a grid, (n, m). Beyond the grid it counts as below the level.
        level: the value to follow.

    Returns:
        Lines in units of the grid, (L, 2) each: node (i, j) lies at (i, j).

    Example:
        >>> level_lines(np.array([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]), 0.5)[0].tolist()
        [[1.5, 1.0], [1.0, 1.5], [0.5, 1.0], [1.0, 0.5]]
    """
    # Far below the level outside, so that lines close at the border itself.
    z = np.pad(z, 1, constant_values=-1e9 * max(1.0, abs(level)))
    inside = z >= level
    after: dict[tuple[Node, Node], tuple[Node, Node]] = {}
    corners = inside[:-1, :-1].astype(int) + inside[1:, :-1] + inside[1:, 1:] + inside[:-1, 1:]
    for i, j in np.argwhere((corners > 0) & (corners < 4)).tolist():
        ring = [(i, j), (i + 1, j), (i + 1, j + 1), (i, j + 1)]
        crossed = [(p, q) for p, q in zip(ring, ring[1:] + ring[:1], strict=True) if inside[p] != inside[q]]
        # Around a cell, edges that leave the region and edges that enter it alternate. The line goes from each
        # that leaves to the next one, which the neighbouring cell, walking the other way, finds to be leaving.
        for edge, following in zip(crossed, crossed[1:] + crossed[:1], strict=True):
            if inside[edge[0]]:
                after[edge] = (following[1], following[0])
    lines = []
    while after:
        edge, following = after.popitem()
        line = [edge, following]
        while line[-1] in after:
            line.append(after.pop(line[-1]))
        lines.append(np.array([_crossing(z, level, *edge) for edge in line[:-1]]) - 1.0)
    return lines


def _crossing(z: np.ndarray, level: float, p: Node, q: Node) -> tuple[float, float]:
    """Where z reaches the level between two nodes."""
    share = (level - z[p]) / (z[q] - z[p])
    return p[0] + share * (q[0] - p[0]), p[1] + share * (q[1] - p[1])
