"""What the numbers say, in plain words; also when they say that stacking did not help."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from drystone.compare import Comparison
from drystone.report.grid import number
from drystone.report.shares import Shares
from drystone.stacking import Stacking
from drystone.table import Table
from drystone.uncertain import plus_minus
from drystone.weighted import standard_error

__all__ = ["Distance", "Tile", "Verdict", "distance_to_exact", "judge", "tiles", "verdict"]

# A difference counts when it exceeds two of its standard errors: by chance that happens in about 5 % of runs.
ERRORS = 2.0
# The exact posterior cannot be beaten in expectation, so its bar for an alarm is higher.
IMPOSSIBLE = 4.0


@dataclass(frozen=True)
class Distance:
    r"""Mean of log p(θ_n|y_n) − log q(θ_n|y_n) over the test rows: an estimate of E KL(p ‖ q), in nats."""

    value: float
    se: float


@dataclass(frozen=True)
class Verdict:
    """The first thing a reader sees.

    Attributes:
        tone: "better", "worse", "same" or "unknown", against the best member.
        headline: one sentence.
        remarks: further sentences.
    """

    tone: str
    headline: str
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Tile:
    """A number to remember: what it is, itself, and its standard error or unit."""

    label: str
    value: str
    detail: str = ""


def judge(gain: float, se: float) -> str:
    """ "better", "worse" or "same" as the gain is beyond two standard errors of 0, or not; "unknown" for NaN.

    Example:
        >>> judge(0.12, 0.02), judge(-0.12, 0.02), judge(0.03, 0.02), judge(float("inf"), float("nan"))
        ('better', 'worse', 'same', 'better')
    """
    if np.isnan(gain) or (np.isnan(se) and np.isfinite(gain)):
        return "unknown"
    if np.isinf(gain):  # one of the two gives density 0 to a row, the other does not
        return "better" if gain > 0 else "worse"
    return "same" if abs(gain) <= ERRORS * se else "better" if gain > 0 else "worse"


def distance_to_exact(log_q: np.ndarray, exact: np.ndarray, test: Table) -> Distance:
    """How far a posterior is from the exact one on the test rows, paired."""
    with np.errstate(invalid="ignore"):
        rows = exact - log_q
        return Distance(float(test.row_weights @ rows), standard_error(rows, test.row_weights))


def verdict(comparison: Comparison, name: str, fit: Stacking, test: Table, exact: np.ndarray | None) -> Verdict:
    """The verdict on one fit by the first metric that can judge it (the log density, if there is one)."""
    of_fit = comparison.frame[comparison.frame["method"] == name]
    subject = "Stacking" if len(comparison.fits) < 2 else f"Stacking by “{name}”"
    if test.K == 1:
        return Verdict("same", "There is one member, so there is nothing to stack.", ())
    if of_fit.empty:
        return Verdict("unknown", f"{subject} cannot be judged by any metric that these tables give.", ())
    lead = of_fit.iloc[0]
    best = f"the best of {test.K} members"
    against_best = _clause(lead, "gain", best)
    against_uniform = _clause(lead, "gain_over_uniform", "uniform weights", after=against_best.split()[0])
    headline = f"{subject} {against_best} and {against_uniform}"
    remarks = []
    if lead["metric"] == "log density" and exact is not None:
        distance = distance_to_exact(fit.apply(test).log_q, exact, test)
        headline += f"; it is {plus_minus(distance.value, distance.se)} nats from the exact posterior"
        remarks += _about_exact(distance, lead, comparison, exact, test)
    tone = judge(lead["gain"], lead["gain_se"])
    if tone == "same":
        remarks.insert(0, "By this measure the best member alone does as well.")
    if tone == "worse":
        remarks.insert(0, "The best member alone does better; more validation simulations may help.")
    remarks += _about_ranks(comparison, name, test)
    # A number is not parted from its error, nor from its unit.
    unbroken = headline.replace(" ± ", "\u00a0±\u00a0").replace(" nats", "\u00a0nats")
    return Verdict(tone, f"{unbroken}.", tuple(remarks))


def tiles(
    comparison: Comparison, name: str, fit: Stacking, contribution: Shares, test: Table, exact: np.ndarray | None
) -> list[Tile]:
    """The numbers of one fit that a reader takes away."""
    of_fit = comparison.frame[comparison.frame["method"] == name]
    shown = []
    if not of_fit.empty:
        lead = of_fit.iloc[0]
        in_nats = lead["metric"] == "log density"
        unit = " nats" if in_nats else ""
        of_metric = "" if in_nats else f" in {lead['metric']}"
        for column, reference in (("gain", "best member"), ("gain_over_uniform", "uniform weights")):
            label = f"gain over {reference}{of_metric}"
            shown.append(_tile(label, lead[column], lead[f"{column}_se"], unit, sign="+"))
        if in_nats and exact is not None:
            distance = distance_to_exact(fit.apply(test).log_q, exact, test)
            shown.append(_tile("from the exact posterior", distance.value, distance.se, unit))
    carry = np.count_nonzero(contribution.values)
    shown.append(Tile("members that matter", str(carry), f"of {test.K}"))
    if fit.gap is not None:
        shown.append(Tile("from the optimal weights, certified", f"≤ {number(fit.gap, 1)}"))
    return shown


def _tile(label: str, value: float, se: float, unit: str, sign: str = "") -> Tile:
    if not np.isfinite(value):
        return Tile(label, number(value))
    size, error = plus_minus(value, se, sign).replace("-", "−").split(" ± ")
    return Tile(label, size, f"± {error}{unit}")


def _clause(line: pd.Series, column: str, reference: str, after: str = "") -> str:
    """What was gained over a reference; the verb is left out if the clause before has the same."""
    gain, se = float(line[column]), float(line[f"{column}_se"])
    in_nats = line["metric"] == "log density"
    metric = "" if in_nats else f"the {line['metric']} "
    unit = " nats" if in_nats else ""
    tone = judge(gain, se)
    if tone == "unknown":
        return f"cannot be compared with {reference} by {line['metric']}"
    if tone == "same":
        return f"neither gains nor loses {metric}against {reference} ({plus_minus(gain, se, '+')}{unit})"
    verb = ("gains" if gain > 0 else "loses") if in_nats else ("improves" if gain > 0 else "worsens")
    size = plus_minus(abs(gain), se) if np.isfinite(gain) else "infinitely many"
    by = "" if in_nats else "by "
    said = f"{size}{unit} {'over' if gain > 0 else 'against'} {reference}"
    return f"{by}{said}" if verb == after else f"{verb} {metric}{by}{said}"


def _about_exact(
    distance: Distance, lead: pd.Series, comparison: Comparison, exact: np.ndarray, test: Table
) -> list[str]:
    """What share of the way to the exact posterior was gone; an alarm if it was more than all of it."""
    if distance.value < -IMPOSSIBLE * distance.se:
        return [
            "That is better than exact, which cannot be: test rows were trained on, or a density lacks a Jacobian."
        ]
    best = comparison.frame.query("metric == 'log density' and method == 'best'").iloc[0]["member"]
    before = distance_to_exact(test.log_q[test.names.index(best)], exact, test)
    if judge(before.value, before.se) != "better" or judge(lead["gain"], lead["gain_se"]) != "better":
        return []
    if not np.isfinite(before.value):
        return []
    return [f"This goes {lead['gain'] / before.value:.0%} of the way from the best member to the exact posterior."]


def _about_ranks(comparison: Comparison, name: str, test: Table) -> list[str]:
    """Calibration in a sentence."""
    frame = comparison.frame
    ranks = frame[frame["metric"] == "rank distance D"].set_index("method")
    if name not in ranks.index:
        return []
    value = {method: number(float(ranks["value"][method]), 2) for method in (name, "best", "uniform")}
    floor = number(float(ranks["floor"].iloc[0]), 2)
    return [
        f"Calibration: the rank distance D is {value[name]} ({value['best']} for the best member, "
        f"{value['uniform']} for uniform weights); an exactly calibrated posterior has about {floor} "
        f"on {test.N} rows."
    ]
