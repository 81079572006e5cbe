"""The comparison in plain words, also where stacking did not help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from drystone.comparison import BEST, LOG_DENSITY, RANK_DISTANCE, UNIFORM, Comparison, Metric
from drystone.diagnostics import Faults
from drystone.estimate import Estimate
from drystone.forms import Shares
from drystone.report.tables import bound, number, with_error
from drystone.stacking.result import Stacking
from drystone.table import Table

__all__ = ["ERRORS", "Tile", "Verdict", "tiles", "tone_of", "verdict"]

# A difference counts when it exceeds two of its standard errors: by chance that happens in about 5 % of runs.
ERRORS = 2.0
# A difference of this share of the value itself may be rounding, and does not count.
ROUNDING = 1e-12
# No posterior is better than the exact one in expectation, so an alarm that one is needs more.
IMPOSSIBLE = 4.0
# Faults of calibration that are listed at most.
FAULTS = 4
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
        tone: "better", "worse", "same" or "unknown" against the best member; "worse" if uniform weights win, and
            "mixed" if it would be "better", but the calibration is clearly worse.
        headline: one sentence.
        remarks: further sentences.
    """

    tone: str
    headline: str
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tile:
    """A number to remember: its label, the number, and its standard error or unit."""

    label: str
    value: str
    detail: str = ""


def tone_of(gain: Estimate, value: float = 0.0) -> str:
    """Return "better" or "worse" if a gain is over two standard errors from 0, else "same"; "unknown" for NaN.

    Args:
        gain: the difference of two values.
        value: one of the two: less than its rounding error is no gain.

    Example:
        >>> [tone_of(Estimate(gain, 0.02)) for gain in (0.12, -0.12, 0.03, float("inf"))]
        ['better', 'worse', 'same', 'better']
    """
    if np.isinf(gain.value):  # one of the two gives density 0 to a row, the other does not
        return "better" if gain.value > 0 else "worse"
    if np.isnan(gain.value) or np.isnan(gain.se):
        return "unknown"
    floor = ROUNDING * abs(value) if np.isfinite(value) else 0.0
    return "same" if abs(gain.value) <= max(ERRORS * gain.se, floor) else "better" if gain.value > 0 else "worse"


@dataclass(frozen=True)
class _Lead:
    """A fit by the first metric that it can be compared by; one that the prior is perfect by only if need be."""

    metric: Metric
    value: float
    gain: Estimate
    gain_over_uniform: Estimate

    @property
    def in_nats(self) -> bool:
        """Whether the metric is the log density."""
        return self.metric == LOG_DENSITY


def _lead(comparison: Comparison, name: str) -> _Lead | None:
    for result in sorted(comparison.results, key=lambda result: result.metric.score.calibration_only):
        line = result.methods.get(name)
        if line is not None and line.gain is not None and line.gain_over_uniform is not None:
            return _Lead(result.metric, line.value.value, line.gain, line.gain_over_uniform)
    return None


def verdict(
    comparison: Comparison, name: str, test: Table, gaps: Mapping[str, Estimate], faults: Faults | None = None
) -> Verdict:
    """Return the verdict on one fit.

    Args:
        comparison: with the fit.
        name: of the fit.
        test: the rows it was compared on.
        gaps: distances from the exact posterior by method, as :func:`~drystone.comparison.gap_to_exact` returns;
            empty if it is not known.
        faults: of the fit's calibration on the test rows, where it has ranks.
    """
    if test.K == 1:
        return Verdict("same", "There is one member, so there is nothing to stack.")
    subject = "Stacking" if len(comparison.fits) < 2 else f"Stacking by “{name}”"
    lead = _lead(comparison, name)
    if lead is None:
        return Verdict("unknown", f"{subject} cannot be compared by any metric that these tables give.")
    over_best = _clause(lead, lead.gain, f"the best of {test.K} members")
    over_uniform = _clause(lead, lead.gain_over_uniform, "uniform weights", verb_before=over_best.split()[0])
    headline = f"{subject} {over_best} and {over_uniform}"
    best, uniform = (tone_of(gain, lead.value) for gain in (lead.gain, lead.gain_over_uniform))
    tone = "worse" if uniform == "worse" else best
    remarks = [remark for remark in (OVER_BEST.get(best), OVER_UNIFORM.get(uniform)) if remark]
    if name in gaps and lead.in_nats:
        headline += f"; it is {with_error(gaps[name])} nats from the exact posterior"
        remarks += _on_exact(gaps[name], gaps[BEST], best)
    # A number is not parted from its error, nor from its unit.
    headline = headline.replace(" ± ", "\u00a0±\u00a0").replace(" nats", "\u00a0nats")
    calibration = _calibration_tone(comparison, name)
    if tone == "better" and calibration == "worse":
        tone = "mixed"
    return Verdict(tone, f"{headline}.", (*remarks, *_on_calibration(comparison, name, test, calibration, faults)))


