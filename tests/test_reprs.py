"""What notebooks show of results: escaped names, the numbers of the result, and no page of arrays."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import drystone as ds


@pytest.fixture(scope="module")
def table():
    toy = ds.toy.table(200, seed=1)
    return ds.Table(
        toy.theta, toy.y, log_q=toy.log_q, draws=toy.draws, names=["<b>a</b>", "left", "narrow", "wide"]
    )


@pytest.fixture(scope="module")
def results(table):
    fit = ds.stack(table)
    theta, y = ds.toy.simulate(100)
    return {
        "Table": table,
        "Stacking": fit,
        "Comparison": ds.compare(table, table, fit),
        "Advice": ds.advise(fit, table, times=10, subsets=2),
        "Calibration": ds.diagnostics.rank_ecdf(table, {"fit": fit}),
        "Ensemble": ds.train(theta, y, members=2, epochs=1),
    }


@pytest.mark.parametrize("name", ["Table", "Stacking", "Comparison", "Advice", "Calibration", "Ensemble"])
def test_a_notebook_shows_a_short_page_without_markup_of_members_names_or_scripts(results, name):
    html = results[name]._repr_html_()
    assert "<b>a</b>" not in html
    assert "<script" not in html
    assert len(html) < 10_000
    assert len(repr(results[name])) < 5_000


def test_answers_print_as_sentences_and_not_as_arrays(table):
    posterior = ds.stack(table).posterior(dict(zip(table.names, ds.toy.MEMBERS.values(), strict=True)), table)
    here = posterior.at([1.5], draws=200)
    for answer in (here, here.in_distribution, here.disagreement, here.credible_set):
        assert repr(answer) == str(answer)
        assert "array(" not in repr(answer)


def test_weights_are_shown_heaviest_first(results):
    html, fit = results["Stacking"]._repr_html_(), results["Stacking"]
    shown = [f">{weight:.4f}<" for weight in sorted(fit.weights[fit.weights > 0], reverse=True)]
    places = [html.index(weight) for weight in shown]
    assert places == sorted(places)


def test_many_members_are_counted_not_listed():
    log_q = np.random.default_rng(0).normal(size=(50, 30))
    html = ds.Table(np.zeros((30, 1)), log_q=log_q)._repr_html_()
    assert html.count("<tr>") == 21
    assert "and 30 more" in html


def test_calibration_says_which_parameters_leave_the_band():
    table = ds.toy.table(2000, seed=1)
    said = str(ds.diagnostics.rank_ecdf(table, {"narrow": ds.Stacking.single(table.names, "narrow")}))
    assert "narrow: outside the band" in said


def test_a_comparison_is_one_table_with_a_heading_per_metric_and_words_in_backquotes_are_code(results):
    html, comparison = results["Comparison"]._repr_html_(), results["Comparison"]
    assert html.count("<table") == 1
    assert html.count("colspan") == len(comparison.results)
    assert "`" not in html
    assert ("<code>skipped</code>" in html) == bool(comparison.skipped)


def test_a_narrow_page_scrolls_a_table_and_breaks_no_number(results):
    html = results["Stacking"]._repr_html_()
    assert html.index("overflow-x:auto") < html.index("<table")
    assert all("white-space:nowrap" in cell for cell in re.findall(r"<td[^>]*>", html))


def test_bars_of_progress_show_in_a_notebook_and_not_in_a_file(monkeypatch, capsys):
    theta, y = ds.toy.simulate(50, seed=0)
    ds.tabulate(ds.toy.MEMBERS, theta, y, draws=5)
    assert capsys.readouterr().err == ""
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    ds.tabulate(ds.toy.MEMBERS, theta, y, draws=5)
    assert "200/200" in capsys.readouterr().err
    ds.simulate(ds.tasks.get("gaussian"), n=30, seed=0)
    assert "30/30" in capsys.readouterr().err
