r"""The conditioner of one transform: a masked network with its forward and backward pass.

.. math:: h_0 = a(W_{in} u), \qquad h_l = a(W_l h_{l-1}), \qquad o = W_{out} h_L

Every array has the batch along its last axis, so that each elementwise loop runs over neighbors in memory,
and a leading row of ones, so that the biases are columns.
"""

import numpy as np

from drystone.flows.kernels.blas import product, product_outer, product_transposed
from drystone.flows.kernels.compiled import f32, inlined, kernel, tanh

__all__ = ["activate", "backward", "forward", "gather", "scatter", "set_ones", "split"]


@inlined
def split(plan, vector, t):
    """Return views of transform t's part of a parameter vector: the first, square and output matrices."""
    H, inputs, O = plan.units, 1 + plan.context + plan.features, plan.outputs * plan.features
    square = plan.layers * H * (1 + H)
    a = t * (H * inputs + square + O * (1 + H))
    b, c = a + H * inputs, a + H * inputs + square
    first = vector[a:b].reshape((H, inputs))
    squares = vector[b:c].reshape((plan.layers, H, 1 + H))
    last = vector[c : c + O * (1 + H)].reshape((O, 1 + H))
    return first, squares, last


@inlined
def set_ones(u, h):
    """Set the constant first row of u (1 + c + d, B) and of every hidden layer of h (L + 1, 1 + H, B)."""
    for n in range(u.shape[1]):
        u[0, n] = f32(1.0)
        for l in range(h.shape[0]):
            h[l, 0, n] = f32(1.0)


@inlined
def gather(source, rows, out):
    """Set out[i] = source[rows[i]]."""
    for i in range(rows.size):
        for n in range(source.shape[1]):
            out[i, n] = source[rows[i], n]


@inlined
def scatter(source, rows, out):
    """Set out[rows[i]] = source[i]: the inverse of :func:`gather`, and its transpose."""
    for i in range(rows.size):
        for n in range(source.shape[1]):
            out[rows[i], n] = source[i, n]


@inlined
def forward(plan, first, squares, last, u, h, o, rate, state):
    """Fill the hidden layers h (L + 1, 1 + H, B) and the outputs o (O, B) from u (1 + c + d, B).

    Units of the square layers are dropped with the given rate (0 outside training), as sbi does.
    """
    _multiply(first, plan.first_blocks, u, h[0, 1:])
    activate(h[0, 1:].reshape(-1), plan.relu)
    for l in range(plan.layers):
        _multiply(squares[l], plan.square_blocks, h[l], h[l + 1, 1:])
        activate(h[l + 1, 1:].reshape(-1), plan.relu)
        if rate > 0:
            drop(h[l + 1, 1:].reshape(-1), rate, state)
    _multiply(last, plan.last_blocks, h[plan.layers], o)


@inlined
def backward(plan, first, squares, last, u, h, rate, go, g, spare, gu, Gfirst, Gsquares, Glast):
    r"""Fill the matrices' gradients and ``gu`` from the outputs' gradient ``go``; g and spare are (1 + H, B).

    For :math:`v = W h`, :math:`\bar W = \bar v h^\top` and :math:`\bar h = W^\top \bar v`.
    """
    _multiply_back(last, plan.last_blocks, h[plan.layers], go, g, Glast)
    for l in range(plan.layers - 1, -1, -1):
        activate_back(g[1:].reshape(-1), h[l + 1, 1:].reshape(-1), plan.relu, rate)
        _multiply_back(squares[l], plan.square_blocks, h[l], g[1:], spare, Gsquares[l])
        g, spare = spare, g
    activate_back(g[1:].reshape(-1), h[0, 1:].reshape(-1), plan.relu, f32(0.0))
    _multiply_back(first, plan.first_blocks, u, g[1:], gu, Gfirst)


@kernel
def _multiply(W, blocks, h, out):
    """Set out = W h, block by block, skipping the columns that are masked for every row of a block."""
    for k in range(blocks.shape[0]):
        a, b, reach = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        product(W[a:b, :reach], h[:reach], out[a:b], f32(0.0))


@kernel
def _multiply_back(W, blocks, h, g, gh, G):
    """Set G = g hᵀ (masked entries are undefined and never read) and gh = Wᵀ g."""
    # The last block reaches furthest: it sets gh, the others add to it.
    furthest = blocks[blocks.shape[0] - 1, 2]
    for i in range(furthest, gh.shape[0]):
        for n in range(gh.shape[1]):
            gh[i, n] = f32(0.0)
    beta = f32(0.0)
    for k in range(blocks.shape[0] - 1, -1, -1):
        a, b, reach = blocks[k, 0], blocks[k, 1], blocks[k, 2]
        product_outer(g[a:b], h[:reach], G[a:b, :reach])
        product_transposed(W[a:b, :reach], g[a:b], gh[:reach], beta)
        beta = f32(1.0)


@kernel
def activate(v, relu):
    """Apply the activation in place."""
    if relu:
        for i in range(v.size):
            v[i] = f32(0.0) if v[i] < f32(0.0) else v[i]
    else:
        for i in range(v.size):
            v[i] = tanh(v[i])


@inlined
def _share(rate):
    """Return the number of dropped levels of 256, and the factor of the others."""
    threshold = min(round(rate * 256), 255)
    return threshold, f32(256.0 / (256.0 - threshold))


@kernel
def drop(v, rate, state):
    r"""Set each entry to zero with probability ``rate`` and divide the others by 1 − rate.

    One xoroshiro128+ draw of 64 bits serves eight units, so the rate counts in steps of 1/256.
    """
    threshold, scale = _share(rate)
    draws = np.empty((v.size + 7) // 8, np.uint64)
    a, b = state[0], state[1]
    for i in range(draws.size):
        draws[i] = a + b
        b ^= a
        a = ((a << np.uint64(24)) | (a >> np.uint64(40))) ^ b ^ (b << np.uint64(16))
        b = (b << np.uint64(37)) | (b >> np.uint64(27))
    state[0], state[1] = a, b
    levels = draws.view(np.uint8)
    for i in range(v.size):
        v[i] = v[i] * scale if levels[i] >= threshold else f32(0.0)


@kernel
def activate_back(g, v, relu, rate):
    r"""Turn g from the gradient in v, the result of :func:`activate` and :func:`drop`, to that before them.

    No record of the dropped units is needed: they are those that are exactly zero.
    """
    threshold, scale = _share(rate)
    if relu:
        for i in range(g.size):
            g[i] = g[i] * scale if v[i] > f32(0.0) else f32(0.0)
    elif threshold == 0:
        for i in range(g.size):
            g[i] *= f32(1.0) - v[i] * v[i]
    else:
        for i in range(g.size):
            a = v[i] / scale
            g[i] = g[i] * scale * (f32(1.0) - a * a) if v[i] != f32(0.0) else f32(0.0)
