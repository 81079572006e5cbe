"""Ensembles: sequences of members that are loaded on access, with densities and draws of all members at once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._parallel import cores
from drystone.training import disk as storage
from drystone.training.member import TrainedMember

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

__all__ = ["Ensemble"]


class Ensemble(Sequence[TrainedMember]):
    """A sequence of trained members, each a :class:`drystone.adapters.Member`.

    Args:
        members: The members, with unique names.
        diverged: Names of members that diverged twice in training and were left out.

    Example:
        ``ensemble[3].log_prob(theta, y)`` is the density of one member, ``ensemble.log_prob(theta, y)`` of all.
    """

    def __init__(self, members: Iterable[TrainedMember | storage.Stored], diverged: Sequence[str] = ()) -> None:
        self._members = list(members)
        self.names = tuple(member.name for member in self._members)
        self.diverged = tuple(diverged)
        if len(set(self.names)) < len(self.names):
            duplicated = sorted({name for name in self.names if self.names.count(name) > 1})
            raise ValueError(f"names of members must be unique; duplicated: {', '.join(duplicated)}.")

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, index: int) -> TrainedMember: ...
    @overload
    def __getitem__(self, index: slice) -> Ensemble: ...
    def __getitem__(self, index: int | slice) -> TrainedMember | Ensemble:
        if isinstance(index, slice):
            return Ensemble(self._members[index], self.diverged)
        member = self._members[index]
        if isinstance(member, storage.Stored):
            member = self._members[index] = member.load()
        return member

    def __repr__(self) -> str:
        diverged = f", {len(self.diverged)} diverged" if self.diverged else ""
        names = ", ".join(self.names[:3]) + (", …" if len(self) > 3 else "")
        return f"Ensemble({len(self)} members: {names}{diverged})"

    def log_prob(self, theta: ArrayLike, y: ArrayLike, *, workers: int | None = None) -> NDArray[np.float64]:
        """Return the log densities of all members at paired rows theta (N, d) and y (N, …), (K, N)."""
        return np.stack(self._map(lambda k: self[k].log_prob(theta, y), workers))

    def sample(
        self, n: int, y: ArrayLike, *, seed: int | None = None, workers: int | None = None
    ) -> NDArray[np.float64]:
        """Return n draws of every member for each row of y (N, …), (K, n, N, d)."""
        seeds = np.random.SeedSequence(seed).generate_state(len(self), np.uint64)
        return np.stack(self._map(lambda k: self[k].sample(n, y, seed=int(seeds[k])), workers))

    def snapshot(self, epoch: int) -> Ensemble:
        """Return the ensemble as it was after one of the epochs in ``snapshots`` of :func:`drystone.train`."""
        return Ensemble([member.snapshot(epoch) for member in self], self.diverged)

    @property
    def frame(self) -> pd.DataFrame:
        """A data frame with one row per member: hyperparameters and course of the training."""
        import pandas as pd

        rows = [
            {
                **asdict(member.configuration),
                "epochs": len(member.history.losses),
                "best_epoch": member.history.best_epoch,
                "validation_loss": min(member.history.validation),
                "restarts": member.history.restarts,
                "seconds": member.history.seconds,
            }
            for member in self._members
        ]
        return pd.DataFrame(rows, index=pd.Index(self.names, name="member"))

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Write each member to ``<name>.safetensors`` and ``<name>.json`` in a directory."""
        for member in self:
            storage.save(member, Path(directory))

    @classmethod
    def load(
        cls, directory: str | os.PathLike[str], *, embedding: Callable[[], nn.Module] | None = None
    ) -> Ensemble:
        """Read the members of a directory in the order of their names; parameters are read on first use.

        Args:
            directory: The directory of :meth:`save` or ``drystone.train(directory=...)``.
            embedding: Makes the embedding module that the members were trained with; code is never stored.
        """
        stored, diverged = storage.scan(Path(directory), embedding)
        return cls(stored, diverged)

    def _map(self, function: Callable[[int], NDArray[np.float64]], workers: int | None) -> list[NDArray]:
        if not len(self):
            raise ValueError("the ensemble has no members.")
        with ThreadPoolExecutor(workers or cores()) as pool:
            return list(pool.map(function, range(len(self))))
