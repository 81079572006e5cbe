"""The published results: the pages show what the files say, and nothing in the files is too good to be true."""

import re
import runpy
from pathlib import Path

import pytest
from experiments.published import published

ROOT = Path(__file__).parents[2]
PUBLISH = runpy.run_path(str(ROOT / "experiments" / "publish.py"))
RECORDS = PUBLISH["records"]()
SECTIONS = PUBLISH["sections"]()
PAGES = {page: (ROOT / page).read_text() for page in PUBLISH["PAGES"]}
TABLES = [name for name in ("table1", "table2") if name in RECORDS]
BOARDS = [(name, task) for name in TABLES for task in RECORDS[name].result["tasks"]]


# The README has its table from the day on which the experiment has run.
@pytest.mark.parametrize("name", [name for name in SECTIONS if name != "paper" or "table2" in RECORDS])
def test_the_pages_show_the_results(name):
    shown = [
        found
        for text in PAGES.values()
        for found in re.findall(rf"<!-- {name}:.*?-->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    ]
    assert shown == [SECTIONS[name]]


@pytest.mark.parametrize("name", RECORDS)
def test_results_are_full_runs_and_their_figures_are_there(name):
    record = RECORDS[name]
    assert record.name == name
    assert not record.quick
    for figure in PUBLISH["experiment"](name).figures:
        assert (PUBLISH["FIGURES"] / f"{figure}.png").exists()


@pytest.mark.parametrize(("name", "task"), BOARDS)
def test_no_log_density_is_above_the_exact_posteriors(name, task):
    gap = RECORDS[name].result["tasks"][task]["exact"]["gap"]
    assert gap["value"] > -4 * gap["se"]


@pytest.mark.parametrize(("name", "task"), [pair for pair in BOARDS if pair[0] == "table2"])
def test_stacked_spline_flows_have_a_higher_log_density_than_the_paper_prints(name, task):
    stacked = RECORDS[name].result["tasks"][task]["metrics"]["log density"]["stacked"]["value"]
    printed = published("nsf", task, "log density", "stacked")
    assert printed is not None
    assert stacked > printed


def test_tables_are_put_between_their_markers():
    text = "a\n<!-- x: made by y -->\nold\n<!-- /x -->\nb"
    assert PUBLISH["filled"](text, {"x": "new\nlines"}) == "a\n<!-- x: made by y -->\nnew\nlines\n<!-- /x -->\nb"
