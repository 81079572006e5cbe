"""Flows far from the identity: the subjects of all tests."""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from drystone.flows import Architecture, Flow

ORDERS = ((2, 0, 1), (1, 0, 2))
ARCHITECTURES = {
    "maf": Architecture("maf", 3, 4, transforms=2, units=17, layers=2, orders=ORDERS),
    "maf, relu, many blocks": Architecture("maf", 3, 2, transforms=1, units=100, layers=1, activation="relu"),
    "maf, one feature": Architecture("maf", 1, 2, transforms=3, units=7, layers=1),
    "nsf": Architecture("nsf", 3, 4, transforms=2, units=70, layers=2, bins=5, bound=3.0, orders=ORDERS),
    "nsf, relu, no square layer": Architecture("nsf", 2, 3, units=9, layers=0, activation="relu", bins=4),
    "nsf, one feature": Architecture("nsf", 1, 3, transforms=2, units=5, layers=1, bins=3),
    "nsf, more features than units": Architecture("nsf", 6, 2, transforms=2, units=4, layers=1, bins=3),
}


def flow_of(architecture: Architecture, seed: int = 1) -> Flow:
    """Return a flow with large output weights, so that no map is near the identity."""
    flow = Flow.initial(architecture, seed)
    for matrices in architecture.matrices(flow.parameters):
        matrices[-1] *= 2
    return flow


def points(flow: Flow) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return x (53, d), some outside the splines' bound, and contexts y (53, c)."""
    rng = np.random.default_rng(2)
    x = 1.7 * rng.standard_normal((53, flow.architecture.features), np.float32)
    return x, rng.standard_normal((53, flow.architecture.context), np.float32)


def double(array: ArrayLike) -> torch.Tensor:
    """Return a tensor in double precision."""
    return torch.from_numpy(np.array(array, np.float64))
