"""The classical fourth-order Runge–Kutta method for many initial value problems at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["runge_kutta"]

Array = NDArray[np.float64]


def runge_kutta(
    derivative: Callable[..., tuple[Array, ...]],
    state: tuple[Array, ...],
    times: Sequence[float],
    step: float,
) -> Array:
    r"""Solve :math:`\dot x = f(x)` from time 0 and return the states at ``times``.

    .. math::
        x_{t+h} = x_t + \tfrac h6 (k_1 + 2k_2 + 2k_3 + k_4), \quad
        k_1 = f(x_t),\; k_2 = f(x_t + \tfrac h2 k_1),\; k_3 = f(x_t + \tfrac h2 k_2),\; k_4 = f(x_t + h k_3)

    The step is fixed, so that thousands of problems advance together as arrays and the result of one does
    not depend on its neighbors.

    Args:
        derivative: The function :math:`f`; takes the c components as separate arrays (N,), returns as many.
        state: The c components at time 0, each (N,).
        times: T increasing times, the first of them not before 0.
        step: The largest step h; each interval between times is divided evenly.

    Returns:
        Array of shape (c, N, T).

    Example:
        >>> import numpy as np
        >>> rate = np.array([-1.0, 0.5])
        >>> runge_kutta(lambda x: (rate * x,), (np.ones(2),), [0.0, 1.0], step=0.01)[0, :, -1]
        array([0.36787944, 1.64872127])
    """
    time, path = 0.0, []
    for target in times:
        # The allowance keeps 2.1 / 0.01 = 210.00000000000003 from taking one step more.
        steps = int(np.ceil((target - time) / step - 1e-9))
        h = (target - time) / max(steps, 1)
        for _ in range(steps):
            k1 = derivative(*state)
            k2 = derivative(*(x + h / 2 * k for x, k in zip(state, k1, strict=True)))
            k3 = derivative(*(x + h / 2 * k for x, k in zip(state, k2, strict=True)))
            k4 = derivative(*(x + h * k for x, k in zip(state, k3, strict=True)))
            slopes = zip(state, k1, k2, k3, k4, strict=True)
            state = tuple(x + h / 6 * (a + 2 * (b + c) + d) for x, a, b, c, d in slopes)
        time = target
        path.append(state)
    return np.array(path).transpose(1, 2, 0)
