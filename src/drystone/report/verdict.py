"""What the numbers say, in plain words; also when they say that stacking did not help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from drystone.comparison import Comparison, Distances
from drystone.report.shares import Shares
from drystone.report.tables import bound, number, with_error
from drystone.stacking.result import Stacking
from drystone.table import Table

__all__ = ["Tile", "Verdict", "judge", "tiles", "verdict"]

# A difference counts when it exceeds two of its standard errors: by chance that happens in about 5 % of runs.
ERRORS = 2.0
# Nor does one count that rounding can make, as a share of the value itself.
ROUNDING = 1e-12
# The exact posterior cannot be beaten in expectation, so an alarm that it was needs more.
IMPOSSIBLE = 4.0
# Remarks on the gain over the best member and over uniform weights.
OVER_BEST = {
    "same": "By this measure the best member alone does as well.",
    "worse": "The best member alone does better; more validation simulations may help.",
}
OVER_UNIFORM = {
    "same": "Uniform weights do as well.",
    "worse": "Uniform weights do better than the fitted ones; more validation simulations may help.",
}


@dataclass(frozen=True)
class Verdict:
    """The first thing a reader sees.

    Attributes:
        tone: "better", "worse", "same" or "unknown" against the best member; "worse" if uniform weights win.
        headline: one sentence.
        remarks: further sentences.
    """

    tone: str
    headline: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tile:
    """A number to remember: what it is, itself, and its standard error or unit."""

    label: str
    value: str
    detail: str = ""


def judge(gain: float, se: float, value: float = 0.0) -> str:
    """Say "better" or "worse" if the gain is more than two standard errors from 0, else "same"; of NaN, "unknown".

    Args:
        gain: the difference.
        se: its standard error.
        value: one of the two that differ: less than its rounding error is no gain.

    Example:
        >>> judge(0.12, 0.02), judge(-0.12, 0.02), judge(0.03, 0.02), judge(float("inf"), float("nan"))
        ('better', 'worse', 'same', 'better')
    """
    if np.isinf(gain):  # one of the two gives density 0 to a row, the other does not
        return "better" if gain > 0 else "worse"
    if np.isnan(gain) or np.isnan(se):
        return "unknown"
    floor = ROUNDING * abs(value) if np.isfinite(value) else 0.0
    return "same" if abs(gain) <= max(ERRORS * se, floor) else "better" if gain > 0 else "worse"


def verdict(comparison: Comparison, name: str, test: Table, exact: Distances | None) -> Verdict:
    """The verdict on one fit by the first metric that can judge it: the log density, if there is one."""
    if test.K == 1:
        return Verdict("same", "There is one member, so there is nothing to stack.")
    subject = "Stacking" if len(comparison.fits) < 2 else f"Stacking by “{name}”"
    lead = _lead(comparison, name)
    if lead is None:
        return Verdict("unknown", f"{subject} cannot be judged by any metric that these tables give.")
    over_best = _clause(lead, "gain", f"the best of {test.K} members")
    over_uniform = _clause(lead, "gain_over_uniform", "uniform weights", verb_before=over_best.split()[0])
    headline = f"{subject} {over_best} and {over_uniform}"
    best = judge(lead["gain"], lead["gain_se"], lead["value"])
    uniform = judge(lead["gain_over_uniform"], lead["gain_over_uniform_se"], lead["value"])
    tone = "worse" if uniform == "worse" else best
    remarks = [remark for remark in (OVER_BEST.get(best), OVER_UNIFORM.get(uniform)) if remark]
    if exact is not None and lead["metric"] == "log density":
        distance = with_error(exact.stacked.value, exact.stacked.se)
        headline += f"; it is {distance} nats from the exact posterior"
        remarks += _on_exact(exact, best)
    # A number is not parted from its error, nor from its unit.
    headline = headline.replace(" ± ", "\u00a0±\u00a0").replace(" nats", "\u00a0nats")
    return Verdict(tone, f"{headline}.", (*remarks, *_on_ranks(comparison, name, test)))


def tiles(
    comparison: Comparison, name: str, fit: Stacking, contribution: Shares, exact: Distances | None
) -> list[Tile]:
    """The numbers of one fit that a reader takes away."""
    shown, lead = [], _lead(comparison, name)
    if lead is not None and len(fit.names) > 1:
        in_nats = lead["metric"] == "log density"
        unit, of_metric = (" nats", "") if in_nats else ("", f" in {lead['metric']}")
        for column, reference in (("gain", "best member"), ("gain_over_uniform", "uniform weights")):
            label = f"gain over {reference}{of_metric}"
            shown.append(_tile(label, lead[column], lead[f"{column}_se"], unit, sign="+"))
    if exact is not None:
        shown.append(_tile("from the exact posterior", exact.stacked.value, exact.stacked.se, " nats"))
    shown.append(Tile("members that matter", str(np.count_nonzero(contribution.values)), f"of {len(fit.names)}"))
    if fit.gap is not None:
        shown.append(Tile("from the optimal weights, certified", f"≤ {bound(fit.gap, 1)}"))
    return shown


def _lead(comparison: Comparison, name: str) -> dict[str, Any] | None:
    """The line of the first metric that judges the fit."""
    lines = comparison.frame.to_dict("records")
    return next((line for line in lines if line["method"] == name), None)


def _tile(label: str, value: float, se: float, unit: str, sign: str = "") -> Tile:
    if not np.isfinite(value):
        return Tile(label, number(value))
    size, error = with_error(value, se, sign).split(" ± ")
    if np.isnan(se):
        return Tile(label, size, f"{unit} ± unknown".strip())
    return Tile(label, size, f"± {error}{unit}")


def _clause(line: dict[str, Any], column: str, reference: str, verb_before: str = "") -> str:
    """What was gained over a reference; without its verb if the clause before has the same."""
    gain, se = line[column], line[f"{column}_se"]
    in_nats = line["metric"] == "log density"
    metric, unit = ("", " nats") if in_nats else (f"the {line['metric']} ", "")
    tone = judge(gain, se, line["value"])
    if tone == "unknown":
        known = "" if np.isnan(gain) else f" ({with_error(gain, se, '+')}{unit})"
        return f"cannot be compared with {reference} by {line['metric']}{known}"
    if tone == "same":
        size = with_error(gain, se, "+")
        verb = "neither gains nor loses" if in_nats else f"leaves {metric}as it is"
        return f"{verb} against {reference} ({size}{unit})"
    verb = {True: ("gains", "loses"), False: ("improves", "worsens")}[in_nats][tone == "worse"]
    size = with_error(abs(gain), se) if np.isfinite(gain) else "infinitely many"
    by = "" if in_nats else "by "
    amount = f"{by}{size}{unit} {'over' if tone == 'better' else 'against'} {reference}"
    return amount if verb == verb_before else f"{verb} {metric}{amount}"


def _on_exact(exact: Distances, tone: str) -> list[str]:
    """What share of the way to the exact posterior was gone; an alarm if it was more than all of it."""
    if exact.stacked.value < -IMPOSSIBLE * exact.stacked.se:
        return [
            "That is better than exact, which cannot be: test rows were trained on, or a density lacks a Jacobian."
        ]
    before, after = exact.best, exact.stacked
    if tone != "better" or judge(before.value, before.se) != "better" or not np.isfinite(before.value):
        return []
    gone = 1 - after.value / before.value
    return [f"This goes {gone:.0%} of the way from the best member to the exact posterior."]


def _on_ranks(comparison: Comparison, name: str, test: Table) -> list[str]:
    """Calibration in a sentence."""
    lines = [line for line in comparison.frame.to_dict("records") if line["metric"] == "rank distance D"]
    value = {line["method"]: number(line["value"], 2) for line in lines}
    if name not in value:
        return []
    return [
        f"Calibration: the rank distance D is {value[name]} ({value['best']} for the best member, "
        f"{value['uniform']} for uniform weights); an exactly calibrated posterior has about "
        f"{number(lines[0]['floor'], 2)} on {test.N} rows."
    ]
