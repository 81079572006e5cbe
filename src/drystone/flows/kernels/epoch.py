r"""One epoch of training in one compiled call: gather, forward, backward, clip, Adam, batch after batch.

The loss of a batch is :math:`\frac1B \sum_n -\log q(x_n \mid y_n)`.
"""

import numpy as np

from drystone.flows.kernels import adam, affine, network, spline
from drystone.flows.kernels.compiled import entry, f32, inlined
from drystone.flows.kernels.density import LOG_2PI

__all__ = ["gradient", "train_epoch"]


@entry
def train_epoch(plan, parameters, mean, square, steps, state, runs, x, y, order, B, learning_rate, clip, rate):
    """Train on rows ``order`` of x (N, d) and y (N, c) in batches of B, in place; return the mean loss.

    A remainder of fewer than B rows is left out. ``mean``, ``square`` and ``steps`` are Adam's state,
    ``state`` that of the dropout.
    """
    buffers = allocate(plan, B)
    gradients = np.empty_like(parameters)
    batches = order.size // B
    total = 0.0
    for k in range(batches):
        rows = order[k * B : (k + 1) * B]
        total += gradient(plan, parameters, x, y, rows, rate, state, buffers, gradients)
        steps[0] += 1
        factor = adam.clip_factor(gradients, runs, clip)
        adam.step(parameters, gradients, factor, mean, square, runs, learning_rate, steps[0])
    return total / batches


@inlined
def allocate(plan, B):
    """Return arrays for one batch: the values each transform stores for its backward pass, and temporaries."""
    T, d, H, O = plan.transforms, plan.features, plan.units, plan.features * plan.outputs
    inputs = 1 + plan.context + d
    u = np.empty((T, inputs, B), np.float32)
    h = np.empty((T, plan.layers + 1, 1 + H, B), np.float32)
    for t in range(T):
        network.set_ones(u[t], h[t])
    o, knots = np.empty((T, O, B), np.float32), np.empty((T, O, B), np.float32)
    bins = np.empty((T, d, spline.RECORD, B), np.float32)
    z, g = np.empty((d, B), np.float32), np.empty((d, B), np.float32)
    log_det = np.empty(B, np.float32)
    go = np.empty((O, B), np.float32)
    gh, spare = np.empty((1 + H, B), np.float32), np.empty((1 + H, B), np.float32)
    gu = np.empty((inputs, B), np.float32)
    slots = np.empty((8, B), np.float32)
    return u, h, o, knots, bins, z, g, log_det, go, gh, spare, gu, slots


@inlined
def gradient(plan, parameters, x, y, rows, rate, state, buffers, gradients):
    """Set the gradient of one batch's loss in every trainable parameter, and return the loss."""
    u, h, o, knots, bins, z, g, log_det, go, gh, spare, gu, slots = buffers
    T, d, c, B = plan.transforms, plan.features, plan.context, rows.size
    weight = f32(1.0 / B)

    for n in range(B):
        log_det[n] = f32(0.0)
        for i in range(d):
            z[i, n] = x[rows[n], i]
        for j in range(c):
            for t in range(T):
                u[t, 1 + j, n] = y[rows[n], j]

    for t in range(T):
        network.gather(z, plan.sources[t], u[t, 1 + c :])
        first, squares, last = network.split(plan, parameters, t)
        network.forward(plan, first, squares, last, u[t], h[t], o[t], rate, state)
        if plan.spline:
            spline.forward(plan, o[t], u[t, 1 + c :], z, log_det, knots[t], bins[t])
        else:
            affine.forward(o[t], u[t, 1 + c :], z, log_det)

    loss = 0.5 * d * LOG_2PI
    for i in range(d):
        for n in range(B):
            loss += 0.5 * z[i, n] * z[i, n] * weight
            g[i, n] = weight * z[i, n]
    for n in range(B):
        loss -= weight * log_det[n]

    for t in range(T - 1, -1, -1):
        if plan.spline:
            spline.backward(plan, o[t], knots[t], bins[t], u[t, 1 + c :], weight, g, go, slots)
        else:
            affine.backward(o[t], u[t, 1 + c :], weight, g, go)
        first, squares, last = network.split(plan, parameters, t)
        Gfirst, Gsquares, Glast = network.split(plan, gradients, t)
        network.backward(plan, first, squares, last, u[t], h[t], rate, go, gh, spare, gu, Gfirst, Gsquares, Glast)
        # An input reaches the loss through its own map (g) and through the network (gu).
        for i in range(d):
            for n in range(B):
                gu[1 + c + i, n] += g[i, n]
        network.scatter(gu[1 + c :], plan.sources[t], g)
    return loss
