"""Evaluate members on simulations to make the table that stacking works on."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_integer, checked, not_finite, rows_not_in_range, rows_of_data
from drystone._defaults import DRAWS, KEEP_DRAWS, LEVELS, SEED
from drystone._files import working_in
from drystone._messages import first_few, progress_bar, require
from drystone._parallel import Executor
from drystone._resume import Record, digest_array
from drystone.adapters.member import CheckedMember, Density, Sampler
from drystone.adapters.points import prior_of
from drystone.table import Table, blocks
from drystone.table.inputs import check_in_range, parameter_names, scaled_weights, unique_names
from drystone.table.statistics import Key, level_key
from drystone.tabulation.job import MemberJob, Part, Plan
from drystone.tabulation.parts import InMemoryParts, Outcomes, PointParts, StoredParts, TableHeader
from drystone.tabulation.points import PointJob, point_jobs
from drystone.tabulation.sharing import Sharing
from drystone.tabulation.workers import tabulate_jobs

__all__ = ["tabulate"]

# Rows per job, which is also the most work lost when the process is killed.
CHUNK = 1000
# Rows, for each thread, at which likelihoods that share points are evaluated one after another: their points at
# these rows fit into the memory that `ds.normalize` keeps them in.
SHARED_CHUNK = 100
# What it means that members lack something.
NO_DENSITY = "fits by the log score leave them out; the energy score needs draws alone."
NO_DRAWS = "only fits by the log score can use them."


def tabulate(
    members: Mapping[str, Density | Sampler] | Sequence[Density | Sampler],
    theta: ArrayLike,
    y: ArrayLike,
    draws: int = DRAWS,
    keep_draws: bool = KEEP_DRAWS,
    levels: Sequence[float] = LEVELS,
    seed: int = SEED,
    client: Executor | None = None,
    *,
    workers: int = 1,
    threads: int = 1,
    time_limit: float | None = None,
    chunk: int = CHUNK,
    directory: str | os.PathLike[str] | None = None,
    parameters: Sequence[str] | None = None,
    row_weights: ArrayLike | None = None,
    points: int = 0,
    prior: object = None,
) -> Table:
    r"""Evaluate every member on every simulation: :math:`\log q_k(\theta_n \mid y_n)`, and draws from it.

    By default only statistics of the draws are kept: ranks of the true parameters, means, covariances and
    quantiles. Rows are evaluated in small blocks, so memory does not grow with ``draws``. The result depends on
    the members, the simulations, ``draws`` and ``seed`` only: not on ``chunk``, ``workers``, ``threads``,
    ``client`` or interruptions.

    A member that raises, hangs, changes its arguments in place, returns draws that are not finite or has none in
    the prior's support is left out with a warning, and the others are tabulated; ``table.left_out`` has the
    reasons. Likelihoods that share points with one that hangs or ends its process are tabulated without it: of
    these, the one whose single call took longest is held to hang. Members may have different statistics (MCMC
    draws have no density): what one cannot give is NaN in its rows of the table (:meth:`drystone.Table.has`), as a
    warning says before the first row is computed.

    Args:
        members: Posteriors by name, or a sequence of them, such as an :class:`~drystone.Ensemble`. A member has
            ``log_prob(theta, y)``, ``sample(n, y)`` or both; :mod:`drystone.adapters` wraps those of other
            libraries.
        theta: True parameters of simulations that no member was trained on, (N, d).
        y: Data of the simulations, (N, ...). Members always get at least two axes: (N,) becomes (N, 1).
        draws: Draws per member and simulation; 0 for densities alone.
        keep_draws: Store the draws too (the energy score and sample aggregation need them): K·N·S·d numbers.
        levels: Levels of the quantiles. Intervals of a mixture need quantiles at several levels, or draws.
        seed: Seed of all draws.
        client: A Dask client, or an executor with ``submit``, to run the jobs instead of local processes.
        workers: Processes on this machine. With 1 and no time limit the work is done in this process, which a
            member that crashes takes with it.
        threads: Threads that share the rows where the work is done in this process, for members that several
            threads may call at once, as trained ones without an embedding are. Processes that can be stopped, of
            several workers, a time limit or a client, have one thread, so that the member that hangs is known.
        time_limit: Seconds that each member may take; one that takes longer is left out, and its process is killed
            with its children. With a ``client`` this is a process beside each worker.
        chunk: Rows per job of a worker.
        directory: Where finished parts and, in the end, ``table.zarr`` are written. The same call continues after
            a kill, and reads a finished table; a call with more members computes the added ones alone; one with
            other arguments raises :class:`~drystone.StaleError`. After a change of the members themselves use
            another directory. Memory then holds one member's rows at a time, and
            a table of more than 4 GiB stays on disk (:meth:`drystone.Table.open`).
        parameters: Names of θ; None for those of its columns, as in :class:`~drystone.Table`.
        row_weights: See :class:`~drystone.Table`.
        points: Shared points per row, drawn from the prior and the members, at which all densities are evaluated:
            :class:`~drystone.Product` and :class:`~drystone.LikelihoodMixture` are normalized there. K·N·points
            numbers; 0 for none, 1000 is a good choice.
        prior: p(θ) at the shared points, as for :func:`drystone.normalize`; None for that of normalized
            likelihoods, if there are any.

    Example:
        >>> import numpy as np
        >>> import drystone as ds
        >>> class Normal:
        ...     def __init__(self, shift): self.shift = shift
        ...     def log_prob(self, theta, y): return -((theta - y - self.shift) ** 2).sum(1)
        ...     def sample(self, n, y, seed):
        ...         noise = np.random.default_rng(seed).normal(size=(n, *y.shape))
        ...         return y + self.shift + noise / np.sqrt(2)
        >>> theta = np.random.default_rng(0).normal(size=(20, 2))
        >>> ds.tabulate({"left": Normal(-0.1), "right": Normal(0.2)}, theta, theta + 0.3)
        Table(K=2 members, N=20 simulations, d=2 parameters; gives interval, log_q, mean, moments, rank)
    """
    sizes: dict[str, int] = {}
    labelled = theta
    theta, y = np.array(checked("theta", theta, "Nd", sizes), float), rows_of_data("y", y)
    if len(y) != len(theta):
        raise ValueError(f"`y` must have one row per row of `theta`, {len(theta)}; got shape {y.shape}.")
    check_in_range("theta", theta)
    parameters = parameter_names(parameters, labelled, sizes["d"])
    weights = None if row_weights is None else scaled_weights(row_weights, len(theta))
    checked_members = _check_members(members, sizes["d"])
    names = list(checked_members)
    bad = rows_not_in_range(y)
    if any(member.needs_finite_y for member in checked_members.values()):
        if y.dtype.kind == "c":  # its imaginary part would be dropped
            raise TypeError(f"`y` must be real numbers; got dtype {y.dtype}.")
        if bad.size:
            raise ValueError(not_finite("y", bad, y))
    # Other members may be made for such rows; if one fails, they are the first thing to look at.
    data = f" {not_finite('y', bad, y)}" if bad.size else ""
    plan = Plan(
        as_integer("draws", draws, 0),
        _levels(levels),
        bool(keep_draws),
        as_integer("seed", seed, 0),
        _limit(time_limit),
        as_integer("points", points, 0),
        as_integer("threads", threads) if workers == 1 and time_limit is None and client is None else 1,
    )
    workers, chunk = as_integer("workers", workers), as_integer("chunk", chunk)
    if workers == 1 and plan.limit is None and client is None and Sharing(checked_members).any:
        chunk = min(chunk, SHARED_CHUNK * plan.threads)
    block = plan.block(sizes["d"]) if plan.draws else 1  # without draws no block has a random stream
    rows = -(-chunk // block) * block
    with working_in(directory):
        store: InMemoryParts | StoredParts = InMemoryParts(names, len(theta))
        if directory is not None:
            require("zarr", "files", "`directory`")
            at_points = prior_of(prior, list(checked_members.values())) if plan.points else None
            record = _record(names, plan, theta, y, parameters, weights, at_points)
            store = StoredParts(Path(directory), record, names, rows)
            if (table := store.finished()) is not None:
                if table.left_out:
                    _warn_of(table.left_out, len(names), " Remove table.* from the directory to try them again.")
                return table

        outcomes, finished = Outcomes(names), ()
        if store.earlier is not None:
            outcomes.add_finished(store.earlier, plan.statistics)
            finished = store.earlier.names
        remaining = {name: member for name, member in checked_members.items() if name not in finished}
        announced = _announce(remaining, plan)
        sharing = Sharing(remaining)

        def missing(names: Sequence[str]) -> Iterator[MemberJob]:
            """Yield the jobs of these members; no more of one that has failed, or is to be repeated."""
            for group in sharing.groups(names):
                for start, name in product(range(0, len(theta), rows), group):
                    if name in outcomes.failed or name in sharing.to_repeat:
                        continue
                    stretch = slice(start, start + rows)
                    member, without = sharing.members[name], sharing.without(name)
                    job = MemberJob(name, plan, start, theta[stretch], y[stretch], member, without)
                    part = store.find(job)
                    if part is None:
                        yield job
                    else:
                        outcomes.add(job, part)
                        progress.update(len(job.theta))

        with progress_bar(len(remaining) * len(theta), " rows") as progress:
            names_of_round = list(remaining)
            while names_of_round:
                jobs = missing(names_of_round)
                for job, part in tabulate_jobs(jobs, workers, client, stoppable=plan.limit is not None):
                    if job.name in sharing.to_repeat:
                        continue
                    if (failed := sharing.leave_out(job.name, part.during)) is not None:
                        for name in failed:
                            outcomes.fail(name, part.reason)
                        continue
                    if not part.reason:
                        store.add(job, part)
                    outcomes.add(job, part)
                    progress.update(len(job.theta))
                names_of_round = [name for name in sharing.begin_again() if name not in outcomes.failed]
                for name in names_of_round:
                    outcomes.forget(name)
                if names_of_round:
                    progress.reset(len(names_of_round) * len(theta))
        if not outcomes.names:
            raise RuntimeError(f"every member failed. {_reasons(outcomes.left_out)}{data}")
        if outcomes.failed:
            _warn_of(outcomes.left_out, len(names), data)
        if sharing.left_out:
            warnings.warn(
                f"the others are normalized without {first_few(sharing.left_out)}, which hung or ended its "
                "process and would again: before you use them, call ds.normalize without it as well.",
                stacklevel=2,
            )
        unforeseen = [
            name for name in outcomes.lacking.get("log_q", ()) if name in remaining and name not in announced
        ]
        if unforeseen:
            warnings.warn(f"the rows of {first_few(unforeseen)} are without `log_q`: {NO_DENSITY}", stacklevel=2)
        S, lacking = plan.draws if "rank" in outcomes.dtypes else None, outcomes.lacking
        shared = None
        if plan.points:
            usable = {name: sharing.members.get(name, checked_members[name]) for name in outcomes.names}
            usable = {name: member for name, member in usable.items() if member.has("log_prob")}
            shared = _shared_points(usable, prior, plan, theta, y, store, workers, client)
            if without := [name for name in outcomes.names if name not in usable]:
                lacking["log_f"] = without
        return store.table(
            TableHeader(
                theta,
                y,
                weights,
                outcomes.names,
                parameters,
                outcomes.dtypes,
                lacking,
                outcomes.left_out,
                S,
                shared,
            )
        )


def _shared_points(
    members: Mapping[str, CheckedMember],
    prior: object,
    plan: Plan,
    theta: np.ndarray,
    y: np.ndarray,
    store: InMemoryParts | StoredParts,
    workers: int,
    client: Executor | None,
) -> PointParts:
    """Draw the shared points, and evaluate the members there that an earlier table does not have."""
    earlier = store.earlier if store.earlier is not None and "points" in store.earlier.gives else None
    finished = () if earlier is None else earlier.names
    remaining = [member for name, member in members.items() if name not in finished]
    limit = None if plan.limit is None else plan.limit * max(1, len(remaining))  # of each of them, in one job
    jobs = list(
        point_jobs(
            remaining,
            prior_of(prior, list(members.values())),
            replace(plan, limit=limit),
            theta,
            y,
            earlier,
        )
    )
    found: dict[int, Part] = {}
    missing = []
    for job in jobs:
        part = store.find(job)
        if part is None:
            missing.append(job)
        else:
            found[job.start] = part
    with progress_bar(len(missing), " parts of shared points") as progress:
        for job, part in tabulate_jobs(missing, workers, client, stoppable=limit is not None):
            if part.reason:
                who = f"member {part.during!r} " if part.during else ""
                raise RuntimeError(
                    f"the shared points could not be evaluated: {who}{part.reason}. Leave that member out, or "
                    "give it a density of 0 (−inf) where it has none; what is finished in a directory is kept."
                )
            found[job.start] = part
            if not isinstance(store, InMemoryParts):
                store.add(job, part)
                found[job.start] = Part()
            progress.update()
    likelihoods = {name: member.normalized_in_y for name, member in members.items() if member.is_likelihood}
    parts = (_point_part(job, store.find(job) or found[job.start], earlier) for job in jobs)
    names = [*finished, *(member.name for member in remaining)]
    return PointParts(names, likelihoods, parts)


def _point_part(job: PointJob, part: Part, earlier: Table | None) -> tuple[int, Mapping[Key, np.ndarray]]:
    """Return a part of the shared points, with those of an earlier table."""
    if earlier is None:
        return job.start, part.statistics
    rows = earlier.select(rows=slice(job.start, job.start + len(job.theta)))
    known = {name: getattr(rows, name) for name in blocks.point_arrays(rows)}
    log_f = np.concatenate([rows.log_f.swapaxes(0, 1), part.statistics["log_f"]], 1)
    return job.start, {**known, "log_f": log_f}


def _announce(members: Mapping[str, CheckedMember], plan: Plan) -> set[str]:
    """Warn of what members cannot give, before the first row is computed, and return their names."""
    no_density = [name for name, member in members.items() if not member.has("log_prob")]
    no_draws = [name for name, member in members.items() if plan.draws and not member.has("sample")]
    neither = set(no_density) & set(no_draws)  # these fail
    for names, absent, meaning in (
        (no_density, "`log_q` (no `log_prob`)", NO_DENSITY),
        (no_draws, "ranks, moments and intervals (no `sample`)", NO_DRAWS),
    ):
        if lacking := [name for name in names if name not in neither]:
            warnings.warn(f"the rows of {first_few(lacking)} are without {absent}: {meaning}", stacklevel=3)
    return {*no_density, *no_draws}


def _record(
    names: Sequence[str],
    plan: Plan,
    theta: np.ndarray,
    y: np.ndarray,
    parameters: Sequence[str],
    row_weights: np.ndarray | None,
    prior: Any,
) -> Record:
    """Return the settings and inputs of the table; a prior is known by its density at theta."""
    settings = {
        "names": names,
        "draws": plan.draws,
        "levels": plan.levels,
        "keep_draws": plan.keep_draws,
        "seed": plan.seed,
        "parameters": parameters,
    }
    if plan.points:
        settings["points"] = plan.points
    weights = None if row_weights is None else digest_array(row_weights)
    inputs = {"theta": digest_array(theta), "y": digest_array(y), "row_weights": weights}
    if prior is not None:
        inputs["prior"] = digest_array(prior.log_prob(theta))
    return Record(settings, inputs)


def _check_members(
    members: Mapping[str, Density | Sampler] | Sequence[Density | Sampler], d: int
) -> dict[str, CheckedMember]:
    """Return checked members by name: the keys of a mapping, the names of an ensemble, or member_0 and so on."""
    if not isinstance(members, Mapping | Sequence):
        raise TypeError(
            "`members` must be a mapping of names to posteriors or a sequence of posteriors; "
            f"got {type(members).__name__}. For one posterior pass a list of one."
        )
    if isinstance(members, Mapping):
        pairs = [(str(name), member) for name, member in members.items()]
    else:
        names = getattr(members, "names", [f"member_{k}" for k in range(len(members))])
        pairs = list(zip(names, members, strict=True))
    if not pairs:
        raise ValueError("`members` is empty; expected at least one posterior.")
    unique_names("members", [name for name, _ in pairs], len(pairs), "member")
    if any(name == "" for name, _ in pairs):
        raise ValueError("names of `members` must not be empty; got ''.")
    return {name: CheckedMember(name, member, d) for name, member in pairs}


def _warn_of(failed: Mapping[str, str], K: int, hint: str = "") -> None:
    warnings.warn(f"{len(failed)} of {K} members are left out. {_reasons(failed)}{hint}", stacklevel=3)


def _reasons(failed: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in failed.items()) + "."


def _levels(levels: Sequence[float]) -> tuple[float, ...]:
    if not isinstance(levels, Sequence) or not all(0 < level < 1 for level in levels):
        raise ValueError(f"`levels` must be a sequence of numbers in (0, 1); got {levels!r}.")
    return tuple(sorted({level_key(level) for level in levels}))


def _limit(time_limit: float | None) -> float | None:
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"`time_limit` must be a positive number of seconds or None; got {time_limit}.")
    return None if time_limit is None or math.isinf(time_limit) else float(time_limit)
