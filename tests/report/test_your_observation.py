"""The report's section on the reader's own observation."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import drystone as ds
from drystone.plots.palette import method_styles
from drystone.plots.posterior import draw_pairs


@pytest.fixture(scope="module")
def inputs():
    validation, test = ds.toy.table(200, seed=1), ds.toy.table(300, seed=2)
    fit = ds.stack(validation)
    return validation, test, fit, fit.posterior(ds.toy.MEMBERS, reference=test)


def page(inputs, tmp_path, here):
    validation, test, fit, _ = inputs
    path = ds.report.write(tmp_path / "report.html", validation=validation, test=test, fits=fit, at=here)
    return path.read_text(encoding="utf-8")


def simulator(theta, rng):
    return rng.normal(0.9 * theta, 0.9**0.5)


def test_the_page_begins_with_four_questions_and_their_answers(inputs, tmp_path):
    here = inputs[3].at([1.5], simulator=simulator, draws=2000)
    text = page(inputs, tmp_path, here)
    assert text.index('id="observation"') < text.index('id="verdict"')
    assert '<a href="#observation">Your observation</a>' in text
    for question in (
        "Is it like the simulations?",
        "Do the members agree",
        "whatever the networks do?",
        "look like",
    ):
        assert question in text
    assert "Nothing speaks against this posterior at your observation." in text
    assert str(here.predictive) in text
    assert "Estimates at your observation" in text


def test_an_observation_from_elsewhere_is_an_alarm(inputs, tmp_path):
    text = page(inputs, tmp_path, inputs[3].at([80.0], draws=500))
    assert "There are reasons not to believe this posterior" in text
    assert "which yours is not" in text
    assert "there is no simulator" in text


def test_without_a_reference_it_says_what_was_not_checked(inputs, tmp_path):
    here = inputs[2].posterior(ds.toy.MEMBERS).at([1.5], draws=500)
    text = page(inputs, tmp_path, here)
    assert "Nothing was checked at your observation." in text
    assert "fit.posterior(members, reference=table)" in text


def test_without_an_observation_there_is_no_such_section(inputs, tmp_path):
    text = page(inputs, tmp_path, None)
    assert 'id="observation"' not in text
    assert "A nat measures information" in text
    assert "the weights, not the posterior" in text


@pytest.mark.parametrize(("sd", "offered"), [(0.6, True), (1.0, False)])
def test_recalibration_is_offered_only_where_it_wins(sd, offered, tmp_path):
    members = {"a": ds.toy.Gaussian(0.0, sd)}
    tables = [
        ds.tabulate(members, *ds.toy.simulate(800, seed), draws=100, parameters=["theta"]) for seed in (1, 2)
    ]
    validation, test = tables
    path = ds.report.write(tmp_path / "r.html", validation=validation, test=test, fits=ds.stack(validation))
    assert ("Recalibration would help" in path.read_text("utf-8")) == offered


def test_curves_keep_to_the_bounds_of_the_prior():
    draws = np.random.default_rng(0).random((20_000, 1))
    heights = {}
    for bounds in (None, np.array([[0.0, 1.0]])):
        axes = np.array([[Figure().subplots()]])
        draw_pairs(axes, {"uniform": draws[None]}, ["a"], None, method_styles(()), bounds)
        heights[bounds is None] = axes[0, 0].lines[0].get_ydata()[[0, 36, -1]]
        assert bounds is None or axes[0, 0].get_xlim() == (0.0, 1.0)
    assert heights[False] == pytest.approx([1, 1, 1], abs=0.15)
    assert heights[True][0] < 0.5


def test_bounds_are_those_of_the_members_prior():
    class Bounded(ds.toy.Gaussian):
        prior = ds.tasks.Uniform([-2.0], [3.0])

    fit = ds.Stacking.single(["a"], 0, parameters=["theta"])
    np.testing.assert_array_equal(fit.posterior([Bounded(0.0, 1.0)]).at([0.0], draws=10).bounds, [[-2.0, 3.0]])
    assert fit.posterior([ds.toy.MEMBERS["left"]]).bounds is None


def test_names_of_members_are_text(tmp_path):
    name = "<script>alert(1)</script>"
    theta, y = ds.toy.simulate(60, 1)
    members = {name: ds.toy.MEMBERS["left"], "b": ds.toy.MEMBERS["right"]}
    table = ds.tabulate(members, theta, y, draws=20, parameters=["theta"])
    fit = ds.stack(table)
    here = fit.posterior(members, reference=table).at([0.0], draws=300)
    path = ds.report.write(tmp_path / "r.html", validation=table, test=table, fits=fit, at=here)
    assert name not in path.read_text(encoding="utf-8")
