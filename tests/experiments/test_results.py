"""The published results: the pages show what the files say, and nothing in the files is too good to be true."""

import json
import re

import pytest
from experiments.publish import FIGURES, PAGES, ROOT, filled, records, sections
from experiments.published import published

from experiments import experiment

RECORDS, SECTIONS = records(), sections()
TEXTS = {page: (ROOT / page).read_text() for page in PAGES}
BOARDS = [
    (name, task)
    for name in ("table2", "table2_fresh", "table4")
    if name in RECORDS
    for task in RECORDS[name].result["tasks"]
]
# By seed, and by number of simulations.
GAPS = [
    (name, task, part)
    for name in ("truth", "ablation")
    if name in RECORDS
    for task, parts in RECORDS[name].result["tasks"].items()
    for part in parts
]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_pages_show_the_results(name):
    shown = [
        found
        for text in TEXTS.values()
        for found in re.findall(rf"<!-- {name}:.*?-->\n(.*?)\n<!-- /{name} -->", text, re.DOTALL)
    ]
    assert shown == [SECTIONS[name]]


@pytest.mark.parametrize("name", RECORDS)
def test_results_are_full_runs_and_their_figures_are_there(name):
    record = RECORDS[name]
    assert record.name == name
    assert not record.quick
    json.dumps(record.result, allow_nan=False)  # readers other than Python's know no NaN
    for figure in experiment(name).figures:
        assert (FIGURES / f"{figure}.png").exists()


@pytest.mark.parametrize(("name", "task"), BOARDS)
def test_no_log_density_is_above_the_exact_posteriors(name, task):
    gap = RECORDS[name].result["tasks"][task]["exact"]["gap"]
    assert gap["value"] > -4 * gap["se"]


@pytest.mark.parametrize(("name", "task", "part"), GAPS)
def test_no_method_is_nearer_to_the_exact_posterior_than_that_itself(name, task, part):
    for method, gap in RECORDS[name].result["tasks"][task][part]["gap"].items():
        assert gap["value"] > -2 * gap["se"], method


@pytest.mark.parametrize(("name", "task"), [pair for pair in BOARDS if pair[0] == "table4"])
def test_stacked_spline_flows_have_a_higher_log_density_than_the_paper_prints(name, task):
    stacked = RECORDS[name].result["tasks"][task]["metrics"]["log density"]["stacked"]["value"]
    assert stacked > published("nsf", task, "log density")["stacked"].value


def test_tables_are_put_between_their_markers():
    text = "a\n<!-- x: made by y -->\nold\n<!-- /x -->\nb"
    assert filled(text, {"x": "new\nlines"}) == "a\n<!-- x: made by y -->\nnew\nlines\n<!-- /x -->\nb"


@pytest.mark.parametrize("link", re.findall(r"\]\((?!http)([^)#]+)", TEXTS["docs/paper.md"]))
def test_links_of_the_page_lead_somewhere(link):
    assert (ROOT / "docs" / link).exists()
