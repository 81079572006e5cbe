r"""Rational-quadratic splines with K bins on :math:`[-R, R]`, the identity outside (Durkan et al., 2019).

In the bin with corners :math:`(x_0, y_0)`, width w, height h and slopes :math:`d_0, d_1` at its ends,
with :math:`s = h / w`, :math:`\xi = (x - x_0) / w` and :math:`t = \xi (1 - \xi)`,

.. math::
    z &= y_0 + h A / D, \qquad A = s \xi^2 + d_0 t, \qquad D = s + (d_0 + d_1 - 2 s) t \\
    z' &= s^2 Q / D^2, \qquad Q = d_1 \xi^2 + 2 s t + d_0 (1 - \xi)^2

The network gives K widths, K heights and K − 1 inner slopes, unconstrained: softmax of the soft-clipped
widths and heights are shares of 2R, exp of the soft-clipped slopes are slopes, the outermost slopes are 1.
Zero outputs are the identity. The parametrisation is zuko's.
"""

import math

import numpy as np

from drystone.flows.kernels.compiled import exp, f32, inlined, kernel, log, soft_clip, soft_clip_slope

__all__ = ["RECORD", "backward", "forward", "inverse"]

# Slopes stay within a factor of 1000 of 1; shares within 1000 of each other, hence the half.
SLOPE_LIMIT = f32(math.log(1e3))
SHARE_LIMIT = f32(math.log(1e3) / 2)

# Values stored of each point's bin for the backward pass: index (−1 outside), x0, y0, w, h, d0, d1.
RECORD = 7


@inlined
def forward(plan, o, x, z, log_det, knots, bins):
    """Set z (d, B) from x (d, B) and the outputs o (d (3K − 1), B); add all features' log z' to log_det (B,).

    ``knots``, shaped as o, receives shares and slopes; ``bins`` (d, RECORD, B) each point's bin.
    """
    m = plan.outputs
    for i in range(plan.features):
        constrain(o[i * m : (i + 1) * m], knots[i * m : (i + 1) * m], plan.bins)
        locate(knots[i * m : (i + 1) * m], plan.bins, plan.bound, x[i], False, bins[i])
        _evaluate(bins[i], x[i], z[i], log_det)


@inlined
def inverse(plan, o, z, x, knots, bin):
    """Set x (B,) from z (B,) for one feature: o and knots (3K − 1, B), bin (RECORD, B)."""
    constrain(o, knots, plan.bins)
    locate(knots, plan.bins, plan.bound, z, True, bin)
    _solve(bin, z, x)


@kernel
def constrain(o, knots, K):
    """Turn one feature's outputs (3K − 1, B) into K shares of the width, K of the height, K − 1 slopes."""
    _shares(o[:K], knots[:K])
    _shares(o[K : 2 * K], knots[K : 2 * K])
    slopes, unconstrained = knots[2 * K :].reshape(-1), o[2 * K :].reshape(-1)
    for j in range(slopes.size):
        slopes[j] = exp(soft_clip(unconstrained[j], SLOPE_LIMIT))


@kernel
def _shares(o, share):
    """Apply softmax over rows, without subtracting the maximum: soft-clipped logits cannot overflow."""
    flat, unconstrained = share.reshape(-1), o.reshape(-1)
    for j in range(flat.size):
        flat[j] = exp(soft_clip(unconstrained[j], SHARE_LIMIT))
    total = np.empty(share.shape[1], np.float32)
    _fill(total, f32(0.0))
    for k in range(share.shape[0]):
        _add(total, share[k])
    for n in range(total.size):
        total[n] = f32(1.0) / total[n]
    for k in range(share.shape[0]):
        _scale(share[k], total)


@kernel
def _fill(a, value):
    for n in range(a.size):
        a[n] = value


@kernel
def _add(a, b):
    for n in range(a.size):
        a[n] += b[n]


@kernel
def _scale(a, b):
    for n in range(a.size):
        a[n] *= b[n]


@kernel
def locate(knots, K, R, v, by_height, bin):
    """Find the bin of each v (B,) among the widths, or among the heights for the inverse, and record it."""
    side = f32(2.0) * R
    left = np.empty((2, K, v.size), np.float32)  # left ends of the bins, of their widths and heights
    for axis in range(2):
        _fill(left[axis, 0], -R)
        for k in range(1, K):
            _next_end(left[axis, k], left[axis, k - 1], knots[axis * K + k - 1], side)
    # Counting the ends that are not beyond v takes no branch. NaN counts none and stays NaN.
    index = bin[0]
    _fill(index, f32(0.0))
    for k in range(1, K):
        _count(index, left[1 if by_height else 0, k], v)
    for n in range(v.size):
        k = int(index[n])
        bin[1, n] = left[0, k, n]
        bin[2, n] = left[1, k, n]
        bin[3, n] = side * knots[k, n]
        bin[4, n] = side * knots[K + k, n]
        bin[5, n] = knots[2 * K + k - 1, n] if k > 0 else f32(1.0)
        bin[6, n] = knots[2 * K + k, n] if k < K - 1 else f32(1.0)
        index[n] = f32(-1.0) if abs(v[n]) >= R else index[n]


@kernel
def _next_end(end, previous, share, side):
    for n in range(end.size):
        end[n] = previous[n] + side * share[n]


@kernel
def _count(count, end, v):
    for n in range(v.size):
        count[n] += f32(1.0) if v[n] >= end[n] else f32(0.0)


