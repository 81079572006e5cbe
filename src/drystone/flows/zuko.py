r"""Conversion to and from ``zuko``: the same function as a torch module, for further training or use on a GPU.

The two differ in the order of hidden units and in the place of biases. Zuko assigns the degrees in turn
(0, 1, …, d − 1, 0, 1, …), Drystone sorts them; zuko's network reads (x, y), Drystone's (1, y, x in order).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
import zuko
from numpy.typing import NDArray
from torch import nn

from drystone._parallel import seeded
from drystone.flows.architecture import Architecture, Layer
from drystone.flows.flow import Flow

__all__ = ["from_zuko", "parameters_of", "to_zuko"]

_ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
# Zuko's annotations are narrower than its code: orders are any integer tensors, shapes any tuples.
_transform: Any = zuko.flows.MaskedAutoregressiveTransform
# The least slope of the univariate maps of zuko and Drystone.
_SLOPE = 1e-3


def to_zuko(flow: Flow, dropout: float = 0.0) -> zuko.flows.Flow:
    """Return a ``zuko`` flow that is the same function.

    With dropout, units of the square layers are dropped in training mode, as the compiled engine does.
    """
    a = flow.architecture
    if a.family == "maf":
        univariate, shapes = zuko.transforms.MonotonicAffineTransform, ((), ())
    else:
        univariate = partial(zuko.transforms.MonotonicRQSTransform, bound=a.bound, slope=_SLOPE)
        shapes = ((a.bins,), (a.bins,), (a.bins - 1,))
    with seeded(0):  # zuko draws initial parameters, which are overwritten below
        transforms = [
            _transform(
                a.features,
                a.context,
                order=torch.from_numpy(np.argsort(order)),
                univariate=univariate,
                shapes=shapes,
                hidden_features=[a.units] * (a.layers + 1),
                activation=_ACTIVATIONS[a.activation],
            )
            for order in a.permutations
        ]
    normal = zuko.lazy.UnconditionalDistribution(
        zuko.distributions.DiagNormal, torch.zeros(a.features), torch.ones(a.features), buffer=True
    )
    module = zuko.flows.Flow(transforms, normal)
    for _, matrix, linear, rows, columns in _pairs(a, flow.parameters, module):
        with torch.no_grad():
            linear.weight.zero_()  # also the entries that zuko masks
            in_zuko = columns >= 0
            linear.weight[rows[:, None], columns[in_zuko]] = torch.from_numpy(matrix[:, 1:][:, in_zuko])
            linear.bias[rows] = torch.from_numpy(matrix[:, 0].copy())
    if dropout > 0:
        for transform in transforms:
            _insert_dropout(transform.hyper, dropout)
    return module


def _insert_dropout(hyper: nn.Sequential, rate: float) -> None:
    """Add dropout after every activation but the first."""
    activations = [i for i, part in enumerate(hyper) if isinstance(part, nn.ReLU | nn.Tanh)]
    for i in activations[1:]:
        hyper[i] = nn.Sequential(hyper[i], nn.Dropout(rate))


def from_zuko(module: zuko.flows.Flow) -> Flow:
    """Return the flow that is the same function as a conditional ``zuko.flows.MAF`` or ``NSF``.

    Raises:
        ValueError: If the module has parts without a counterpart in Drystone; the message names them.
    """
    architecture = _architecture_of(module)
    return Flow(architecture, parameters_of(module, architecture))


def parameters_of(module: zuko.flows.Flow, architecture: Architecture) -> NDArray[np.float32]:
    """Return the parameter vector of a zuko flow of this architecture."""
    parameters = np.zeros(architecture.size, np.float32)
    for layer, matrix, linear, rows, columns in _pairs(architecture, parameters, module):
        in_zuko = columns >= 0
        matrix[:, 0] = linear.bias.detach().cpu().numpy()[rows]
        matrix[:, 1:][:, in_zuko] = linear.weight.detach().cpu().numpy()[rows[:, None], columns[in_zuko]]
        matrix[np.arange(layer.columns) >= np.array(layer.reach)[:, None]] = 0
    return parameters


def _pairs(
    architecture: Architecture, parameters: NDArray[np.float32], module: zuko.flows.Flow
) -> Iterator[tuple[Layer, NDArray[np.float32], Any, NDArray[np.int64], NDArray[np.int64]]]:
    """Yield each matrix with zuko's layer, and the indices there of its rows and columns without the bias.

    A column with index −1 does not exist there: zuko's network does not read a single feature, on which nothing
    depends.
    """
    a = architecture
    units = np.argsort(np.arange(a.units) % a.features, kind="stable")
    context = np.arange(a.context) + (a.features if a.features > 1 else 0)
    matrices = a.matrices(parameters)
    for t, transform in enumerate(_transforms(module)):
        order = np.array(a.permutations[t])
        inputs = np.concatenate([context, order if a.features > 1 else [-1]])
        outputs = (order[:, None] * a.outputs + np.arange(a.outputs)).ravel()
        rows = [units] * (a.layers + 1) + [outputs]
        columns = [inputs] + [units] * (a.layers + 1)
        yield from zip(a.network, matrices[t], _linears(transform.hyper), rows, columns, strict=True)


def _linears(hyper: nn.Module) -> list[Any]:
    return [part for part in hyper.modules() if isinstance(part, nn.Linear | zuko.nn.Linear)]


def _transforms(module: Any) -> list[Any]:
    return list(module.transform.transforms)


def _architecture_of(module: zuko.flows.Flow) -> Architecture:
    """Return the architecture of a zuko flow; raise if it has parts without a counterpart."""
    transforms = _transforms(module)
    for transform in transforms:
        if not hasattr(transform, "hyper"):
            raise ValueError(f"expected conditional autoregressive transforms; got {transform}.")
    linears = _linears(transforms[0].hyper)
    widths = sorted({linear.out_features for linear in linears[:-1]})
    if len(widths) != 1:
        raise ValueError(f"expected hidden layers of one width; got widths {widths}.")
    parts = {type(part) for t in transforms for part in t.hyper.modules()}
    activations = parts & {nn.ReLU, nn.Tanh}
    plain = {nn.ReLU, nn.Tanh, nn.Dropout, nn.Sequential, nn.Linear, zuko.nn.Linear}
    plain |= {zuko.nn.MaskedLinear, zuko.nn.MaskedMLP, zuko.nn.MLP}
    if parts - plain or len(activations) != 1:
        names = sorted(part.__name__ for part in (parts - plain) | activations)
        raise ValueError(f"expected plain layers with either ReLU or Tanh throughout; got {', '.join(names)}.")

    univariate = transforms[0].univariate
    options = univariate.keywords if isinstance(univariate, partial) else {}
    kind = univariate.func if isinstance(univariate, partial) else univariate
    kinds: dict[Any, Literal["maf", "nsf"]] = {
        zuko.transforms.MonotonicAffineTransform: "maf",
        zuko.transforms.MonotonicRQSTransform: "nsf",
    }
    if kind not in kinds:
        raise ValueError(f"expected affine or rational-quadratic maps; got {kind.__name__}.")
    if options.get("slope", _SLOPE) != _SLOPE:
        raise ValueError(f"expected a least slope of {_SLOPE}; got {options['slope']}.")

    d = linears[-1].out_features // transforms[0].total
    if d > 1 and any(transform.passes != d for transform in transforms):
        raise ValueError("expected fully autoregressive transforms; got coupling (`passes` < features).")
    positions = [[0] if d == 1 else transform.order.tolist() for transform in transforms]
    return Architecture(
        family=kinds[kind],
        features=d,
        context=linears[0].in_features - (d if d > 1 else 0),
        transforms=len(transforms),
        units=widths[0],
        layers=len(linears) - 2,
        activation="relu" if nn.ReLU in activations else "tanh",
        bins=(transforms[0].total + 1) // 3 if kinds[kind] == "nsf" else Architecture.bins,
        bound=float(options.get("bound", Architecture.bound)),
        orders=tuple(tuple(np.argsort(position).tolist()) for position in positions),
    )
