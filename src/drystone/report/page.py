"""The page: everything it shows, and its rendering into one string of HTML."""

from __future__ import annotations

import base64
import hashlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from importlib.metadata import version
from importlib.resources import files

import jinja2
from markupsafe import Markup

from drystone import __version__
from drystone.plots.palette import Style
from drystone.report import theme
from drystone.report.fits import Certificate
from drystone.report.metric_tables import MetricTable
from drystone.report.pictures import Picture
from drystone.report.tables import Grid
from drystone.report.verdict import Tile, Verdict
from drystone.report.your_observation import YourObservation
from drystone.table import Table

__all__ = ["Page", "Provenance", "provenance", "render"]


@dataclass(frozen=True)
class Provenance:
    """The origin of a report.

    Attributes:
        date: ISO, to the minute, with its zone.
        command: the command line that made it.
        versions: (name, version) pairs.
    """

    date: str
    command: str
    versions: tuple[tuple[str, str], ...]


def provenance(command: str) -> Provenance:
    """Return the provenance of a report written now, by this process."""
    versions = {"drystone": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in ("numpy", "scipy", "torch")}
    versions["platform"] = f"{platform.system()} {platform.machine()}"
    now = datetime.now().astimezone()
    return Provenance(now.isoformat(timespec="minutes"), command, tuple(versions.items()))


@dataclass(frozen=True)
class Page:
    """All that the template prints. Text is text: the template escapes it; pictures escape their own.

    Attributes:
        title: of the page.
        at: the reader's own observation, or None.
        validation: the rows that were fitted.
        test: the rows that judge.
        untouched: whether nothing was fitted to these.
        verdict: the first sentence and its remarks.
        tiles: the numbers below it.
        alarms: what the reader must not miss.
        advice: what to do next.
        metric_tables: the comparison, one table per metric.
        skipped: metrics that are not there, and why.
        certificates: the fits.
        members_table: one line per member.
        ranks: pictures of rank curves.
        coverage: pictures of coverage curves.
        background: what the grey curves are.
        recalibration: on margins that a map of ranks would mend; empty if there are none.
        pairs: pair plots.
        styles: the look of each method.
        exact: whether the exact posterior is known.
        provenance: when, how, with what.
        notes: sentences of the user's own.
    """

    title: str
    at: YourObservation | None
    validation: Table
    test: Table
    untouched: bool
    verdict: Verdict
    tiles: list[Tile]
    alarms: list[str]
    advice: tuple[str, ...]
    metric_tables: list[MetricTable]
    skipped: Mapping[str, str]
    certificates: list[Certificate]
    members_table: Grid
    ranks: list[Picture]
    coverage: list[Picture]
    background: str
    recalibration: str
    pairs: list[Picture]
    styles: Mapping[str, Style]
    exact: bool
    provenance: Provenance
    notes: tuple[str, ...]

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Return anchors and names of the sections there are."""
        sections = {
            "observation": ("Your observation", self.at is not None),
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
        """Return names of the metrics that are shown, hence explained."""
        return {table.metric for table in self.metric_tables}


def render(page: Page) -> str:
    """Return the page as HTML, with its style sheet and script in it."""
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
        palette=Markup(theme.css()),
        css=Markup(_asset("report.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _asset(name: str) -> str:
    return files("drystone.report").joinpath("templates", name).read_text(encoding="utf-8")
