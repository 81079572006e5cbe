"""Tests for drystone.plots: what is drawn, not how it looks."""

import importlib
import sys
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest

import drystone as ds
from drystone.advice import Further, GainCurve, WeightBootstrap
from drystone.estimate import Estimate
from drystone.plots.axes import short
from drystone.plots.palette import method_styles
from helpers.tables import make_table

plt.switch_backend("agg")

plots: Any = ds.plots  # matplotlib types its artists too loosely to ask them what they show


@pytest.fixture(autouse=True)
def close_figures():
    before = dict(plt.rcParams)
    yield
    plt.close("all")
    assert dict(plt.rcParams) == before  # nothing global is changed


@pytest.fixture(scope="module")
def tables():
    return make_table(seed=1, N=90), make_table(seed=2, N=80)


@pytest.fixture(scope="module")
def fits(tables):
    score = ds.LogScore() + 10 * ds.RankCvM()
    return {"log": ds.stack(tables[0]), "log + rank": ds.stack(tables[0], score=score)}


@pytest.fixture(scope="module")
def compared(tables, fits):
    return ds.compare(tables[0], tables[1], fits)


def line(ax, label):
    (found,) = [line for line in ax.lines if line.get_label() == label]
    return found


def labelled(ax):
    return bool(ax.get_xlabel()) and bool(ax.get_ylabel() or ax.get_yticklabels()[0].get_text())


# ── stacks ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_weights_are_bars_heaviest_first(fits):
    fit = fits["log"]
    ax = plots.weights(fit)
    drawn = [bar.get_width() for bar in ax.patches]
    np.testing.assert_allclose(drawn, np.sort(fit.weights[fit.weights > 0])[::-1])
    assert ax.get_yticklabels()[0].get_text() == fit.names[int(fit.weights.argmax())]
    assert "weight" in ax.get_xlabel()


def test_light_members_are_summed(fits):
    fit = fits["log"]
    ax = plots.weights(fit, most=1)
    rest = np.count_nonzero(fit.weights) - 1
    assert [label.get_text() for label in ax.get_yticklabels()][1] == f"{rest} more, together"
    assert ax.patches[1].get_width() == pytest.approx(1 - fit.weights.max())


def test_a_comparison_shows_values_and_standard_errors(compared):
    ax = plots.comparison(compared, "energy score")
    rows = compared.frame[compared.frame["metric"] == "energy score"].to_dict("records")
    for i, (row, container) in enumerate(zip(rows, ax.containers, strict=True)):
        ((x0, y), (x1, _)) = container.lines[2][0].get_segments()[0]
        assert (x1 - x0) / 2 == pytest.approx(row["se"])
        assert (x1 + x0) / 2 == pytest.approx(row["value"])
        assert y == i
    methods = [label.get_text() for label in ax.get_yticklabels()]
    assert methods[0].startswith("best (member_")
    assert methods[1:] == ["uniform", "log", "log + rank"]
    assert ax.get_xlabel() == "energy score\nlower is better; 80 test rows, ± 1 s.e."


def test_a_comparison_shows_gains_over_the_best(compared):
    ax = plots.comparison(compared, gain=True)
    rows = compared.frame[compared.frame["metric"] == "log density"].to_dict("records")[1:]
    drawn = [container.lines[0].get_xdata()[0] for container in ax.containers]
    np.testing.assert_allclose(drawn, [row["gain"] for row in rows])
    assert ax.get_xlabel().startswith("gain in log density over best (member_")


def test_unknown_metrics_are_named(compared):
    with pytest.raises(ValueError, match="unknown `metric` 'beauty'; the comparison has: log density"):
        plots.comparison(compared, "beauty")


def test_a_gain_curve_is_measured_from_the_best_member():
    curve = GainCurve(
        score="LogScore()",
        stacked=1.0,
        best=Estimate(1.5, 0.1),
        uniform=Estimate(1.7, 0.2),
        greedy_sizes=np.array([1, 2, 3]),
        greedy=np.array([1.5, 1.2, 1.05]),
        greedy_se=np.array([0.1, 0.05, 0.01]),
        random_sizes=np.array([1, 3, 6]),
        random=np.array([2.0, 1.6, 1.0]),
        random_se=np.array([0.2, 0.1, 0.0]),
        further=Further(6, np.linspace(0.1, 0.9, 9)),
    )
    ax = plots.gain_curve(curve)
    greedy = next(c for c in ax.containers if c.get_label() == "best member first")
    np.testing.assert_allclose(greedy.lines[0].get_ydata(), [0.0, 0.3, 0.45])
    np.testing.assert_allclose(line(ax, "all, uniform weights").get_ydata(), -0.2)
    assert [label.get_text() for label in ax.get_xticklabels()] == ["1", "3", "6"]
    assert labelled(ax)


