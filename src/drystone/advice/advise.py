"""Advice on a stacking: members that matter or could go, whether more would help, and how it is calibrated."""

from __future__ import annotations

import time

from drystone.advice.bootstrap import bootstrap
from drystone.advice.calibration import cross_validated_faults
from drystone.advice.further import BATCH
from drystone.advice.gain import GREEDY, gain_curve, sizes
from drystone.advice.learning import FRACTIONS, learning_curve
from drystone.advice.redundancy import drop_one, duplicates
from drystone.advice.refit import fitted_part, problem_of
from drystone.advice.result import TAKES, Advice
from drystone.stacking.result import Stacking
from drystone.table import Table

__all__ = ["advise"]

# Random parts of the rows, of each size and fold, behind the learning curve.
REPEATS = 4


def advise(
    fit: Stacking,
    table: Table,
    *,
    more: int | None = None,
    times: int = 100,
    subsets: int = 20,
    folds: int = 5,
    seconds: float = 60.0,
    seed: int = 0,
) -> Advice:
    """Say which members matter or could go, how stable the weights are, whether more would help, what is at fault.

    Everything rests on refitting, by the solver of the fit: without a member, to bootstrap samples of the rows,
    to parts of members and rows, evaluated on held-out rows. A refit by log score takes milliseconds; where refits
    are slow, pieces are skipped and named.

    Args:
        fit: the stacking in question.
        table: the rows it was fitted to.
        more: number of further members to expect a gain of; None for as many again, or 16 if that is more.
        times: bootstrap refits.
        subsets: random orders in which members are added.
        folds: of cross-validations.
        seconds: processor time it may take, estimated from one refit: a piece that would exceed it is skipped. On
            a busy machine more time passes by the clock.
        seed: of everything random.

    Example:
        >>> import drystone as ds
        >>> table = ds.toy.table(400, seed=1)
        >>> advice = advise(ds.stack(table), table, times=20, subsets=4)
        >>> round(advice.effective_members, 1), advice.more_rows, list(advice.frame.index)[:2]
        (3.0, 'no', ['narrow', 'left'])
    """
    for name, value in (("times", times), ("subsets", subsets), ("folds", folds)):
        if value < 2:
            raise ValueError(f"`{name}` must be at least 2, for a standard error; got {value}.")
    if more is not None and more < 1:
        raise ValueError(f"`more` must be at least 1, a further member; got {more}.")
    if not isinstance(fit, Stacking) or not isinstance(table, Table):
        kinds = f"{type(fit).__name__} and {type(table).__name__}"
        raise TypeError(f"`fit` must be a Stacking and `table` a Table; got {kinds}. Give ds.advise(fit, table).")
    table = fitted_part(fit, table)
    problem = problem_of(fit, table, seed)
    K = table.K
    begun = time.thread_time()  # not the clock: a busy machine should not change which pieces are skipped
    whole = problem.solve()
    each = time.thread_time() - begun
    weights, used = whole.params.get("weights"), whole.form.active_members(whole.params)[0]

    skipped: dict[str, str] = {}
    spent = 0.0

    def affordable(piece: str, refits: float) -> bool:
        """Return whether there is time for so many refits of all members; if so it is spent."""
        nonlocal spent
        if spent + refits * each > seconds:
            skipped[piece] = f"{TAKES} about {max(1, refits * each):.0f} s"
            return False
        spent += refits * each
        return True

    dropped = resampled = learning = curve = faults = None
    if K == 1:
        skipped["drop-one losses"] = "there is only one"
    elif affordable("drop-one losses", len(used)):
        dropped = drop_one(problem, whole)
    if weights is None:
        skipped["the bootstrap of the weights"] = f"{type(fit.form).__name__} has no single set of weights"
    elif affordable("the bootstrap of the weights", times):
        resampled = bootstrap(problem, weights, times=times, seed=seed)
    if affordable("the learning curve", folds * (1 + REPEATS * (len(FRACTIONS) - 1))):
        learning = learning_curve(problem, repeats=REPEATS, folds=folds, seed=seed)
    more = max(K, BATCH) if more is None else more
    # Subsets of m members count as m / K of a refit.
    per_fold = 1 + subsets * sizes(K, more)[:-1].sum() / K + GREEDY**2 / 2 / K
    if affordable("the gain curve", folds * per_fold):
        curve = gain_curve(problem, more=more, subsets=subsets, folds=folds, seed=seed)
    if "rank" not in fit.form.gives:
        skipped["calibration"] = f"{type(fit.form).__name__} has no ranks"
    elif fit.form.requires("rank") not in table.gives:
        skipped["calibration"] = "the table has no ranks; tabulate with draws"
    elif affordable("calibration", folds):
        faults = cross_validated_faults(problem, table, folds=folds, seed=seed)
    same = duplicates(problem.table)
    return Advice(fit, table.N, table.names, weights, dropped, same, resampled, curve, learning, faults, skipped)
