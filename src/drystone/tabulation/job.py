"""Jobs over a range of rows; those of one member: densities, draws, and statistics of the draws."""

from __future__ import annotations

import os
import time
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
import torch

from drystone._arrays import seed_of
from drystone._parallel import one_thread, signals_watched
from drystone.adapters.member import CheckedMember
from drystone.errors import IntractableError
from drystone.table.statistics import Key, derive, keys_from_draws
from drystone.tabulation.weighted import of_weighted_points

__all__ = ["Job", "MemberJob", "Part", "Plan", "describe_error", "tabulate_rows", "too_slow"]

# Most rows, and most numbers, of one call of a member. Both change the result, since every block has its own
# random stream, so they are not arguments.
ROWS, NUMBERS = 50, 2_000_000
ROWS_WITHOUT_DRAWS = 1000

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    """The statistics to compute for every member.

    Attributes:
        draws: draws per row; 0 for densities alone.
        levels: levels of the quantiles.
        keep_draws: whether the draws themselves are part of the result.
        seed: seed of all draws.
        limit: most seconds per member, or None.
        points: shared points per row; 0 for none.
        threads: threads that share the blocks of a job.
    """

    draws: int
    levels: tuple[float, ...]
    keep_draws: bool
    seed: int
    limit: float | None
    points: int = 0
    threads: int = 1

    @property
    def statistics(self) -> tuple[Key, ...]:
        """The statistics, by the table's keys."""
        draws = ("draws",) if self.draws and self.keep_draws else ()
        return ("log_q", *(keys_from_draws(self.draws, self.levels)), *draws, "effective", "pareto", "width")

    def block(self, d: int) -> int:
        """Return the rows per block: few enough that the draws of a block fit in memory."""
        return max(1, min(ROWS, NUMBERS // (self.draws * d))) if self.draws else ROWS_WITHOUT_DRAWS


@dataclass(frozen=True, eq=False)
class Job(ABC):
    """What is computed on a range of rows, in one go, and stored as one part.

    Attributes:
        name: the member's name; '' for what is of all members.
        plan: the statistics to compute.
        start: index of the first row.
        theta: true parameters of the rows, (n, d).
        y: data of the rows, (n, ...).
    """

    name: str
    plan: Plan
    start: int
    theta: np.ndarray
    y: np.ndarray

    @property
    @abstractmethod
    def label(self) -> str:
        """Tells its part from those of other jobs on the same rows."""

    @abstractmethod
    def evaluate(self, rows: slice) -> dict[Key, np.ndarray]:
        """Return the statistics of a block of rows."""


@dataclass(frozen=True, eq=False)
class MemberJob(Job):
    """A member on rows from a multiple of the plan's block on.

    Attributes:
        member: the member.
        without: likelihoods that shared its points and hung or died, so that its points are now found without.
    """

    member: CheckedMember
    without: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The name of the member, and those that it does without."""
        return "/without/".join([self.name, *self.without])

    def evaluate(self, rows: slice) -> dict[Key, np.ndarray]:
        """Return the statistics that the member has, for one block of rows."""
        member, plan, theta, y = self.member, self.plan, self.theta[rows], self.y[rows]
        statistics: dict[Key, np.ndarray] = {}
        missing: list[IntractableError] = []
        try:
            statistics["log_q"] = member.log_prob(theta, y)
        except IntractableError as error:
            missing.append(error)
        if plan.draws:
            try:
                statistics |= self._from_draws(rows)
            except IntractableError as error:
                missing.append(error)
        if not statistics:
            raise missing[0]
        if member.is_likelihood:
            normalization = cast(Any, member.posterior).report(y, theta)
            statistics["effective"], statistics["pareto"] = normalization.effective, normalization.shape
            statistics["width"] = normalization.width
        return statistics

    def _from_draws(self, rows: slice) -> dict[Key, np.ndarray]:
        """Return the statistics of draws, or of the weighted points of members that have them."""
        plan, theta, y = self.plan, self.theta[rows], self.y[rows]
        if self.member.is_likelihood and not plan.keep_draws:
            points = cast(Any, self.member.posterior).weighted_points(y)
            return of_weighted_points(theta, points, plan.levels)
        draws = self.member.sample(plan.draws, y, self._seed(rows.start))
        return _statistics(theta, np.ascontiguousarray(draws.swapaxes(0, 1)), plan)

    def _seed(self, first: int) -> int:
        """Return the seed of this member, by name, and this block: it depends on no other member and no worker."""
        key = (zlib.crc32(self.name.encode()), self.start + first)
        return seed_of(np.random.SeedSequence(self.plan.seed, spawn_key=key))


@dataclass(frozen=True, eq=False)
class Part:
    """The result of a job.

    Attributes:
        statistics: arrays (n, ...) by the table's keys: ``log_q``, ``rank``, ``mean``, ``cov``, ``draws``, levels.
        reason: reason of the member's failure; '' if it did not fail.
        seconds: duration of the job.
        during: whose code ran when the process of the job hung or died, if that is known.
    """

    statistics: Mapping[Key, np.ndarray] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0
    during: str = ""


def tabulate_rows(job: Job) -> Part:
    """Evaluate the rows of a job block by block; workers run this function.

    Whatever the member raises, also ``SystemExit`` or ``KeyboardInterrupt``, is in the part; only signals to this
    process get through.
    """
    start, process = time.monotonic(), os.getpid()
    with signals_watched() as reraise, one_thread(), _settings_restored():
        try:
            statistics, reason = _tabulate_blocks(job, start)
        except BaseException as error:
            statistics, reason = {}, describe_error(error)
        finally:
            if os.getpid() != process:  # a copy that the member forked
                os._exit(0)
    reraise()
    return Part(statistics, reason, seconds=time.monotonic() - start)


def _tabulate_blocks(job: Job, start: float) -> tuple[dict[Key, np.ndarray], str]:
    """Return the statistics of all blocks and '', or nothing and a reason if the time is up."""
    size = job.plan.block(job.theta.shape[1])

    def evaluate(first: int) -> dict[Key, np.ndarray] | None:
        if job.plan.limit is not None and time.monotonic() - start > job.plan.limit:
            return None
        return job.evaluate(slice(first, first + size))

    blocks = []
    for block in _mapped(evaluate, range(0, len(job.theta), size), job.plan.threads):
        if block is None:
            assert job.plan.limit is not None
            return {}, too_slow(job.plan.limit)
        blocks.append(block)
    # A statistic that is missing in some blocks is left out.
    common = [key for key in blocks[0] if all(key in block for block in blocks)]
    return {key: np.concatenate([block[key] for block in blocks]) for key in common}, ""


def _mapped(function: Callable[[int], T], items: Sequence[int], threads: int) -> Iterator[T]:
    """Yield the function of each item, in order; threads take the items in turn."""
    if threads == 1 or len(items) == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(min(threads, len(items))) as pool:
        yield from pool.map(function, items)


@contextmanager
def _settings_restored() -> Iterator[None]:
    """Undo what a member sets for the whole process, which it shares with other members."""
    dtype, directory = torch.get_default_dtype(), os.open(".", os.O_RDONLY)
    try:
        with np.errstate(), torch.set_grad_enabled(torch.is_grad_enabled()):
            yield
    finally:
        torch.set_default_dtype(dtype)
        with suppress(OSError):  # the member has closed the descriptor
            os.fchdir(directory)
            os.close(directory)


def describe_error(error: BaseException) -> str:
    """Return the type and message of an error in one line."""
    try:
        message = str(error).partition("\n")[0][:300]
    except Exception:  # the message of a member's own error may raise another
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def too_slow(limit: float) -> str:
    """Return the reason of a member that exceeded the time limit."""
    return f"took longer than the time limit of {limit:g} s"


def _statistics(theta: np.ndarray, draws: np.ndarray, plan: Plan) -> dict[Key, np.ndarray]:
    """Return the statistics of draws (n, S, d)."""
    if not np.isfinite(draws).all():
        raise ValueError(f"{(~np.isfinite(draws)).any(-1).mean():.2%} of the draws are not finite.")
    statistics: dict[Key, np.ndarray] = {
        key: derive(key, draws, theta) for key in keys_from_draws(plan.draws, plan.levels)
    }
    return {**statistics, "draws": draws} if plan.keep_draws else statistics