def test_weight_stability_shows_intervals_of_those_who_ever_carry_weight():
    rng = np.random.default_rng(0)
    moved = rng.dirichlet([5, 9, 2], size=200)
    resampled = np.column_stack([moved, np.zeros(200)])
    bootstrap = WeightBootstrap(np.array([0.3, 0.6, 0.1, 0.0]), resampled, ("a", "b", "c", "never"))
    ax = plots.weight_stability(bootstrap)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b", "a", "c"]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), [0.6, 0.3, 0.1])
    ends = np.array([segment[:, 0] for segment in ax.collections[0].get_segments()])
    np.testing.assert_allclose(ends, bootstrap.interval(0.1)[[1, 0, 2]])


# ── calibration ──────────────────────────────────────────────────────────────────────────────────────────────


def test_rank_curves_are_less_the_diagonal(tables, fits):
    test = tables[1]
    ax = plots.rank_ecdf(test, fits, parameter="theta_1")
    found = ds.diagnostics.rank_ecdf(test, fits)
    for name in ("uniform", "log", "log + rank"):
        np.testing.assert_allclose(line(ax, name).get_ydata()[1:-1], found.methods[name][:, 1] - found.grid)
    members = line(ax, f"{test.K} members").get_ydata().reshape(test.K, -1)
    assert np.isnan(members[:, -1]).all()  # the gap after each
    np.testing.assert_allclose(members[3, 1:-2], found.members[3, :, 1] - found.grid)
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx((found.band.upper - found.grid).max())
    assert "theta_1" in ax.get_xlabel()
    assert ax.get_legend().get_texts()[0].get_text() == "95% band if exact"


def test_coverage_is_the_mean_over_parameters_unless_one_is_named(tables, fits):
    found = ds.diagnostics.coverage(tables[1], fits)
    mean = line(plots.coverage(tables[1], fits), "log").get_ydata()[1:-1]
    np.testing.assert_allclose(mean, found.methods["log"].mean(1))
    one = line(plots.coverage(tables[1], fits, -1), "log").get_ydata()[1:-1]
    np.testing.assert_allclose(one, found.methods["log"][:, 2])


def test_tarp_curves_are_drawn(tables, fits):
    ax = plots.tarp(tables[1], fits["log"], seed=3)
    found = ds.diagnostics.tarp(tables[1], fits["log"], seed=3)
    np.testing.assert_allclose(line(ax, "stacked").get_ydata()[1:-1], found.methods["stacked"][:, 0])
    assert labelled(ax)


@pytest.mark.parametrize(("method", "chosen"), [(None, "log"), ("uniform", "uniform"), ("member_2", "member_2")])
def test_rank_histograms_are_densities(tables, fits, method, chosen):
    ax = plots.rank_histogram(tables[1], fits, 1, method, bins=6)
    # 42 values of the ranks are six bins of seven: what the ECDF grows by in each.
    found = ds.diagnostics.rank_ecdf(tables[1], fits)
    curve = (found.members[2] if chosen == "member_2" else found.methods[chosen])[:, 1]
    expected = 6 * np.diff([0, *curve[6::7], 1])
    stairs = ax.patches[-1].get_data()
    np.testing.assert_allclose(stairs.values, expected)
    assert ax.get_xlabel() == f"rank of theta_1, {chosen}"


@pytest.mark.parametrize(("S", "count"), [(30, 20), (99, 20), (7, 8)])
def test_histograms_of_exact_posteriors_have_no_teeth(S, count):
    rng = np.random.default_rng(0)
    exact = ds.Table(rng.random((200_000, 1)), rank=np.zeros((1, 200_000, 1)))
    rank = rng.binomial(S, exact.theta) / S
    members = ds.diagnostics.Ranks(
        ((S * rank + 0.5) / (S + 1))[None], {}, ("exact",), ("theta_0",), exact.row_weights, S
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ds.diagnostics, "ranks", lambda table, fits: members)
        ax = plots.rank_histogram(exact, method="exact")
    values, edges, _ = ax.patches[-1].get_data()
    assert len(values) == count
    np.testing.assert_allclose((S + 1) * edges, np.round((S + 1) * edges), atol=1e-9)
    np.testing.assert_allclose(values, 1, atol=5 * np.sqrt(count * 2 / 200_000))


