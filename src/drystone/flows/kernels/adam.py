r"""Adam with a clipped gradient norm, over the trainable runs of the parameter vector (Kingma & Ba, 2015)."""

import math

from drystone.flows.kernels.compiled import f32, kernel

__all__ = ["clip_factor", "step"]

BETA1, BETA2, EPSILON = 0.9, 0.999, f32(1e-8)


@kernel
def clip_factor(gradient, runs, limit):
    r"""Return :math:`\min(1, \text{limit} / \lVert g \rVert)`."""
    total = 0.0
    for k in range(runs.shape[0]):
        total += _square(gradient[runs[k, 0] : runs[k, 1]])
    norm = math.sqrt(total)
    # Written so that a NaN norm gives a NaN factor: the flow has diverged, and must say so.
    return f32(1.0) if norm <= limit else f32(limit / norm)


@kernel
def _square(g):
    total = f32(0.0)
    for i in range(g.size):
        total += g[i] * g[i]
    return total


@kernel
def step(parameters, gradient, factor, mean, square, runs, rate, n):
    r"""Take the n-th step (n ≥ 1), in place.

    .. math::
        m \leftarrow \beta_1 m + (1 - \beta_1) g, \quad v \leftarrow \beta_2 v + (1 - \beta_2) g^2, \quad
        p \leftarrow p - \eta \frac{m / (1 - \beta_1^n)}{\sqrt{v / (1 - \beta_2^n)} + \epsilon}
    """
    step_size = f32(rate / (1.0 - BETA1**n))
    correction = f32(1.0 / math.sqrt(1.0 - BETA2**n))
    for k in range(runs.shape[0]):
        a, b = runs[k, 0], runs[k, 1]
        _step(parameters[a:b], gradient[a:b], factor, mean[a:b], square[a:b], step_size, correction)


@kernel
def _step(p, g, factor, m, v, step_size, correction):
    for i in range(p.size):
        gi = factor * g[i]
        mi = f32(BETA1) * m[i] + f32(1.0 - BETA1) * gi
        vi = f32(BETA2) * v[i] + f32(1.0 - BETA2) * gi * gi
        m[i], v[i] = mi, vi
        p[i] -= step_size * mi / (math.sqrt(vi) * correction + EPSILON)
