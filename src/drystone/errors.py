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
    """Base class of Drystone's own errors.

    Example:
        >>> import drystone as ds
        >>> try:
        ...     ds.stack(ds.toy.table(200, seed=1), ds.IntervalAggregation(), ds.LogScore())
        ... except ds.StackingError as error:
        ...     print(type(error).__name__)
        IntractableError
    """


class IntractableError(StackingError, TypeError):
    """A form lacks what a score needs (a blank cell of the paper's Table 1), or a task has no likelihood.

    Example:
        >>> import drystone as ds
        >>> try:
        ...     ds.stack(ds.toy.table(200, seed=1), ds.SampleAggregation(), ds.LogScore())
        ... except ds.IntractableError as error:
        ...     print(error)
        LogScore() needs `log_q`, which SampleAggregation does not give (...). Forms that do: Mixture(), ...
    """


class SamplingError(StackingError, RuntimeError):
    """A member cannot be sampled: next to none of its draws are accepted, or its sampler gave up.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(10)
        >>> member = ds.adapters.restrict(ds.toy.MEMBERS["right"], prior=([100.0], [101.0]))  # far from all draws
        >>> try:
        ...     member.sample(5, y, seed=1)
        ... except ds.SamplingError as error:
        ...     print(error)
        0 of ... draws lie within the prior's support at y = [0.3772] (and so at 10 of 10 rows). ...
    """


class DamagedError(StackingError, ValueError):
    """A file is not what was written: truncated, edited, exchanged, or a part of it is missing.

    Example:
        >>> import drystone as ds, pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "fit.json"
        >>> ds.stack(ds.toy.table(200, seed=1)).save(path)
        >>> _ = path.write_text(path.read_text().replace("right", "wrong"))
        >>> try:
        ...     ds.Stacking.load(path)
        ... except ds.DamagedError as error:
        ...     print(error)
        /...fit.json is damaged: its checksum differs from the recorded one. Make it again.
    """


class StaleError(StackingError, ValueError):
    """Files were made from other settings or other data than those of now, or were never finished.

    Example:
        >>> import drystone as ds, tempfile
        >>> task, directory = ds.tasks.get("gaussian"), tempfile.mkdtemp()
        >>> simulations = ds.simulate(task, n=100, seed=1, directory=directory)
        >>> try:
        ...     ds.simulate(task, n=100, seed=2, directory=directory)
        ... except ds.StaleError as error:
        ...     print(error)
        out of date: the simulations in ... (seed was 1 and is 2). Use another directory, or remove it.
    """


class LockedError(StackingError, RuntimeError):
    """Another process works in the directory.

    Example:
        >>> import drystone as ds, pathlib, tempfile
        >>> from drystone._files import locked
        >>> run = pathlib.Path(tempfile.mkdtemp())
        >>> with locked(run):  # by a command
        ...     try:
        ...         with locked(run):  # by another one, meanwhile
        ...             pass
        ...     except ds.LockedError as error:
        ...         print(error)
        /... is in use by process ... on ... since ...; wait until it has ended.
    """


class ConvergenceWarning(UserWarning):
    """A solver stopped before its tolerance was met; the result says by how much.

    Example:
        >>> import drystone as ds, warnings
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     fit = ds.stack(ds.toy.table(200, seed=1), solver=ds.solvers.Multiplicative(steps=5))
        >>> print(caught[0].category.__name__, caught[0].message)
        ConvergenceWarning Multiplicative(steps=5) stopped after 5 steps with gap 4.1e-02.
        >>> fit.converged
        False
    """