def test_without_fits_uniform_weights_are_shown(tables):
    assert plots.rank_histogram(tables[1]).get_xlabel() == "rank of theta_0, uniform"
    assert line(plots.rank_ecdf(tables[1]), "uniform") is not None


def test_unknown_names_are_named(tables):
    with pytest.raises(ValueError, match="unknown `parameter` 'H0'; known: theta_0, theta_1, theta_2"):
        plots.rank_ecdf(tables[1], parameter="H0")
    with pytest.raises(ValueError, match=r"a position below d = 3; got 3"):
        plots.coverage(tables[1], parameter=3)
    with pytest.raises(ValueError, match="unknown `method` 'stacked'; known: member_0"):
        plots.rank_histogram(tables[1], method="stacked")


# ── posteriors ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("location", "scale"), [(0, 1), (0, 1e-3), (123456, 10), (0.3, 0.25)])
def test_labels_of_pairs_do_not_touch(location, scale):
    draws = location + scale * np.random.default_rng(0).normal(size=(300, 4))
    axes = ds.plots.pairs({"stacked": draws})
    figure = axes[0, 0].figure
    figure.canvas.draw()
    labels = [label for ax in axes[-1] for label in ax.get_xticklabels() if label.get_text()]
    ends = np.array([label.get_window_extent().intervalx for label in labels])
    assert (ends[1:, 0] - ends[:-1, 1] > 0.2 * labels[0].get_fontsize()).all()
    assert all(len(ax.get_xticks()) > 1 for ax in axes[-1])


def test_pairs_show_marginals_regions_and_the_truth():
    rng = np.random.default_rng(0)
    draws = {"members": rng.normal(size=(2, 3000, 3)), "stacked": rng.normal(size=(4000, 3)) * [1, 2, 3]}
    axes = plots.pairs(draws, parameters=["a", "b", "c"], truth=[0.1, 0.2, 0.3])
    assert axes.shape == (3, 3)
    assert not axes[0, 2].axison
    assert [axes[2, j].get_xlabel() for j in range(3)] == ["a", "b", "c"]
    assert [axes[i, 0].get_ylabel() for i in (1, 2)] == ["b", "c"]
    # Two members, the stack and the truth.
    assert len(axes[1, 1].lines) == 4
    stacked = axes[1, 1].lines[2]
    x, density = stacked.get_xdata(), stacked.get_ydata()
    assert stacked.get_color() == plots.COLOURS["stacked"]
    assert np.sqrt(np.trapezoid(density * x**2, x)) == pytest.approx(2, rel=0.1)
    across, up = axes[2, 1].lines
    assert list(across.get_xdata()) == [0.2, 0.2]
    assert list(up.get_ydata()) == [0.3, 0.3]


def test_regions_hold_their_share_of_a_gaussian():
    rng = np.random.default_rng(1)
    axes = plots.pairs({"reference": rng.normal(size=(40_000, 2))})
    half, most = np.array(axes[1, 0].collections[0].get_paths(), object)[::-1]
    assert list(axes[1, 0].collections[0].get_linewidths()) == [0.8, 1.6]  # thin around 90%, heavy around 50%
    radii = [np.linalg.norm(path.vertices, axis=1).mean() for path in (half, most)]
    np.testing.assert_allclose(radii, np.sqrt(-2 * np.log([0.5, 0.1])), rtol=0.06)


