r"""The log density of a flow, :math:`\log q(x \mid y) = \log N(z; 0, I) + \sum_t \log |\det f_t'|`."""

import math

import numpy as np

from drystone.flows.kernels import affine, network, spline
from drystone.flows.kernels.compiled import entry, f32

__all__ = ["LOG_2PI", "log_prob"]

LOG_2PI = math.log(2 * math.pi)

# Columns that are pushed through together: enough for the matrix products, few enough to stay in cache.
CHUNK = 128


@entry
def log_prob(plan, parameters, x, y, out):
    """Fill out (N,) for rows x (N, d) and y (N, c), all float32."""
    d, c, H = plan.features, plan.context, plan.units
    state, no_dropout = np.zeros(2, np.uint64), f32(0.0)
    for start in range(0, x.shape[0], CHUNK):
        B = min(CHUNK, x.shape[0] - start)
        u = np.empty((1 + c + d, B), np.float32)
        h = np.empty((plan.layers + 1, 1 + H, B), np.float32)
        o = np.empty((d * plan.outputs, B), np.float32)
        knots = np.empty((d * plan.outputs, B), np.float32)
        bins = np.empty((d, spline.RECORD, B), np.float32)
        z = np.empty((d, B), np.float32)
        log_det = np.empty(B, np.float32)
        network.set_ones(u, h)
        for n in range(B):
            log_det[n] = f32(0.0)
            for i in range(d):
                z[i, n] = x[start + n, i]
            for j in range(c):
                u[1 + j, n] = y[start + n, j]
        for t in range(plan.transforms):
            network.gather(z, plan.sources[t], u[1 + c :])
            first, squares, last = network.split(plan, parameters, t)
            network.forward(plan, first, squares, last, u, h, o, no_dropout, state)
            if plan.spline:
                spline.forward(plan, o, u[1 + c :], z, log_det, knots, bins)
            else:
                affine.forward(o, u[1 + c :], z, log_det)
        for n in range(B):
            square = f32(0.0)
            for i in range(d):
                square += z[i, n] * z[i, n]
            out[start + n] = log_det[n] - f32(0.5) * square - f32(0.5 * d * LOG_2PI)
