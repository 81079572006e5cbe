"""Errors and warnings. Their messages say what was expected, what came, and what to do."""

__all__ = [
    "ConvergenceWarning",
    "DamagedError",
    "IntractableError",
    "LockedError",
    "SamplingError",
    "StackingError",
    "StaleError",
]


class StackingError(Exception):
    """Base class of Drystone's own errors."""


class IntractableError(StackingError, TypeError):
    """A form lacks what a score needs (a blank cell of the paper's Table 1), or a task has no likelihood."""


class SamplingError(StackingError, RuntimeError):
    """A member cannot be sampled: next to none of its draws are accepted, or its sampler gave up."""


class DamagedError(StackingError, ValueError):
    """A file is not what was written: truncated, edited, exchanged, or a part of it is missing."""


class StaleError(StackingError, ValueError):
    """Files were made from other settings or other data than those of now, or were never finished."""


class LockedError(StackingError, RuntimeError):
    """Another process works in the directory."""


class ConvergenceWarning(UserWarning):
    """A solver stopped before its tolerance was met; the result says by how much."""