def test_curves_are_smooth_and_keep_narrow_modes_apart():
    rng = np.random.default_rng(0)
    wide = rng.normal(size=(10_000, 1))
    narrow = rng.choice([-1.0, 1.0], (10_000, 1)) + 0.03 * rng.normal(size=(10_000, 1))
    axes = plots.pairs({"stacked": np.concatenate([wide, narrow], 1)})
    (one,) = axes[0, 0].lines
    peaks = (np.diff(np.sign(np.diff(one.get_ydata()))) < 0).sum()
    assert peaks == 1
    density = axes[1, 1].lines[0].get_ydata()
    assert density[len(density) // 2] < 0.01 * density.max()
    heavy = axes[1, 0].collections[0].get_paths()[-1]
    assert len(heavy.to_polygons(closed_only=False)) == 2


def test_one_parameter_is_one_picture():
    (row,) = plots.pairs({"stacked": np.random.default_rng(0).normal(size=(500, 1))})
    assert row[0].get_xlabel() == "theta_0"
    assert [text.get_text() for text in row[0].get_legend().get_texts()] == ["stacked"]


def test_draws_that_are_not_finite_are_named():
    draws = np.random.default_rng(0).normal(size=(9, 2))
    draws[3, 1] = np.nan
    with pytest.raises(ValueError, match="`draws` must be finite; 1 of 18 numbers of 'b' are not"):
        plots.pairs({"a": draws[:3], "b": draws})


def test_draws_are_checked_and_strays_do_no_harm():
    rng = np.random.default_rng(0)
    with pytest.raises(TypeError, match=r"`draws` must be a mapping of names to draws \(S, d\)"):
        plots.pairs(rng.normal(size=(9, 2)))
    with pytest.raises(ValueError, match=r"with the same d; got \{'a': \(9, 2\), 'b': \(9, 3\)\}"):
        plots.pairs({"a": rng.normal(size=(9, 2)), "b": rng.normal(size=(9, 3))})
    with pytest.raises(ValueError, match="`parameters` must name all d = 2; got 1"):
        plots.pairs({"a": rng.normal(size=(9, 2))}, parameters=["x"])
    axes = plots.pairs({"stacked": rng.normal(size=(5000, 2)), "members": 1e6 + rng.normal(size=(1, 9, 2))})
    assert len(axes[1, 0].collections) == 1


# ── all ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_pictures_go_where_they_are_told(tables, fits, compared):
    _, ax = plt.subplots()
    advice = ds.advise(fits["log"], tables[0], times=3, subsets=2)
    for draw in (
        lambda: plots.weights(fits["log"], ax),
        lambda: plots.comparison(compared, ax=ax),
        lambda: plots.rank_ecdf(tables[1], fits, ax=ax),
        lambda: plots.rank_histogram(tables[1], fits, ax=ax),
        lambda: plots.coverage(tables[1], fits, ax=ax),
        lambda: plots.tarp(tables[1], fits, ax),
        lambda: plots.gain_curve(advice.curve, ax),
        lambda: plots.weight_stability(advice.bootstrap, ax),
    ):
        ax.clear()
        assert draw() is ax
        assert labelled(ax)
    assert len(plt.get_fignums()) == 1


def test_colors_mean_the_same_everywhere(tables, fits):
    ax = plots.rank_ecdf(tables[1], {"stacked": fits["log"], "other": fits["log + rank"]})
    assert line(ax, "stacked").get_color() == plots.COLOURS["stacked"]
    assert line(ax, "uniform").get_color() == plots.COLOURS["uniform"]
    assert line(ax, "other").get_color() not in plots.COLOURS.values()


def test_a_fit_that_a_metric_leaves_out_does_not_change_the_colors_of_others(tables):
    interval = ds.stack(tables[0], ds.IntervalAggregation(), ds.IntervalScore())
    fits = {"interval": interval, "log": ds.stack(tables[0])}
    color = line(plots.rank_ecdf(tables[1], fits), "log").get_color()
    assert color == method_styles(fits)["log"].color
    ax = plots.comparison(ds.compare(tables[0], tables[1], fits))
    assert ax.containers[-1].lines[0].get_color() == color


def test_more_fits_than_colors_differ_in_dashes_and_markers(tables, fits):
    many = {f"fit {i}": fits["log"] for i in range(12)}
    ax = plots.rank_ecdf(tables[1], many)
    curves = [line(ax, name) for name in many]
    assert len({(curve.get_color(), curve.is_dashed()) for curve in curves}) == 12
    ax = plots.comparison(ds.compare(tables[0], tables[1], many))
    points = [container.lines[0] for container in ax.containers[2:]]
    assert len({(point.get_color(), point.get_marker()) for point in points}) == 12


def test_long_names_lose_their_middle(fits):
    names = ("masked_autoregressive_flow_with_64_hidden_units_1", "b", "c", "d", "e")
    assert short(names[0]) == "masked_autoregre…_hidden_units_1"
    assert short("x" * 32) == "x" * 32
    ax = plots.weights(replace(fits["log"], names=names, params={"weights": np.array([0.6, 0.4, 0, 0, 0])}))
    assert ax.get_yticklabels()[0].get_text() == short(names[0])


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("drystone.plots")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"drystone\[plots\]"):
        importlib.import_module("drystone.plots")
