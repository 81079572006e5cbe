"""What stands in the file, for all kinds of tables and fits."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import drystone as ds
from drystone.cli.report_of_run import _members
from drystone.comparison import LOG_DENSITY
from drystone.plots.palette import method_styles
from drystone.report.fits import certificate
from drystone.report.tables import Cell, cell, number
from drystone.runs.config import Config
from helpers.report_inputs import gaussians, halves, written
from helpers.tables import make_table

EVIL = "<script>alert(1)</script>"
QUOTES = '"\' onmouseover=alert(2) x="'
VOID = {"meta", "path", "circle", "input", "br", "link", "img"}


class FakeEnsemble(tuple):
    """An ensemble of names."""

    names = property(tuple)
    frame = property(pd.DataFrame)


class Outline(HTMLParser):
    """Tags, attributes and text of a page; unbalanced tags raise."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.ids, self.text = [], [], [], []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def said(self):
        return re.sub(r"\s+", " ", " ".join(self.text).replace("\u00a0", " "))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report with everything in it."""
    validation, test, exact = gaussians(K=6, N=300)
    fits = {
        "log": ds.stack(validation),
        "log + rank": ds.stack(validation, score=ds.LogScore() + 3 * ds.RankCvM()),
    }
    members = pd.DataFrame(
        {"units": [31, 47, 59, 83, 12, 99], "family": "maf", "best_epoch": range(6)}, index=list(test.names)
    )
    html = written(
        tmp_path_factory.mktemp("report") / "report.html",
        validation,
        test,
        fits,
        members=members,
        exact=exact,
        advice=["Add members that differ."],
        title="Six Gaussians",
        command="drystone demo --members 6",
        notes=["Made on a Sunday."],
    )
    return html, Outline(html), validation, test, fits


def test_the_page_is_well_formed_and_its_ids_are_unique(page):
    _, outline, *_ = page
    assert len(set(outline.ids)) == len(outline.ids)


def test_everything_given_is_on_the_page(page):
    _, outline, validation, test, fits = page
    said = outline.said()
    for text in ("Six Gaussians", "drystone demo --members 6", "Made on a Sunday.", "Add members that differ."):
        assert text in said
    for text in (
        ds.__version__,
        np.__version__,
        "from the exact posterior",
        "best epoch",
        "LogScore() + 3*RankCvM()",
    ):
        assert text in said
    for name in (*test.names, *test.parameters, *fits):
        assert name in said
    assert f"{validation.N} validation and {test.N} test simulations" in said


def test_the_headline_has_the_numbers_of_the_comparison(page):
    _, outline, validation, test, fits = page
    line = ds.compare(validation, test, fits).of(LOG_DENSITY).methods["log"]
    assert f"gains {line.gain} nats over the best of 6 members" in outline.said()


def test_the_coefficient_and_value_of_each_term_is_shown(page):
    _, outline, _, test, fits = page
    fit = fits["log + rank"]
    for value in (3, *fit.terms.values(), *fit.evaluate(test).values()):
        assert number(float(value)) in outline.said()


def test_each_picture_has_a_text_and_its_numbers(page):
    html, outline, *_ = page
    pictures = [attrs for tag, attrs in outline.tags if tag == "svg" and attrs.get("role") == "img"]
    assert len(pictures) == 3 + 3 + 2  # ranks and coverage of three parameters, two observations
    assert all(len(attrs["aria-label"]) > 30 for attrs in pictures)
    assert html.count("Show the numbers") == len(pictures)


def test_links_within_the_page_lead_somewhere_and_there_are_no_others(page):
    _, outline, *_ = page
    links = [attrs["href"] for tag, attrs in outline.tags if tag == "a"]
    assert links
    assert {link[1:] for link in links} <= set(outline.ids)
    assert not any(tag in ("link", "img", "iframe") or "src" in attrs for tag, attrs in outline.tags)


def test_the_same_input_gives_the_same_file(tmp_path):
    validation, test, _ = gaussians()
    fit = ds.stack(validation)
    pages = [written(tmp_path / name, validation, test, fit) for name in "ab"]
    dateless = [re.sub(r"<time.*?</time>", "", html) for html in pages]
    assert dateless[0] == dateless[1]


def test_the_file_is_written_whole_or_not_at_all(tmp_path):
    validation, test, _ = gaussians()
    path = tmp_path / "report.html"
    path.write_text("old")
    with pytest.raises(ValueError, match="`exact` must hold"):
        written(path, validation, test, exact=[1.0])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_names_cannot_inject_markup(tmp_path):
    table = make_table(N=200)
    names = [EVIL, QUOTES, "a" * 300, "{{ 7 * 7 }}", "}</style><b>"]
    table = ds.Table(
        table.theta, log_q=table.log_q, draws=table.draws, names=names, parameters=[EVIL, "$\\beta$", QUOTES]
    )
    validation, test = halves(table)
    fit = ds.stack(validation)
    members = pd.DataFrame({EVIL: [EVIL] * 5}, index=names)
    html = written(
        tmp_path / "r.html",
        validation,
        test,
        {EVIL: fit, QUOTES: fit},
        members=members,
        title=EVIL,
        command=EVIL,
        notes=[EVIL],
        advice=[EVIL],
    )
    outline = Outline(html)
    assert [tag for tag, _ in outline.tags].count("script") == 1
    assert EVIL not in html
    assert not any("onmouseover" in attrs for _, attrs in outline.tags)
    assert {EVIL, QUOTES} <= {attrs.get("data-method") for tag, attrs in outline.tags if tag == "g"}
    assert "{{ 7 * 7 }}" in outline.said()
    assert "49" not in [text.strip() for text in outline.text]


def test_members_are_sorted_by_weight_and_carry_what_they_were_made_with(page):
    html, _, _, _, fits = page
    fit = fits["log"]
    table = html[html.index('id="member-table"') :]
    shown = re.findall(r'<th scope="row" class="name" data-key="(member_\d)"', table)
    weight = dict(zip(fit.names, fit.weights, strict=True))
    assert sorted(shown) == sorted(fit.names)
    assert [weight[name] for name in shown] == sorted(fit.weights, reverse=True)
    assert set(re.findall(r'data-key="(31|47|59|83|12|99)\.0"', table)) == {"31", "47", "59", "83", "12", "99"}


def test_a_frame_of_other_members_is_refused(tmp_path):
    validation, test, _ = gaussians()
    with pytest.raises(ValueError, match="`members` must be indexed by the members' names, such as 'member_0'"):
        written(tmp_path / "r.html", validation, test, members=pd.DataFrame({"units": [3, 4]}))


def test_there_must_be_a_fit(tmp_path):
    validation, test, _ = gaussians()
    with pytest.raises(ValueError, match="`fits` must hold at least one stacking"):
        written(tmp_path / "r.html", validation, test, {})


def test_a_single_member_is_reported(tmp_path):
    validation, test, _ = gaussians(K=1)
    assert "nothing to stack" in Outline(written(tmp_path / "r.html", validation, test)).said()


def test_densities_alone_give_a_report_that_names_what_is_missing(tmp_path):
    table = make_table(N=200)
    validation, test = halves(ds.Table(table.theta, log_q=table.log_q))
    outline = Outline(written(tmp_path / "r.html", validation, test))
    assert "Metrics that these tables cannot give:" in outline.said()
    assert "energy score: needs draws; the table gives log_q." in outline.said()
    assert not {"calibration", "posteriors"} & set(outline.ids)


def test_draws_alone_are_judged_by_what_they_give(tmp_path):
    table = make_table(N=200)
    validation, test = halves(ds.Table(table.theta, draws=table.draws))
    outline = Outline(written(tmp_path / "r.html", validation, test, ds.stack(validation, score=ds.EnergyScore())))
    assert "the rank distance D" in outline.said()
    assert "test log density" not in outline.said()


def test_one_draw_per_row_has_ranks_and_no_intervals(tmp_path):
    validation, test = ds.toy.table(100, seed=1, draws=1), ds.toy.table(100, seed=2, draws=1)
    outline = Outline(written(tmp_path / "r.html", validation, test, ds.stack(validation)))
    assert "calibration" in outline.ids


@pytest.mark.parametrize("d", [1, 14])
def test_few_and_many_parameters_are_reported(tmp_path, d):
    validation, test, _ = gaussians(d=d, N=120)
    outline = Outline(written(tmp_path / "r.html", validation, test))
    pictures = [attrs for tag, attrs in outline.tags if tag == "svg" and attrs.get("role") == "img"]
    assert len(pictures) == 2 * d + 2
    assert ("first 6 of 14 parameters" in outline.said()) == (d == 14)


def test_curves_of_many_members_are_limited_and_the_legend_says_so(tmp_path):
    validation, test, _ = gaussians(K=60, N=240, d=2)
    html = written(tmp_path / "r.html", validation, test)
    assert "40 heaviest of 60 members" in html
    behind = re.search(r'<g data-method="members">.*?d="([^"]*)"', html, re.DOTALL)
    assert behind is not None
    assert behind.group(1).count("M") == 40


def test_every_form_is_reported(tmp_path):
    validation, test, _ = gaussians(N=300)
    fits = {
        "local": ds.stack(validation, ds.LocalMixture(epochs=10)),
        "samples": ds.stack(validation, ds.SampleAggregation("diagonal"), ds.MeanScore()),
        "intervals": ds.stack(validation, ds.IntervalAggregation(), ds.IntervalScore()),
    }
    outline = Outline(written(tmp_path / "r.html", validation, test, fits))
    assert "largest entry of |W|" in outline.said()
    assert "largest |lower| + |upper|" in outline.said()


def test_a_fit_of_intervals_alone_is_judged_by_intervals(tmp_path):
    validation, test, _ = gaussians(N=300)
    fit = ds.stack(validation, ds.IntervalAggregation(), ds.IntervalScore())
    assert "the 90% interval score" in Outline(written(tmp_path / "r.html", validation, test, fit)).said()


@pytest.mark.filterwarnings("ignore:.*is NaN or infinite")  # the report says so itself
def test_densities_of_zero_and_nan_are_counted_by_member(tmp_path):
    table = make_table(N=200)
    log_q = table.log_q.copy()
    log_q[1, ::2], log_q[2, 1::4] = -np.inf, np.nan
    validation, test = halves(ds.Table(table.theta, log_q=log_q, draws=table.draws))
    outline = Outline(written(tmp_path / "r.html", validation, test, ds.stack(validation, nonfinite="drop")))
    zeros, nans = int((test.log_q[1] == -np.inf).sum()), int(np.isnan(test.log_q[2]).sum())
    assert f"−∞ (density 0 in {zeros} rows)" in outline.said()
    assert f"NaN in {nans} rows" in outline.said()
    assert "Left out of the fit: members 1 (member_2)." in outline.said()


@pytest.mark.filterwarnings("ignore:.*is NaN or infinite")  # the report says so itself
def test_a_member_whose_draws_are_broken_does_not_break_the_report(tmp_path):
    table = make_table(N=200)
    draws = np.array(table.draws)
    draws[3, ::2, :5] = np.nan
    validation, test = halves(ds.Table(table.theta, log_q=table.log_q, draws=draws))
    fit = ds.stack(validation, score=ds.LogScore() + ds.RankCvM(), nonfinite="drop")
    said = Outline(written(tmp_path / "r.html", validation, test, fit)).said()
    assert "Left out of the fit: members 1 (member_3)." in said


def test_members_with_different_statistics_are_in_one_report(tmp_path):
    table = make_table(N=200)
    log_q, draws = table.log_q.copy(), np.array(table.draws)
    log_q[1], draws[3] = np.nan, np.nan
    validation, test = halves(ds.Table(table.theta, log_q=log_q, draws=draws))
    fits = {"log": ds.stack(validation), "energy": ds.stack(validation, score=ds.EnergyScore())}
    said = Outline(written(tmp_path / "r.html", validation, test, fits)).said()
    assert "member_1 (no `log_q`)" in said
    assert "member_3 (no `draws`)" in said


def test_a_comparison_of_other_fits_is_refused(tmp_path):
    validation, test, _ = gaussians()
    fit = ds.stack(validation)
    other = ds.compare(validation, test, {"other": fit})
    with pytest.raises(ValueError, match=r"`comparison` does not have \['stacked'\]; it has"):
        written(tmp_path / "r.html", validation, test, fit, comparison=other)


def test_rows_that_no_member_explains_are_reported_without_a_verdict(tmp_path):
    table = make_table(N=200)
    log_q = table.log_q.copy()
    log_q[:, ::9] = -np.inf
    validation, test = halves(ds.Table(table.theta, log_q=log_q))
    said = Outline(written(tmp_path / "r.html", validation, test, ds.stack(validation, nonfinite="drop"))).said()
    assert "cannot be compared with the best of 5 members" in said


def test_what_did_not_converge_is_not_overlooked(tmp_path):
    validation, test, _ = gaussians()
    with pytest.warns(ds.ConvergenceWarning):
        fit = ds.stack(validation, solver=ds.solvers.SQP(steps=1), tol=1e-300)
    said = Outline(written(tmp_path / "r.html", validation, test, fit)).said()
    assert "“stacked” did not converge" in said
    assert "not converged" in said


def test_members_left_out_of_the_table_are_named(tmp_path):
    validation, test, _ = gaussians()
    left_out = {"maf-07": "it hung."}
    test = ds.Table(test.theta, log_q=test.log_q, names=test.names, left_out=left_out)
    assert (
        "Member maf-07 could not be tabulated: it hung."
        in Outline(written(tmp_path / "r.html", validation, test)).said()
    )


def test_advice_is_printed_sentence_by_sentence(tmp_path):
    validation, test, _ = gaussians()
    fit = ds.stack(validation)
    advice = ds.advise(fit, validation, times=5, subsets=2, folds=2)
    outline = Outline(written(tmp_path / "r.html", validation, test, fit, advice=advice))
    for line in str(advice).splitlines():
        assert re.sub(r"(?<= )-(?=\d)", "−", line.removeprefix("- ")) in outline.said()
    assert "by cross-validation on the validation simulations" in outline.said()


def test_advice_has_true_minuses_and_keeps_names(tmp_path):
    validation, test, _ = gaussians(d=1)
    said = Outline(written(tmp_path / "r.html", validation, test, advice=["Drop maf-2 (-0.12 or -3)."])).said()
    assert "Drop maf-2 (−0.12 or −3)." in said


def test_an_unknown_time_is_not_shown():
    validation, test, _ = gaussians(d=1)
    fit = replace(ds.stack(validation), seconds=float("nan"))
    assert "time" not in dict(certificate("log", fit, fit.shares(test), test, "fit-0").facts)


def test_the_look_of_pictures_does_not_depend_on_settings_of_matplotlib(tmp_path):
    validation, test, _ = gaussians(N=80, d=1)
    fit = ds.stack(validation)
    usual = written(tmp_path / "a.html", validation, test, fit)
    with mpl.rc_context({"axes.edgecolor": "pink", "axes.grid": True, "font.size": 30, "text.usetex": True}):
        changed = written(tmp_path / "b.html", validation, test, fit)
        assert mpl.rcParams["axes.edgecolor"] == "pink"
    pictures = [re.findall(r"<svg.*?</svg>", html, re.DOTALL) for html in (usual, changed)]
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("name", ["$\\frac$", "参数 θ̂", "a" * 200, "$"])
def test_parameters_may_be_called_anything(tmp_path, name):
    validation, test, _ = gaussians(N=80, d=1)
    validation, test = (
        ds.Table(table.theta, log_q=table.log_q, draws=table.draws, parameters=[name])
        for table in (validation, test)
    )
    said = Outline(written(tmp_path / "r.html", validation, test)).said()
    assert name[:30] in said


def test_a_fit_has_one_look_on_the_whole_page(tmp_path):
    validation, test, _ = gaussians(N=120, d=2)
    fit = ds.stack(validation)
    fits = {f"fit {i}": fit for i in range(8)}
    html = written(tmp_path / "r.html", validation, test, fits)
    for name, style in method_styles(fits).items():
        if name not in fits:
            continue
        curves = re.findall(rf'<g data-method="{name}">(.*?)</g>', html, re.DOTALL)
        assert len(curves) == 2 + 2 + 2 * 3  # ranks and coverage of two parameters, two pair plots of three panels
        assert all(f"stroke:var(--{style.name})" in curve for curve in curves)
        assert all(("stroke-dasharray" in curve) == bool(style.dashes) for curve in curves)
        key = re.search(rf'<h3><svg class="key"[^>]*><path style="([^"]*)"[^>]*></svg>{name}</h3>', html)
        assert key is not None
        assert f"stroke:var(--{style.name})" in key.group(1)
        assert ("stroke-dasharray" in key.group(1)) == bool(style.dashes)


def test_bars_have_the_color_of_their_fit(page):
    html, *_ = page
    assert "--bar:var(--bar-fit-0)" in html
    assert "--bar:var(--bar-fit-1)" in html


def test_members_of_other_names_are_not_those_of_the_table(tmp_path, monkeypatch):
    _, test, _ = gaussians(d=1)
    (tmp_path / "a.json").touch()
    run: Any = SimpleNamespace(members=tmp_path, likelihoods=tmp_path / "none")
    evaluation: Any = SimpleNamespace(test=test)
    for names, used in ((("a", "b"), False), ((*test.names, "more"), True)):
        ensemble = FakeEnsemble(names)
        monkeypatch.setattr(ds.Ensemble, "load", lambda _, loaded=ensemble: loaded)
        members, frame = _members(run, Config(), evaluation, trust=False)
        assert (members is not None) == (frame is not None) == used


@pytest.mark.parametrize(
    ("value", "text", "key"),
    [
        (True, "yes", "True"),
        (np.float32(0.5), "0.5", 0.5),
        (None, "–", None),
        (float("nan"), "–", None),
        ("relu", "relu", "relu"),
        (-0.00001234567, "−1.235×10⁻⁵", -0.00001234567),
        (float("-inf"), "−∞", float("-inf")),
    ],
)
def test_plain_values_become_cells(value, text, key):
    assert cell(value) == Cell(text, key)


def test_infinite_keys_are_numbers_to_a_script():
    assert [Cell("", key).sort_key for key in (float("-inf"), 2.5, None, "x")] == ["-Infinity", "2.5", "", "x"]


def test_the_code_of_the_documentation_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile("\n".join(blocks), "docs/report.md", "exec"), {})
    assert "y = 1.5" in Outline((tmp_path / "report.html").read_text(encoding="utf-8")).said()


def test_stackings_that_were_not_fitted_are_shown_beside_fits(tmp_path):
    validation, test = ds.toy.table(100, seed=1), ds.toy.table(100, seed=2)
    fits = {"stacked": ds.stack(validation), "narrow": ds.Stacking.single(validation.names, "narrow")}
    path = ds.report.write(tmp_path / "report.html", validation=validation, test=test, fits=fits)
    assert "Mixture() × LogScore()" in path.read_text(encoding="utf-8")


def test_the_best_by_log_density_stands_beside_the_best_by_each_metric(tmp_path):
    validation, test = ds.toy.table(400, seed=1), ds.toy.table(300, seed=2)
    text = ds.report.write(
        tmp_path / "report.html", validation=validation, test=test, fits=ds.stack(validation)
    ).read_text()
    assert f"best by log density ({ds.compare(validation, test).best})" in text
