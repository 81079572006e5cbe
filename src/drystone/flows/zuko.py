r"""To and from ``zuko``: the same function as a torch module, to go on with on a GPU or in another loop.

The two differ in how hidden units are listed and where biases stand. Zuko deals the degrees out in turn
(0, 1, …, d − 1, 0, 1, …), Drystone sorts them; zuko's network reads (x, y), ours (1, y, x in order).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
import zuko
from numpy.typing import NDArray
from torch import nn

from drystone.flows.architecture import Architecture

if TYPE_CHECKING:
    from drystone.flows.flow import Flow

__all__ = ["copy_parameters", "empty", "from_zuko", "parameters_of", "to_zuko"]

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
# The least slope of zuko's univariate maps, which is also ours.
_SLOPE = 1e-3


def to_zuko(flow: Flow) -> zuko.flows.MAF:
    """Return a ``zuko.flows.MAF`` or ``NSF`` that is the same function as the flow."""
    module = empty(flow.architecture)
    copy_parameters(flow.parameters, flow.architecture, module)
    return module


def from_zuko(module: zuko.flows.MAF) -> Flow:
    """Return the flow that is the same function as a conditional ``zuko.flows.MAF`` or ``NSF``.

    Raises:
        ValueError: If the module has parts that have no counterpart here; the message says which.
    """
    from drystone.flows.flow import Flow

    architecture = architecture_of(module)
    return Flow(architecture, parameters_of(module, architecture))


def empty(architecture: Architecture, dropout: float = 0.0) -> zuko.flows.MAF:
    """Return a zuko flow of this architecture with zuko's own starting parameters.

    With dropout, units of the square layers are dropped in training mode, as the compiled engine does.
    """
    a = architecture
    sizes = {"features": a.features, "context": a.context, "transforms": a.transforms}
    hidden = {"hidden_features": [a.units] * (a.layers + 1), "activation": _ACTIVATIONS[a.activation]}
    if a.family == "maf":
        module = zuko.flows.MAF(**sizes, **hidden)
    else:
        module = zuko.flows.NSF(bins=a.bins, **sizes, **hidden)
    univariate = _univariate(a)
    for t, order in enumerate(a.orders or ()):
        transform = module.transform.transforms[t]
        if a.features > 1:
            transform = zuko.flows.MaskedAutoregressiveTransform(
                a.features, a.context, order=torch.from_numpy(np.argsort(order)),
                univariate=univariate, shapes=transform.shapes, **hidden,
            )  # fmt: skip
            module.transform.transforms[t] = transform
        transform.univariate = univariate
        if dropout > 0:
            _insert_dropout(transform.hyper, dropout)
    return module


def _univariate(architecture: Architecture) -> partial | type:
    if architecture.family == "maf":
        return zuko.transforms.MonotonicAffineTransform
    return partial(zuko.transforms.MonotonicRQSTransform, bound=architecture.bound, slope=_SLOPE)


def _insert_dropout(hyper: nn.Sequential, rate: float) -> None:
    """Follow every activation but the first by dropout."""
    activations = [i for i, m in enumerate(hyper) if isinstance(m, nn.ReLU | nn.Tanh)]
    for i in activations[1:]:
        hyper[i] = nn.Sequential(hyper[i], nn.Dropout(rate))


def copy_parameters(
    parameters: NDArray[np.float32], architecture: Architecture, module: zuko.flows.MAF
) -> None:
    """Write a parameter vector into a zuko flow of the same architecture."""
    for t, (matrices, transform) in enumerate(
        zip(architecture.matrices(parameters), module.transform.transforms, strict=True)
    ):
        for matrix, linear, (rows, columns) in zip(
            matrices, _linears(transform.hyper), _indices(architecture, t), strict=True
        ):
            with torch.no_grad():
                linear.bias[rows] = torch.from_numpy(matrix[:, 0].copy()).to(linear.bias)
                weight = torch.zeros_like(linear.weight)
                kept = columns >= 0
                block = torch.from_numpy(matrix[:, 1:][:, kept].copy()).to(weight)
                weight[rows[:, None], columns[kept]] = block
                linear.weight.copy_(weight)


def parameters_of(module: zuko.flows.MAF, architecture: Architecture) -> NDArray[np.float32]:
    """Read the parameter vector out of a zuko flow of the same architecture."""
    parameters = np.zeros(architecture.size, np.float32)
    for t, (matrices, transform) in enumerate(
        zip(architecture.matrices(parameters), module.transform.transforms, strict=True)
    ):
        for layer, matrix, linear, (rows, columns) in zip(
            architecture.network, matrices, _linears(transform.hyper), _indices(architecture, t), strict=True
        ):
            weight = linear.weight.detach().cpu().numpy()
            matrix[:, 0] = linear.bias.detach().cpu().numpy()[rows]
            kept = columns >= 0
            matrix[:, 1:][:, kept] = weight[rows[:, None], columns[kept]]
            # What zuko's masks hide, ours do too, but by being zero.
            matrix[np.arange(layer.columns) >= np.array(layer.reach)[:, None]] = 0
    return parameters


def _linears(hyper: nn.Sequential) -> list[nn.Linear]:
    return [module for module in hyper.modules() if isinstance(module, nn.Linear)]


def _indices(architecture: Architecture, t: int) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """For each matrix, where its rows and its columns (the bias apart) stand in zuko's; −1 is nowhere."""
    a = architecture
    order = np.array((a.orders or ())[t])
    units = np.argsort(np.arange(a.units) % a.features, kind="stable")
    # A single feature is never an input: zuko's network then reads y alone.
    x = order if a.features > 1 else np.array([-1])
    y = np.arange(a.context) + (a.features if a.features > 1 else 0)
    outputs = (order[:, None] * a.outputs + np.arange(a.outputs)).ravel()
    return [(units, np.concatenate([y, x])), *[(units, units)] * a.layers, (outputs, units)]


