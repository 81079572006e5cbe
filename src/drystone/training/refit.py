"""Members trained again on all rows: nothing is held out, because epochs and learning rates are known.

Stopping and stacking need rows that no member was trained on. Once both are done these rows are worth more as
training rows: each member starts from the same parameters with the same scaling, sees as many epochs as it had at
its best, and its learning rate is lowered where it was.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from drystone._files import working_in
from drystone._parallel import Executor, as_completed, cores, worker_pool
from drystone.errors import ConvergenceWarning
from drystone.training import disk as storage
from drystone.training.augmentation import Augment, Augmentation, name_of
from drystone.training.engines.job import Job, run_again
from drystone.training.fingerprint import fingerprint_of_refit
from drystone.training.inputs import check_inside, simulations
from drystone.training.likelihood import TrainedLikelihood
from drystone.training.member import TrainedMember
from drystone.training.progress import member_bar
from drystone.training.recipe import Recipe
from drystone.training.resampling import as_row_weights
from drystone.training.targets import LikelihoodTarget, PosteriorTarget

if TYPE_CHECKING:
    from torch import nn

__all__ = ["refit"]

M = TypeVar("M", bound=TrainedMember | TrainedLikelihood)


def refit(
    members: Sequence[M],
    theta: ArrayLike,
    y: ArrayLike,
    directory: str | os.PathLike[str] | None,
    embedding: Callable[[], nn.Module] | None,
    augment: Augment | None,
    row_weights: ArrayLike | None,
    device: str,
    workers: int | None,
    client: Executor | None,
    progress: bool | None,
) -> list[Any]:
    """Train the members again on all rows: see :meth:`drystone.Ensemble.refit`."""
    theta, y = simulations(theta, y, embedding is not None)
    weights = None if row_weights is None else as_row_weights(row_weights, len(theta))
    jobs = {member.name: _job(member, theta, y, weights, embedding, device) for member in members}
    for member in members:
        check_inside(theta, _support(member))
        _check_augment(member, augment)
    with working_in(directory):
        place = None if directory is None else Path(directory)
        stored = storage.finished(jobs.values(), place, "its rows or its first training", embedding)
        done: dict[str, Any] = {name: member.load() for name, member in stored.items()}
        waiting = sorted((m for m in members if m.name not in done), key=lambda member: -member.configuration.cost)
        torch = any(job.engine == "torch" for job in jobs.values())
        with (
            member_bar(len(members), "refit", progress) as (bar, step),
            worker_pool(client, 1 if torch else workers or cores(), "threads", step) as pool,
        ):
            bar.update(len(done))
            rows = pool.share((theta, y, weights))
            futures = as_completed(
                waiting,
                lambda member: pool.submit(_again, member, jobs[member.name], rows, augment),
                lambda: len(members),
            )
            for member, future in futures:
                again = done[member.name] = future.result()
                if place is not None:
                    storage.save(again, place, jobs[member.name].fingerprint)
                bar.update()
        # A refitted member has no validation losses.
        diverged = [name for name in jobs if done[name].history.validation]
        if diverged:
            warnings.warn(
                f"{len(diverged)} of {len(jobs)} members diverged on all rows and stay as they were: "
                f"{', '.join(diverged)}.",
                ConvergenceWarning,
                stacklevel=3,
            )
        return [done[name] for name in jobs]


def _again(member: Any, job: Job, rows: tuple[NDArray, NDArray, NDArray | None], augment: Augment | None) -> Any:
    """Return the member trained on these rows, or as it was if it diverges."""
    theta, y, weights = rows
    target: PosteriorTarget | LikelihoodTarget
    if isinstance(member, TrainedLikelihood):
        target = LikelihoodTarget.of(member, y, job.seed)
    else:
        target = PosteriorTarget.of(member)
    data = replace(target.data(theta, y, np.arange(len(theta)), np.arange(0)), row_weights=weights)
    if augment is not None:
        data = replace(data, augmentation=Augmentation(augment, target, _support(member), theta, y))
    history = member.history
    outcome = run_again(job, data, history.restarts, history.best_epoch, _recipe(member).lr_drop_epochs)
    if outcome.fit.diverged:
        return replace(member, snapshots={})
    return replace(target.member(member.name, outcome), recipe=member.recipe)


def _job(
    member: TrainedMember | TrainedLikelihood,
    theta: NDArray,
    y: NDArray,
    row_weights: NDArray | None,
    embedding: Callable[[], nn.Module] | None,
    device: str,
) -> Job:
    recipe = _recipe(member)
    if isinstance(member, TrainedMember) and (member.embedding is None) != (embedding is None):
        has = "without an" if member.embedding is None else "with an"
        raise ValueError(
            f"member {member.name!r} was trained {has} embedding; pass the function that makes its module, as in "
            "ds.train, or None if there is none: refit(theta, y, embedding=...)."
        )
    return Job(
        member.name,
        member.configuration,
        recipe.key,
        recipe.seed,
        recipe.engine,
        recipe.schedule,
        embedding,
        device,
        fingerprint_of_refit(member.flow.parameters, recipe, theta, y, row_weights),
    )


def _check_augment(member: TrainedMember | TrainedLikelihood, augment: Augment | None) -> None:
    trained, passed = _recipe(member).augment, name_of(augment)
    if trained != passed:
        raise ValueError(
            f"member {member.name!r} was trained with augment={trained or None}; got augment={passed or None}. "
            "Pass the function that it was trained with: refit(theta, y, augment=...)."
        )


def _recipe(member: TrainedMember | TrainedLikelihood) -> Recipe:
    if member.recipe is None:
        raise ValueError(
            f"member {member.name!r} cannot be refitted: its file is of an earlier version, which did not record "
            "the seed, the schedule and the epochs of lower learning rates. Train it again with ds.train."
        )
    return member.recipe


def _support(member: TrainedMember | TrainedLikelihood) -> Any:
    return member.support if isinstance(member, TrainedMember) else member.condition.support
