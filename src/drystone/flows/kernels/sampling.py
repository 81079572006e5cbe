r"""Draws from a flow: the inverse of its transforms, at the cost of one forward pass each.

Feature :math:`o_i` needs the earlier features only, and with the hidden units sorted by degree only the
units of degree :math:`\le i`. So after feature :math:`o_{i-1}` is known, the units of degree i are computed,
in every layer, and nothing is computed twice: d small steps, each over a slice of the units.
"""

import numpy as np

from drystone.flows.kernels import affine, network, spline
from drystone.flows.kernels.blas import product
from drystone.flows.kernels.compiled import entry, f32, inlined

__all__ = ["push"]

# Columns that are pushed through together. More than for densities: each step has few rows to multiply.
CHUNK = 256


@entry
def push(plan, parameters, noise, y, repeats, out):
    """Turn standard normal noise (N · repeats, d) into draws ``out``; draw n is conditioned on y[n // repeats]."""
    d, c, H = plan.features, plan.context, plan.units
    for start in range(0, noise.shape[0], CHUNK):
        B = min(CHUNK, noise.shape[0] - start)
        u = np.empty((1 + c + d, B), np.float32)
        h = np.empty((plan.layers + 1, 1 + H, B), np.float32)
        o, knots = np.empty((plan.outputs, B), np.float32), np.empty((plan.outputs, B), np.float32)
        bin = np.empty((spline.RECORD, B), np.float32)
        z = np.empty((d, B), np.float32)
        network.set_ones(u, h)
        for n in range(B):
            for j in range(c):
                u[1 + j, n] = y[(start + n) // repeats, j]
            for i in range(d):
                z[plan.sources[plan.transforms, i], n] = noise[start + n, i]
        for t in range(plan.transforms - 1, -1, -1):
            x = u[1 + c :]
            first, squares, last = network.split(plan, parameters, t)
            for i in range(d):
                _extend(plan, first, squares, i, u, h)
                seen = 1 + plan.groups[i + 1]
                rows = last[i * plan.outputs : (i + 1) * plan.outputs, :seen]
                product(rows, h[plan.layers, :seen], o, f32(0.0))
                if plan.spline:
                    spline.inverse(plan, o, z[i], x[i], knots, bin)
                else:
                    affine.inverse(o, z[i], x[i])
            network.scatter(x, plan.sources[t], z)
        for n in range(B):
            for i in range(d):
                out[start + n, i] = z[i, n]


@inlined
def _extend(plan, first, squares, i, u, h):
    """Compute the hidden units of degree i in every layer, given the first i features in u."""
    a, b = plan.groups[i], plan.groups[i + 1]
    if a == b:  # fewer units than features
        return
    product(first[a:b, : 1 + plan.context + i], u[: 1 + plan.context + i], h[0, 1 + a : 1 + b], f32(0.0))
    network.activate(h[0, 1 + a : 1 + b].reshape(-1), plan.relu)
    for l in range(plan.layers):
        product(squares[l, a:b, : 1 + b], h[l, : 1 + b], h[l + 1, 1 + a : 1 + b], f32(0.0))
        network.activate(h[l + 1, 1 + a : 1 + b].reshape(-1), plan.relu)