def architecture_of(module: zuko.flows.MAF) -> Architecture:
    """Read the architecture off a zuko flow, or say what has no counterpart."""
    transforms = list(module.transform.transforms)
    linears = _linears(transforms[0].hyper)
    outputs = transforms[0].total
    d = linears[-1].out_features // outputs
    univariate = transforms[0].univariate
    keywords = univariate.keywords if isinstance(univariate, partial) else {}
    kind = univariate.func if isinstance(univariate, partial) else univariate
    if kind is zuko.transforms.MonotonicAffineTransform:
        family, bins, bound = "maf", 8, 5.0
    elif kind is zuko.transforms.MonotonicRQSTransform:
        family, bins, bound = "nsf", (outputs + 1) // 3, float(keywords.get("bound", 5.0))
    else:
        raise ValueError(f"expected affine or rational-quadratic maps; got {kind}.")
    if keywords.get("slope", _SLOPE) != _SLOPE:
        raise ValueError(f"expected the least slope {_SLOPE}; got {keywords['slope']}.")
    widths = {linear.out_features for linear in linears[:-1]}
    if len(widths) != 1:
        raise ValueError(f"expected hidden layers of one width; got widths {sorted(widths)}.")
    context = linears[0].in_features - (d if d > 1 else 0)
    activations = {type(m) for m in module.transform.modules() if type(m) in _ACTIVATIONS.values()}
    others = {
        type(m).__name__
        for t in transforms
        for m in t.hyper.modules()
        if not isinstance(m, nn.Linear | nn.Sequential | nn.ReLU | nn.Tanh | nn.Dropout)
    }
    if others or len(activations) != 1 or any(isinstance(m, zuko.nn.Residual) for m in module.modules()):
        raise ValueError(f"expected plain layers with ReLU or Tanh throughout; got {sorted(others)}.")
    if d > 1 and any(t.passes != d for t in transforms):
        raise ValueError("expected fully autoregressive transforms; got coupling (`passes` < features).")
    positions = [[0] if d == 1 else t.order.tolist() for t in transforms]
    return Architecture(
        family, d, context, len(transforms), widths.pop(), len(linears) - 2,
        "relu" if nn.ReLU in activations else "tanh", bins, bound,
        tuple(tuple(np.argsort(position).tolist()) for position in positions),
    )  # fmt: skip
