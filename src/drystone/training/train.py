r"""Train an ensemble of neural posteriors or likelihoods by maximum likelihood on simulations (NPE, NLE).

.. math:: \max_{q_k} \frac1N \sum_n \log q_k(\theta_n \mid y_n) \quad\text{or}\quad
    \max_{q_k} \frac1N \sum_n \log q_k(y_n \mid \theta_n), \qquad (\theta_n, y_n) \sim p(\theta, y)

Members are independent of one another: each is trained sequentially with its own seed, so the result does not
depend on the number of workers, on where they run, or on interruptions.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drystone._defaults import (
    EPOCHS,
    LOG_Y,
    LR_DROPS,
    MEMBERS,
    PATIENCE,
    PATIENCE_ROWS,
    PATIENCE_WITH_DROPS,
    SEED,
    VALIDATION,
)
from drystone._files import working_in
from drystone._messages import require
from drystone._parallel import Executor, as_completed, cores, worker_pool
from drystone.errors import ConvergenceWarning
from drystone.simulation.support import Support
from drystone.training import disk as storage
from drystone.training.augmentation import Augment, Augmentation, name_of, told_apart
from drystone.training.disk import Stored
from drystone.training.engines.job import Job, OutOfTime, run
from drystone.training.engines.loop import Data, Schedule
from drystone.training.ensemble import Ensemble
from drystone.training.fingerprint import fingerprint_of_data, fingerprint_of_member
from drystone.training.inputs import Split, check_inside, simulations
from drystone.training.likelihood import TrainedLikelihood
from drystone.training.member import TrainedMember
from drystone.training.progress import member_bar
from drystone.training.recipe import Recipe
from drystone.training.sweep import Configuration, Family, Sweep
from drystone.training.targets import LikelihoodTarget, PosteriorTarget
from drystone.training.warp import LogY

if TYPE_CHECKING:
    from torch import nn
    from tqdm.std import tqdm

__all__ = ["train"]

Trained = TrainedMember | TrainedLikelihood

# Weight of the linear term in the map from a box to the reals; docs/training.md has what it was compared with.
LINEAR = 20.0
# Augmented pairs are warned of below this p-value: falsely in one training of a thousand.
LEVEL = 0.001


def train(
    theta: ArrayLike,
    y: ArrayLike,
    *,
    target: Literal["posterior", "likelihood"] = "posterior",
    prefix: str = "",
    members: int = MEMBERS,
    minutes: float | None = None,
    family: Family | None = None,
    sweep: Sweep | Sequence[Sweep] | Sequence[Configuration] | None = None,
    engine: Literal["compiled", "torch"] = "compiled",
    seed: int = SEED,
    prior: object = None,
    workers: int | None = None,
    client: Executor | None = None,
    directory: str | os.PathLike[str] | None = None,
    epochs: int = EPOCHS,
    patience: int | Literal["auto"] | None = "auto",
    lr_drops: int | None = None,
    validation: float | tuple[ArrayLike, ArrayLike] = VALIDATION,
    augment: Augment | None = None,
    snapshots: Sequence[int] = (),
    log_y: LogY = LOG_Y,
    clip_y: float | None = 6.0,
    components: int | None = None,
    embedding: Callable[[], nn.Module] | None = None,
    device: str = "cpu",
    progress: bool | None = None,
) -> Ensemble[Any]:
    r"""Train many conditional flows on the same simulations.

    Args:
        theta: Parameters, (N, d).
        y: Data, (N, c); any shape (N, …) with an embedding.
        target: ``"posterior"`` for members with ``log_prob`` and ``sample``, or ``"likelihood"`` for normalized
            densities of y with ``log_likelihood(theta, y)`` and ``simulate(theta, seed)``, of which
            :func:`drystone.normalize` makes posteriors. Likelihoods leave constant columns of y out, and spread
            counts evenly over their steps.
        prefix: Put before every member's name, to tell the members of several trainings apart.
        members: Number of members.
        minutes: Time budget: members are trained in order until it is spent, and those that are not finished then
            are left out, in ``ensemble.unfinished``. Which ones finish depends on the machine; the finished ones
            are the same, to the bit, as without a budget, and the same call continues with the others in another
            such time. The first that does not diverge is always finished. ``None`` for no limit.
        family: ``"maf"`` (affine) or ``"nsf"`` (splines: half as fast, and for posteriors usually much better).
            ``None`` for ``"nsf"``, and for likelihoods both in turn.
        sweep: Ranges that the members' hyperparameters are drawn from, or several that they take in turn; ``None``
            for ``Sweep.posterior()`` or, for likelihoods, ``Sweep.likelihood()``; or a list of configurations, one
            per member, which then decide ``members`` and ``family``.
        engine: ``"compiled"``, or ``"torch"`` for embeddings, GPUs and very wide networks.
        seed: Seed of everything random. Member k is the same for any ``members`` and ``workers``.
        prior: Prior of θ, or its bounds: a (lower, upper) pair, infinite where there is no bound; a prior of ours,
            torch's, sbi's or SciPy's, or a sequence of them for independent parameters; or any object with
            ``log_prob`` and ``sample``. Members stay within its support: a box, half-lines, or the whole space.
        workers: Members trained at once; ``None`` for one per core. The torch engine trains one at a time.
        client: A ``dask.distributed.Client``, or any executor with ``submit``, to train on instead of this
            machine.
        directory: Where members are written as they finish. The same call continues an interrupted training; if
            the directory has members of other arguments, :class:`~drystone.StaleError` is raised.
        epochs: Maximum number of epochs.
        patience: Stop after so many epochs without a better validation loss; ``None`` for exactly ``epochs``.
            ``"auto"`` is 8, or 20 if the learning rate is never lowered, and more with fewer than 2,000 training
            rows: as many as see 15,000 rows. The member has the best parameters in any case.
        lr_drops: Number of times that, instead of stopping, the learning rate is lowered to three tenths and the
            patience starts anew; ``None`` for 3.
        validation: Share of the rows held out of training, the same rows for all members; or simulations
            (theta, y) that stop the training instead, so that all rows are trained on. These may be the rows that
            the weights are fitted to: docs/training.md has how optimistic that is.
        augment: Function ``augment(theta, y, rng) -> (theta, y)`` of the training rows, called in every epoch of
            every member, in the units of the simulator and with the same shapes: for symmetries, and for noise
            that is cheap to draw again. Pairs that can be told from real ones are warned of. It is code, of which
            a directory notes the name alone; members that train at the same time call it from several threads.
        snapshots: Epochs after which a copy of the parameters is stored, for ``ensemble.snapshot(epoch)``.
        log_y: Take logarithms of y, of all columns or of those listed, which must be positive. ``"auto"`` draws in
            the columns whose tails are heavy by asinh((y − m) / s), a logarithm far out on either side, and
            counts by their square root.
        clip_y: Clip standardized y to ± this value, ``None`` not to clip; posteriors only, as a likelihood must
            see y as it is.
        components: Reduce y to this number of principal components; posteriors only.
        embedding: Makes a torch module that maps standardized y to a vector (``engine="torch"``); posteriors only.
        device: Device on which torch trains (``engine="torch"``).
        progress: Show a progress bar; ``None`` for only on a terminal.

    Returns:
        The members that did not diverge, in order. A member that diverges is trained again with a tenth of its
        learning rate; if it diverges again, a :class:`drystone.ConvergenceWarning` names it.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(100, seed=1)
        >>> ensemble = ds.train(theta, y, members=2, family="maf", epochs=1, workers=1)
        >>> ensemble
        Ensemble(2 members: maf-000, maf-001)
        >>> ensemble.sample(10, y[:5], seed=1).shape
        (2, 10, 5, 1)
    """
    theta, y = simulations(theta, y, embedding is not None)
    clip_y = float("inf") if clip_y is None else clip_y
    _check_engine(engine, embedding is not None, device)
    support = Support.of(prior, theta.shape[1])
    with working_in(directory):
        # A directory that version 0.1 began is continued with its defaults.
        old = target == "posterior" and _begun_by_version_0_1(directory)
        if old and log_y == LOG_Y:
            log_y = False
        if target == "posterior":
            support = replace(support, linear=0.0 if old else LINEAR)
        split = Split.of(theta, y, validation, seed)
        training = split.training

        check_inside(split.theta, support)
        kind: PosteriorTarget | LikelihoodTarget
        if target == "likelihood":
            if components is not None or embedding is not None:
                raise ValueError(
                    "`components` and `embedding` reduce y, which a likelihood is a density of: they are for "
                    "target='posterior'. Reduce y before ds.train, and give the same summaries to the likelihoods."
                )
            kind = LikelihoodTarget.fit(split.theta, split.y, training, support, log_y=log_y, seed=seed)
        elif target == "posterior":
            kind = PosteriorTarget.fit(
                split.theta, split.y, training, support, log_y=log_y, clip_y=clip_y, components=components
            )
        else:
            raise ValueError(f"`target` must be 'posterior' or 'likelihood'; got {target!r}.")

        drops = (0 if old else LR_DROPS) if lr_drops is None else lr_drops
        if patience == "auto":
            patience = PATIENCE if drops == 0 else PATIENCE_WITH_DROPS
            # Epochs of few rows are few steps, and a plateau lasts for some number of steps.
            patience = patience if old else max(patience, math.ceil(PATIENCE_ROWS / len(training)))
        schedule = Schedule(epochs, patience, tuple(sorted(set(snapshots))), drops)
        embedding_name = getattr(embedding, "__qualname__", type(embedding).__name__)
        common = fingerprint_of_data(
            theta, y, support=support, validation=split.settings, log_y=log_y, clip_y=clip_y,
            components=components, schedule=schedule, engine=engine, embedding=embedding_name, target=target,
            augment=name_of(augment),
        )  # fmt: skip
        families = kind.FAMILIES if family is None else (family,)
        sweep = sweep or (Sweep() if old else kind.SWEEPS)
        jobs = [
            Job(
                f"{prefix}{kind.PREFIX}{configuration.family}-{k:03d}", configuration, (1, k), seed, engine,
                schedule, embedding, device, fingerprint_of_member(common, seed, k, configuration),
            )
            for k, configuration in enumerate(_configurations(members, families, sweep, seed))
        ]  # fmt: skip
        # Members that treat bounds and trends alike share their data, and all do where there are none.
        kinds: dict[tuple[Any, ...], PosteriorTarget | LikelihoodTarget] = {}
        for configuration in {job.configuration.preprocessing: job.configuration for job in jobs}.values():
            kinds[configuration.preprocessing] = kind.for_configuration(
                configuration, split.theta, split.y, training, split.validation
            )
        different = {id(kind): kind for kind in kinds.values()}
        of_kind = {key: _data(kind, split, augment, support) for key, kind in different.items()}
        data = {preprocessing: of_kind[id(kind)] for preprocessing, kind in kinds.items()}

        place = None if directory is None else Path(directory)
        stored = storage.finished(jobs, place, "its data or settings", embedding)
        done: dict[str, Trained | Stored | None] = {
            name: None if member.diverged else member for name, member in stored.items()
        }
        # Longest first, so that no core waits for the last one.
        remaining = sorted((job for job in jobs if job.name not in done), key=lambda job: -job.configuration.cost)
        if minutes is not None:
            in_order = [job for job in jobs if job.name not in done]
            remaining = _within(minutes, in_order, any(member is not None for member in done.values()))
        unfinished: list[str] = []
        if remaining and augment is not None:
            _warn_if_told_apart(data[remaining[0].configuration.preprocessing], seed)
        with (
            member_bar(len(jobs), "member", progress) as (bar, step),
            # Torch has one random state per process and its own threads: its members take turns.
            worker_pool(client, 1 if engine == "torch" else workers or cores(), "threads", step) as pool,
        ):
            _show(bar, done)
            shared = {preprocessing: pool.share(of) for preprocessing, of in data.items()}
            while remaining:
                # All at once: a job is a few numbers, and a cluster that grows on demand looks at how many wait.
                for job, future in as_completed(
                    remaining,
                    lambda job: pool.submit(run, job, shared[job.configuration.preprocessing]),
                    lambda: len(jobs),
                ):
                    try:
                        outcome = future.result()
                    except OutOfTime:
                        unfinished.append(job.name)
                        continue
                    if outcome.fit.diverged:
                        done[job.name] = None
                    else:
                        done[job.name] = replace(
                            kinds[job.configuration.preprocessing].member(job.name, outcome),
                            recipe=Recipe.of(job, outcome.fit, name_of(augment)),
                        )
                    if place is not None:
                        _write(job, done[job.name], place)
                    _show(bar, done)
                remaining = _one_more(jobs, done, unfinished)

        finished = [job.name for job in jobs if job.name not in unfinished]
        diverged = [name for name in finished if done[name] is None]
        if diverged:
            warnings.warn(
                f"{len(diverged)} of {len(finished)} members diverged twice and were left out: "
                f"{', '.join(diverged)}. Lower the sweep's `learning_rate`, or look for outliers.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return Ensemble([m for name in finished if (m := done[name]) is not None], diverged, sorted(unfinished))


def _within(minutes: float, jobs: Sequence[Job], any_finished: bool) -> list[Job]:
    """Return the jobs with the end of their time; the first has none, unless there is a finished member."""
    if not minutes > 0:
        raise ValueError(f"`minutes` must be positive; got {minutes}.")
    limited = [replace(job, deadline=time.time() + 60 * minutes) for job in jobs]
    return limited if any_finished else [*jobs[:1], *limited[1:]]


def _one_more(
    jobs: Sequence[Job], done: Mapping[str, Trained | Stored | None], unfinished: list[str]
) -> list[Job]:
    """Return the next job that the time did not suffice for, without a limit, if all that finished diverged."""
    if not unfinished or any(member is not None for member in done.values()):
        return []
    job = next(job for job in jobs if job.name in unfinished)
    unfinished.remove(job.name)
    return [job]


def _check_engine(engine: str, embedding: bool, device: str) -> None:
    if engine not in ("compiled", "torch"):
        raise ValueError(f"`engine` must be 'compiled' or 'torch'; got {engine!r}.")
    if engine == "compiled" and (embedding or device != "cpu"):
        raise ValueError("`embedding` and `device` need `engine='torch'`.")
    if engine == "torch":
        require("zuko", "zuko", "`engine='torch'`")


def _configurations(
    members: int,
    families: Sequence[Family],
    sweep: Sweep | Sequence[Sweep] | Sequence[Configuration],
    seed: int,
) -> list[Configuration]:
    """Return a configuration per member, families and sweeps in turn; the k-th does not depend on their number."""
    sweeps = [sweep] if isinstance(sweep, Sweep) else [s for s in sweep if isinstance(s, Sweep)]
    listed = [] if isinstance(sweep, Sweep) else [c for c in sweep if isinstance(c, Configuration)]
    if sweeps and listed:
        raise TypeError("`sweep` must be sweeps or configurations; got a list of both.")
    if listed:
        return listed
    if members < 1:
        raise ValueError(f"`members` must be at least 1; got {members}.")
    seeds = [np.random.SeedSequence(seed, spawn_key=(2, k)) for k in range(members)]
    return [
        sweeps[k % len(sweeps)].draw(families[k % len(families)], np.random.default_rng(s))
        for k, s in enumerate(seeds)
    ]


def _data(
    kind: PosteriorTarget | LikelihoodTarget, split: Split, augment: Augment | None, support: Support
) -> Data:
    """Return the standardized simulations, made anew in every epoch if the user says how."""
    data = kind.data(split.theta, split.y, split.training, split.validation)
    if augment is None:
        return data
    return replace(data, augmentation=Augmentation(augment, kind, support, split.theta, split.y))


def _warn_if_told_apart(data: Data, seed: int) -> None:
    p = 1.0 if data.augmentation is None else told_apart(data, data.augmentation, seed)
    if p < LEVEL:
        warnings.warn(
            f"augmented pairs can be told from real ones (p = {p:.4f}): members learn another "
            "distribution than that of the simulations. Check the symmetry or the noise of `augment`, and that "
            "`y` has its noise already.",
            stacklevel=3,
        )


def _begun_by_version_0_1(directory: str | os.PathLike[str] | None) -> bool:
    """Return whether the first posterior that an earlier call finished is of version 0.1."""
    paths = sorted(Path(directory).glob("*.json")) if directory is not None else ()
    finished = (stored for stored in map(storage.read, paths) if not stored.diverged and not stored.is_likelihood)
    first = next(finished, None)
    return first is not None and first.of_version_0_1


def _write(job: Job, member: Trained | Stored | None, directory: Path) -> None:
    if isinstance(member, Trained):
        storage.save(member, directory, job.fingerprint)
    else:
        storage.save_diverged(job.name, directory, job.fingerprint)


def _show(bar: tqdm, done: Mapping[str, Trained | Stored | None]) -> None:
    """Show the number of finished members and their best and median validation log density, standardized."""
    bar.update(len(done) - bar.n)
    scores = [-min(member.history.validation) for member in done.values() if member is not None]
    if scores:
        bar.set_postfix(best=f"{max(scores):.3f}", median=f"{np.median(scores):.3f}")
