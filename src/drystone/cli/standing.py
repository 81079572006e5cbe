"""A comparison on one screen: a line a method, a column a metric, and what it comes to in a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from drystone import Comparison
    from drystone.runs.exact import Nats

__all__ = ["screen", "verdict"]

# Heading and format of each metric of `ds.compare`; how much better a lower or a higher value is says the frame.
COLUMNS = {
    "log density": ("log density", "{:.3f}"),
    "rank distance D": ("rank D", "{:.5f}"),
    "90% coverage error": ("cov. error", "{:.1%}"),
    "energy score": ("energy", "{:.4f}"),
    "90% interval score": ("interval", "{:.4f}"),
}
LABEL, GAP, WIDTH = 22, 17, 12


def screen(comparison: Comparison, gaps: Mapping[str, Nats], exact: float | None = None) -> str:
    """The table; the best of each column in bold."""
    frame = comparison.frame
    shown = [metric for metric in COLUMNS if metric in set(frame["metric"])]
    K = len(next(iter(comparison.fits.values())).names)
    labels = {"best": f"best of {K} members", "uniform": "uniform weights"}
    labels |= {name: f"stacked: {name}" for name in comparison.fits}
    heading = f"{'':<{LABEL}}" + (f"{'nats from exact':>{GAP}}" if gaps else "")
    lines = [heading + "".join(f"{COLUMNS[metric][0]:>{WIDTH}}" for metric in shown)]
    if exact is not None:
        density = COLUMNS["log density"][1].format(exact)
        lines.append(f"{'exact posterior':<{LABEL}}{'0':>{GAP}}{density:>{WIDTH}}")
    for method, label in labels.items():
        of_method = frame[frame["method"] == method].set_index("metric")
        gap = f"{gaps[method].mean:.3f} ± {gaps[method].standard_error:.3f}" if method in gaps else ""
        line = f"{label:<{LABEL}}" + (f"{gap:>{GAP}}" if gaps else "")
        for metric in shown:
            column = frame[frame["metric"] == metric]
            winner = column["value"].min() if column["better"].iloc[0] == "lower" else column["value"].max()
            value = of_method["value"].get(metric)
            text = "–" if value is None else COLUMNS[metric][1].format(value)
            line += click.style(f"{text:>{WIDTH}}", bold=value == winner)
        lines.append(line)
    return "\n".join(lines)


def verdict(comparison: Comparison, gaps: Mapping[str, Nats]) -> str:
    """What stacking by the first fit has gained, in nats, and what is left to gain."""
    name = next(iter(comparison.fits))
    frame = comparison.frame
    row = frame[(frame["metric"] == "log density") & (frame["method"] == name)].iloc[0]
    K = len(comparison.fits[name].names)
    gain, error = row["gain"], row["gain_se"]
    verb = "gains" if gain > 2 * error else "loses" if gain < -2 * error else "changes nothing that can be seen:"
    sentence = f"Stacking {verb} {abs(gain):.2f} ± {error:.2f} nats over the best of {K} members"
    if name in gaps:
        sentence += f"; {gaps[name].mean:.2f} nats from the exact posterior are left"
    return sentence + "."