def tiles(
    comparison: Comparison, name: str, fit: Stacking, contribution: Shares, gaps: Mapping[str, Estimate]
) -> list[Tile]:
    """Return the numbers of one fit to remember."""
    shown, lead = [], _lead(comparison, name)
    if lead is not None and len(fit.names) > 1:
        unit, of_metric = (" nats", "") if lead.in_nats else ("", f" in {lead.metric.name}")
        for gain, reference in ((lead.gain, "best member"), (lead.gain_over_uniform, "uniform weights")):
            shown.append(_tile(f"gain over {reference}{of_metric}", gain, unit, sign="+"))
    if name in gaps:
        shown.append(_tile("from the exact posterior", gaps[name], " nats"))
    shown.append(Tile("members that matter", str(np.count_nonzero(contribution.values)), f"of {len(fit.names)}"))
    if fit.gap is not None:
        label = "from the optimum, certified: the weights, not the posterior"
        shown.append(Tile(label, f"≤ {bound(fit.gap, 1)}"))
    return shown


def _tile(label: str, estimate: Estimate, unit: str, sign: str = "") -> Tile:
    if not np.isfinite(estimate.value):
        return Tile(label, with_error(estimate))
    size, error = with_error(estimate, sign).split(" ± ")
    if np.isnan(estimate.se):
        return Tile(label, size, f"{unit} ± unknown".strip())
    return Tile(label, size, f"± {error}{unit}")


def _clause(lead: _Lead, gain: Estimate, reference: str, verb_before: str = "") -> str:
    """Return the gain over a reference in words; without its verb if the clause before has the same."""
    in_nats = lead.in_nats
    metric, unit = ("", " nats") if in_nats else (f"the {lead.metric.name} ", "")
    tone = tone_of(gain, lead.value)
    if tone == "unknown":
        known = "" if np.isnan(gain.value) else f" ({with_error(gain, '+')}{unit})"
        return f"cannot be compared with {reference} by {lead.metric.name}{known}"
    if tone == "same":
        size = with_error(gain, "+")
        verb = "neither gains nor loses" if in_nats else f"leaves {metric}as it is"
        return f"{verb} against {reference} ({size}{unit})"
    verb = {True: ("gains", "loses"), False: ("improves", "worsens")}[in_nats][tone == "worse"]
    size = with_error(Estimate(abs(gain.value), gain.se)) if np.isfinite(gain.value) else "infinitely many"
    by = "" if in_nats else "by "
    amount = f"{by}{size}{unit} {'over' if tone == 'better' else 'against'} {reference}"
    return amount if verb == verb_before else f"{verb} {metric}{amount}"


def _on_exact(after: Estimate, before: Estimate, tone: str) -> list[str]:
    """Return the share of the way to the exact posterior that was gone; an alarm if it was more than all of it.

    Args:
        after: distance of the stack.
        before: distance of the best member.
        tone: of the gain over the best member.
    """
    if after.value < -IMPOSSIBLE * after.se:
        return [
            "That is better than exact, which cannot be: test rows were trained on, or a density lacks a Jacobian."
        ]
    if tone != "better" or tone_of(before) != "better" or not np.isfinite(before.value):
        return []
    gone = 1 - after.value / before.value
    return [f"This goes {gone:.0%} of the way from the best member to the exact posterior."]


def _calibration_tone(comparison: Comparison, name: str) -> str:
    """Return whether the ranks are clearly better or worse than those of the best member by them."""
    line = comparison.of(RANK_DISTANCE).methods.get(name) if RANK_DISTANCE in comparison else None
    return "unknown" if line is None or line.gain is None else tone_of(line.gain, line.value.value)


def _on_calibration(comparison: Comparison, name: str, test: Table, tone: str, faults: Faults | None) -> list[str]:
    """Return the calibration in a sentence or two: against the best member's, and what is wrong with it."""
    if RANK_DISTANCE not in comparison:
        return []
    result = comparison.of(RANK_DISTANCE)
    value = {method: number(line.value.value, 2) for method, line in result.methods.items()}
    if name not in value or result.floor is None:
        return []
    against = {
        "worse": "clearly worse than the best member’s",
        "better": "clearly better than the best member’s",
    }.get(tone, "not clearly different from the best member’s")
    sentence = (
        f"Calibration is {against}: the {RANK_DISTANCE.name} is {value[name]} ({value[BEST]} for the best member, "
        f"{value[UNIFORM]} for uniform weights); an exactly calibrated posterior has about "
        f"{number(result.floor, 2)} on {test.N} rows."
    )
    if faults is None:
        return [sentence]
    listed = [str(fault).replace(" ± ", "\u00a0±\u00a0") for fault in faults.clear]
    if not listed:
        return [f"{sentence} No parameter is clearly biased, too narrow or too wide."]
    more = "; …" if len(listed) > FAULTS else ""
    return [f"{sentence} In the stacked posterior {'; '.join(listed[:FAULTS])}{more}."]
