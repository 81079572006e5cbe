"""What can go wrong, by name. Messages say what was expected, what came, and what to do."""

__all__ = ["ConvergenceWarning", "IntractableError", "SamplingError", "StackingError"]


class StackingError(Exception):
    """Base class of Drystone's own errors."""


class IntractableError(StackingError, TypeError):
    """A form lacks what a score needs (a blank cell of the paper's Table 1), or a task has no likelihood."""


class SamplingError(StackingError, RuntimeError):
    """A member cannot be sampled: next to none of its draws are accepted, or its sampler gave up."""


class ConvergenceWarning(UserWarning):
    """A solver stopped before its tolerance was met; the result says by how much."""
