"""The page: everything it shows, and its rendering into one string of HTML."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from importlib.resources import files

import jinja2
from markupsafe import Markup

from drystone.report import palette
from drystone.report.chart import Figure
from drystone.report.fits import Certificate
from drystone.report.metric_tables import MetricTable
from drystone.report.provenance import Provenance
from drystone.report.tables import Grid
from drystone.report.verdict import Tile, Verdict
from drystone.table import Table

__all__ = ["Page", "render"]


@dataclass(frozen=True)
class Page:
    """What the template prints. Text is text: the template escapes all of it.

    Attributes:
        title: of the page.
        validation: the rows that were fitted.
        test: the rows that judge.
        verdict: the first sentence and its remarks.
        tiles: the numbers below it.
        alarms: what the reader must not miss.
        advice: what to do next.
        metric_tables: the comparison, one table per metric.
        skipped: metrics that are not there, and why.
        certificates: the fits.
        roster: the members.
        ranks: pictures of rank curves.
        coverage: pictures of coverage curves.
        background: what the grey curves are.
        pairs: pair plots.
        colours: names of the palette, by method.
        exact: whether the exact posterior is known.
        provenance: when, how, with what.
        notes: sentences of the user's own.
    """

    title: str
    validation: Table
    test: Table
    verdict: Verdict
    tiles: list[Tile]
    alarms: list[str]
    advice: tuple[str, ...]
    metric_tables: list[MetricTable]
    skipped: Mapping[str, str]
    certificates: list[Certificate]
    roster: Grid
    ranks: list[Figure]
    coverage: list[Figure]
    background: str
    pairs: list[Figure]
    colours: Mapping[str, str]
    exact: bool
    provenance: Provenance
    notes: tuple[str, ...]

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Anchors and names of the sections there are."""
        sections = {
            "verdict": ("Verdict", True),
            "advice": ("Advice", bool(self.advice)),
            "comparison": ("Comparison", True),
            "fits": ("Weights", True),
            "calibration": ("Calibration", bool(self.ranks)),
            "posteriors": ("Posteriors", bool(self.pairs)),
            "members": ("Members", True),
            "how": ("How it is computed", True),
            "provenance": ("Provenance", True),
        }
        return [(anchor, name) for anchor, (name, there) in sections.items() if there]

    @property
    def metrics(self) -> set[str]:
        """Names of the metrics that are shown, hence explained."""
        return {table.metric for table in self.metric_tables}


def render(page: Page) -> str:
    """The page as HTML, with its style sheet and script in it."""
    # Undefined names raise: a template never prints an empty place in silence.
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("drystone.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    script = _asset("report.js")
    return environment.get_template("page.html").render(
        {field.name: getattr(page, field.name) for field in fields(page)},
        contents=page.contents,
        metrics=page.metrics,
        palette=Markup(palette.css()),
        css=Markup(_asset("report.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _asset(name: str) -> str:
    return files("drystone.report").joinpath("templates", name).read_text(encoding="utf-8")
