"""A comparison on one screen: a line a method, a column a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from drystone.runs.evaluation import Judged

__all__ = ["screen"]

# Heading and format of each metric of `ds.compare`.
COLUMNS = {
    "log density": ("log density", "{:.3f}"),
    "rank distance D": ("rank D", "{:.5f}"),
    "90% coverage error": ("cov. error", "{:.1%}"),
    "energy score": ("energy", "{:.4f}"),
    "90% interval score": ("interval", "{:.4f}"),
}
LABEL, GAP, WIDTH = 22, 17, 12


def screen(judged: Judged) -> str:
    """The table; the best of each column in bold."""
    comparison, gaps, exact = judged.comparison, judged.gaps, judged.exact_mean
    values: dict[str, dict[str, float]] = {}
    better = {}
    for row in comparison.frame.to_dict("records"):
        values.setdefault(row["metric"], {})[row["method"]] = row["value"]
        better[row["metric"]] = min if row["better"] == "lower" else max
    shown = [metric for metric in COLUMNS if metric in values]
    K = len(next(iter(comparison.fits.values())).names)
    labels = {"best": f"best of {K} members", "uniform": "uniform weights"}
    labels |= {name: f"stacked: {name}" for name in comparison.fits}
    heading = f"{'':<{LABEL}}" + (f"{'nats from exact':>{GAP}}" if gaps else "")
    lines = [heading + "".join(f"{COLUMNS[metric][0]:>{WIDTH}}" for metric in shown)]
    if exact is not None:
        density = COLUMNS["log density"][1].format(exact)
        lines.append(f"{'exact posterior':<{LABEL}}{'0':>{GAP}}{density:>{WIDTH}}")
    for method, label in labels.items():
        gap = f"{gaps[method].value:.3f} ± {gaps[method].se:.3f}" if method in gaps else ""
        line = f"{label:<{LABEL}}" + (f"{gap:>{GAP}}" if gaps else "")
        for metric in shown:
            value = values[metric].get(method)
            text = "–" if value is None else COLUMNS[metric][1].format(value)
            leads = value == better[metric](values[metric].values())
            line += click.style(f"{text:>{WIDTH}}", bold=leads or None)
        lines.append(line)
    return "\n".join(lines)
