r"""Affine univariate maps with a bounded scale: :math:`z = e^s x + b`, :math:`\log |z'| = s`.

The network gives :math:`(b, a)` and :math:`s = a / (1 + |a| / \log 1000)`, so scales stay within a factor
of a thousand and zero outputs are the identity.
"""

import math

from drystone.flows.kernels.compiled import exp, f32, inlined, kernel, soft_clip, soft_clip_slope

__all__ = ["backward", "forward", "inverse"]

# The least and greatest slopes are 1/1000 and 1000, as in zuko.
LIMIT = f32(math.log(1e3))


@inlined
def forward(o, x, z, log_det):
    r"""Set z (d, B) from x (d, B) and the outputs o (2d, B); add :math:`\sum_i s_i` to log_det (B,)."""
    for i in range(x.shape[0]):
        _forward(o[2 * i], o[2 * i + 1], x[i], z[i], log_det)


@kernel
def _forward(b, a, x, z, log_det):
    for n in range(x.size):
        s = soft_clip(a[n], LIMIT)
        z[n] = exp(s) * x[n] + b[n]
        log_det[n] += s


@inlined
def backward(o, x, weight, g, go):
    r"""Turn g from the gradient in z to the gradient in x, and set go (2d, B), that in the outputs.

    The loss is :math:`\sum_n w_n (\ldots - \log|z_n'|)`, hence
    :math:`\bar b = \bar z`, :math:`\bar s = \bar z\, e^s x - w`, :math:`\bar x = \bar z\, e^s`.
    """
    for i in range(x.shape[0]):
        _backward(o[2 * i + 1], x[i], weight, g[i], go[2 * i], go[2 * i + 1])


@kernel
def _backward(a, x, weight, g, gb, ga):
    for n in range(x.size):
        gb[n] = g[n]
        gx = g[n] * exp(soft_clip(a[n], LIMIT))
        ga[n] = (gx * x[n] - weight) * soft_clip_slope(a[n], LIMIT)
        g[n] = gx


@inlined
def inverse(o, z, x):
    r"""Set :math:`x = (z - b) e^{-s}` for one feature: o (2, B), z and x (B,)."""
    b, a = o[0], o[1]
    for n in range(x.size):
        x[n] = (z[n] - b[n]) * exp(-soft_clip(a[n], LIMIT))
