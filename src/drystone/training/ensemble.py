"""Ensembles: sequences of members that are loaded on access, with densities and draws of all members at once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._messages import counted, html_table, unknown
from drystone._parallel import Executor, cores
from drystone.errors import IntractableError
from drystone.training import disk as storage
from drystone.training.likelihood import TrainedLikelihood
from drystone.training.member import TrainedMember

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

    from drystone.training.augmentation import Augment

__all__ = ["Ensemble"]


M = TypeVar("M", bound=TrainedMember | TrainedLikelihood)


class Ensemble(Sequence[M], Generic[M]):
    """A sequence of trained members: posteriors, each a :class:`drystone.adapters.Member`, or likelihoods.

    Its methods evaluate all members at once: ``log_prob`` and ``sample``, or ``log_likelihood`` of likelihoods.

    Its items are members, by position or by name, and slices ensembles.

    Args:
        members: The members, with unique names.
        diverged: Names of members that diverged twice in training and were left out.
        unfinished: Names of members that the time budget of the training left out.

    Example:
        >>> import drystone as ds, tempfile
        >>> theta, y = ds.toy.simulate(100, seed=1)
        >>> ensemble = ds.train(theta, y, members=2, family="maf", epochs=1, workers=1)
        >>> ensemble[0].log_prob(theta, y).shape, ensemble.log_prob(theta, y).shape  # of one member, of all
        ((100,), (2, 100))
        >>> ensemble.save(directory := tempfile.mkdtemp())
        >>> ds.Ensemble.load(directory).names
        ('maf-000', 'maf-001')
    """

    def __init__(
        self, members: Iterable[M | storage.Stored], diverged: Sequence[str] = (), unfinished: Sequence[str] = ()
    ) -> None:
        self._members: list[Any] = list(members)
        self.names = tuple(member.name for member in self._members)
        self.diverged = tuple(diverged)
        self.unfinished = tuple(unfinished)
        if len(set(self.names)) < len(self.names):
            duplicated = sorted({name for name in self.names if self.names.count(name) > 1})
            raise ValueError(f"names of members must be unique; duplicated: {', '.join(duplicated)}.")

    def __len__(self) -> int:
        return len(self._members)

    @overload
    def __getitem__(self, index: int | str) -> M: ...
    @overload
    def __getitem__(self, index: slice) -> Ensemble[M]: ...
    def __getitem__(self, index: int | str | slice) -> M | Ensemble[M]:
        if isinstance(index, str):
            if index not in self.names:
                raise KeyError(unknown("member", index, self.names))
            index = self.names.index(index)
        if isinstance(index, slice):
            return Ensemble(self._members[index], self.diverged, self.unfinished)
        if isinstance(self._members[index], storage.Stored):
            self._members[index] = self._members[index].load()
        return self._members[index]

    def __repr__(self) -> str:
        diverged = f", {len(self.diverged)} diverged" if self.diverged else ""
        names = ", ".join(self.names[:3]) + (", …" if len(self) > 3 else "")
        unfinished = f", {len(self.unfinished)} unfinished" if self.unfinished else ""
        return f"Ensemble({counted(len(self), 'member')}: {names}{diverged}{unfinished})"

    def _repr_html_(self) -> str:
        """Return a row per member: what it is, how long it was trained, its validation loss."""
        frame = self.frame
        best = frame["validation_loss"].map("{:.4f}".format)
        columns = zip(frame.index, frame["family"], frame["epochs"], best, strict=True)
        return html_table(repr(self), ["member", "family", "epochs", "validation loss"], list(columns))

    def log_prob(self, theta: ArrayLike, y: ArrayLike, *, workers: int | None = None) -> NDArray[np.float64]:
        """Return the log densities of all members at paired rows theta (N, d) and y (N, …), (K, N)."""
        return np.stack(self._map("log_prob", lambda k, log_prob: log_prob(theta, y), workers))

    def log_likelihood(self, theta: ArrayLike, y: ArrayLike, *, workers: int | None = None) -> NDArray[np.float64]:
        """Return log q_k(y_n | θ_n) of all likelihoods at paired rows theta (N, d) and y (N, c), (K, N)."""
        return np.stack(self._map("log_likelihood", lambda k, log_q: log_q(theta, y), workers))

    def sample(
        self, n: int, y: ArrayLike, *, seed: int | None = None, workers: int | None = None
    ) -> NDArray[np.float64]:
        """Return n draws of every member for each row of y (N, …), (K, n, N, d)."""
        seeds = np.random.SeedSequence(seed).generate_state(len(self), np.uint64)
        return np.stack(self._map("sample", lambda k, sample: sample(n, y, seed=int(seeds[k])), workers))

    def snapshot(self, epoch: int) -> Ensemble[M]:
        """Return the ensemble as it was after one of the epochs in ``snapshots`` of :func:`drystone.train`."""
        members: list[Any] = [member.snapshot(epoch) for member in self]
        return Ensemble(members, self.diverged, self.unfinished)

    def refit(
        self,
        theta: ArrayLike,
        y: ArrayLike,
        members: Sequence[str] | None = None,
        directory: str | os.PathLike[str] | None = None,
        *,
        embedding: Callable[[], nn.Module] | None = None,
        augment: Augment | None = None,
        row_weights: ArrayLike | None = None,
        device: str = "cpu",
        workers: int | None = None,
        client: Executor | None = None,
        progress: bool | None = None,
    ) -> Ensemble[M]:
        """Train members again on all of these rows, with nothing held out, once their weights are known.

        The epochs and the drops of the learning rate are those of the first training, replayed; scaling, names and
        seeds are the same, so that on the same rows the same member comes out, to the bit. Weights are kept:
        ``fit.posterior(refitted)``. What was certified or measured is of the members before; keep a test set out
        of ``theta`` to measure the refitted ones.

        Args:
            theta: Parameters, (N, d): those of the first training, and the rows that stopped it.
            y: Their data, (N, …).
            members: Names of the members to train again, such as those with weight, ``fit.member_weights``;
                ``None`` for all. The others are left out.
            directory: Where members are written as they finish: not that of the first training. The same call
                continues; if there are members of other rows, :class:`~drystone.StaleError` is raised.
            embedding: Makes the embedding module, for members that were trained with one.
            augment: The function that the members were trained with, if they were: it is called again.
            row_weights: Weights ≥ 0 of the rows, (N,), for simulations from a proposal: every epoch draws as many
                rows as there are, each in proportion to its weight. ``None`` for each row once.
            device: Device on which torch trains.
            workers: As in :func:`drystone.train`.
            client: As in :func:`drystone.train`.
            progress: As in :func:`drystone.train`.

        Returns:
            The members, without snapshots and validation losses. One that diverges on the new rows stays as it
            was, with a :class:`drystone.ConvergenceWarning`.

        Raises:
            ValueError: if a member does not record how it was trained, as those of version 0.1 do not.
        """
        from drystone.training.refit import refit

        names = self.names if members is None else tuple(members)
        for name in names:
            if name not in self.names:
                raise ValueError(unknown("member", name, self.names))
        chosen: list[Any] = [self[name] for name in names]
        return Ensemble(
            refit(chosen, theta, y, directory, embedding, augment, row_weights, device, workers, client, progress)
        )

    @property
    def frame(self) -> pd.DataFrame:
        """A data frame with one row per member: hyperparameters and course of the training."""
        import pandas as pd

        rows = [
            {
                **asdict(member.configuration),
                "epochs": len(member.history.losses),
                "best_epoch": member.history.best_epoch,
                "validation_loss": min(member.history.validation, default=math.nan),
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
    ) -> Ensemble[Any]:
        """Read the members of a directory in the order of their training; parameters are read on first use.

        Args:
            directory: The directory of :meth:`save` or ``drystone.train(directory=...)``.
            embedding: Makes the embedding module that the members were trained with; code is never stored.
        """
        stored, diverged = storage.scan(Path(directory), embedding)
        return cls(stored, diverged)

    def _map(
        self, method: str, function: Callable[[int, Callable[..., NDArray]], NDArray], workers: int | None
    ) -> list[NDArray]:
        """Return the function of (k, the method of member k) for all members."""
        if not len(self):
            raise ValueError("the ensemble has no members.")
        if not hasattr(self[0], method):
            kind, remedy = "posteriors", "Train likelihoods with ds.train(..., target='likelihood')."
            if isinstance(self[0], TrainedLikelihood):
                kind, remedy = "likelihoods", "Make posteriors of them with ds.normalize(ensemble, prior=...)."
            raise IntractableError(f"the members are {kind}, which have no `{method}`. {remedy}")
        with ThreadPoolExecutor(workers or cores()) as pool:
            return list(pool.map(lambda k: function(k, getattr(self[k], method)), range(len(self))))
