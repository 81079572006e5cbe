"""Reference draws of the exact posterior at observations that the field shares."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from drystone import tasks

__all__ = ["DATA", "references"]

# The environment variable that names the folder of sbibm's references, one TASK.npz each.
DATA = "DRYSTONE_SBIBM_DATA"


def references(
    name: str, draws: int, seed: int, otherwise: np.ndarray
) -> tuple[str, list[tuple[np.ndarray, np.ndarray]]]:
    """Return the references' source, and pairs of an observation (m,) and draws of its posterior (S, d).

    Args:
        name: Of the task.
        draws: Number of draws per observation, S, at most.
        seed: Of their choice, or of the exact sampler.
        otherwise: The observations, (n, m), where there is no folder: their draws are the exact sampler's.
    """
    rng, folder = np.random.default_rng(seed), os.environ.get(DATA)
    if folder is None:
        task = tasks.get(name)
        return "exact sampler", [(y, task.sample_posterior(y, draws, rng)) for y in otherwise]
    with np.load(Path(folder) / f"{name}.npz") as data:
        pairs = zip(data["observation"], data["reference_posterior"], strict=True)
        return "sbibm", [
            (y.ravel().astype(float), rng.permutation(of_y)[:draws].astype(float)) for y, of_y in pairs
        ]