@kernel
def _evaluate(bin, x, z, log_det):
    for n in range(x.size):
        w, h, d0, d1 = bin[3, n], bin[4, n], bin[5, n], bin[6, n]
        s = h / w
        xi = (x[n] - bin[1, n]) / w
        one_xi = f32(1.0) - xi
        t = xi * one_xi
        A = s * xi * xi + d0 * t
        D = s + (d0 + d1 - f32(2.0) * s) * t
        Q = d1 * xi * xi + f32(2.0) * s * t + d0 * one_xi * one_xi
        # Both are computed before the choice: a choice between values vectorises, a branch does not.
        outside = bin[0, n] < f32(0.0)
        value, log_slope = bin[2, n] + h * A / D, log(s * s * Q / (D * D))
        z[n] = x[n] if outside else value
        log_det[n] += f32(0.0) if outside else log_slope


@kernel
def _solve(bin, z, x):
    r"""Solve :math:`a \xi^2 + b \xi + c = 0` by the root that is stable when a is small."""
    for n in range(x.size):
        w, h, d0, d1 = bin[3, n], bin[4, n], bin[5, n], bin[6, n]
        s = h / w
        v = min(max(z[n] - bin[2, n], f32(0.0)), h)
        u = v * (d0 + d1 - f32(2.0) * s)
        a = h * (s - d0) + u
        b = h * d0 - u
        c = -s * v
        # Positive up to rounding.
        discriminant = max(b * b - f32(4.0) * a * c, f32(0.0))
        xi = f32(2.0) * c / (-b - math.sqrt(discriminant))
        x[n] = z[n] if bin[0, n] < f32(0.0) else bin[1, n] + xi * w


@inlined
def backward(plan, o, knots, bins, x, weight, g, go, slots):
    """Turn g (d, B) from the gradient in z to that in x, and set go, shaped as o: that in the outputs.

    ``slots`` (8, B) is room for the gradients in (x0, y0, w, h, d0, d1) and the two sums of the softmax.
    """
    m = plan.outputs
    for i in range(plan.features):
        a, b = i * m, (i + 1) * m
        _differentiate(bins[i], x[i], weight, g[i], slots)
        _shares_back(o[a:b], knots[a:b], plan, bins[i, 0], slots, go[a:b])
        _slopes_back(o[a:b], knots[a:b], plan.bins, bins[i, 0], slots, go[a:b])


@kernel
def _differentiate(bin, x, weight, g, slots):
    r"""Apply the chain rule through A, D and Q; a point's loss holds :math:`-w (2\log s + \log Q - 2\log D)`."""
    for n in range(x.size):
        inside = f32(0.0) if bin[0, n] < f32(0.0) else f32(1.0)
        w, h, d0, d1 = bin[3, n], bin[4, n], bin[5, n], bin[6, n]
        gz, gl = g[n] * inside, -weight * inside
        s = h / w
        xi = (x[n] - bin[1, n]) / w * inside
        one_xi = f32(1.0) - xi
        t = xi * one_xi
        u = d0 + d1 - f32(2.0) * s
        A = s * xi * xi + d0 * t
        D = s + u * t
        Q = d1 * xi * xi + f32(2.0) * s * t + d0 * one_xi * one_xi
        gA = gz * h / D
        gD = -(gA * A + f32(2.0) * gl) / D
        gQ = gl / Q
        gs = gA * xi * xi + gD * (f32(1.0) - f32(2.0) * t) + f32(2.0) * (gQ * t + gl / s)
        gt = gA * d0 + gD * u + gQ * f32(2.0) * s
        gxi = f32(2.0) * (gA * s * xi + gQ * (d1 * xi - d0 * one_xi)) + gt * (one_xi - xi)
        gx = gxi / w
        slots[0, n] = -gx  # x0
        slots[1, n] = gz  # y0
        slots[2, n] = -(gs * s + gxi * xi) / w  # w
        slots[3, n] = gz * A / D + gs / w  # h
        slots[4, n] = (gA + gD) * t + gQ * one_xi * one_xi  # d0
        slots[5, n] = gD * t + gQ * xi * xi  # d1
        g[n] = gx + g[n] * (f32(1.0) - inside)


@inlined
def _shares_back(o, knots, plan, index, slots, go):
    r"""Set gradients of widths and heights: :math:`\bar p_k` is the corner's left of the bin, the side's in it.

    Through the softmax :math:`\bar a_k = p_k (\bar p_k - \sum_j p_j \bar p_j)`, and through the soft clip.
    """
    K, side = plan.bins, f32(2.0) * plan.bound
    for first in range(2):  # widths, then heights
        corner, length, total = slots[first], slots[2 + first], slots[6 + first]
        _fill(total, f32(0.0))
        for k in range(K):
            _pick(go[first * K + k], knots[first * K + k], index, f32(k), corner, length, total)
        for k in range(K):
            _softmax_back(go[first * K + k], knots[first * K + k], o[first * K + k], side, total)


@kernel
def _pick(gp, p, index, k, corner, length, total):
    for n in range(gp.size):
        picked = corner[n] if index[n] > k else f32(0.0)
        picked = length[n] if index[n] == k else picked
        gp[n] = picked
        total[n] += picked * p[n]


@kernel
def _softmax_back(gp, p, o, side, total):
    for n in range(gp.size):
        gp[n] = side * p[n] * (gp[n] - total[n]) * soft_clip_slope(o[n], SHARE_LIMIT)


@inlined
def _slopes_back(o, knots, K, index, slots, go):
    """Set the gradients of slopes; inner slope k is the right end of bin k and the left end of bin k + 1."""
    for k in range(K - 1):
        _slope_back(o[2 * K + k], knots[2 * K + k], f32(k), index, slots[4], slots[5], go[2 * K + k])


@kernel
def _slope_back(o, slope, k, index, gd0, gd1, go):
    for n in range(o.size):
        picked = gd1[n] if index[n] == k else f32(0.0)
        picked = gd0[n] if index[n] == k + f32(1.0) else picked
        go[n] = picked * slope[n] * soft_clip_slope(o[n], SLOPE_LIMIT)
