"""The state of the generators that nothing in the library may change."""

from typing import Any

import numpy as np
import torch


def global_state():
    numpy: Any = np.random.get_state()  # noqa: NPY002
    return torch.random.get_rng_state().numpy().tobytes(), numpy[1].tobytes(), numpy[2]
