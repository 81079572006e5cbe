"""The headline says what the numbers say."""

import re
from dataclasses import replace

import numpy as np
import pytest

import drystone as ds
from drystone.comparison import (
    BEST,
    ENERGY_SCORE,
    LOG_DENSITY,
    RANK_DISTANCE,
    MethodResult,
    MetricResult,
    gap_to_exact,
)
from drystone.estimate import Estimate, standard_error
from drystone.report.tables import bound
from drystone.report.verdict import tiles, tone_of, verdict
from helpers.report_inputs import gaussians, written
from helpers.tables import make_table


def comparison(gain, gain_se, over_uniform=0.31, over_uniform_se=0.03, metric=LOG_DENSITY):
    """Return a comparison with one fit and one metric."""
    value, gain_over_uniform = Estimate(-1.2, 0.04), Estimate(over_uniform, over_uniform_se)
    methods = {
        BEST: MethodResult(BEST, value, None, gain_over_uniform, member="a"),
        "stacked": MethodResult("stacked", value, Estimate(gain, gain_se), gain_over_uniform),
    }
    return ds.Comparison((MetricResult(metric, "a", methods),), {}, 100)


@pytest.fixture(scope="module")
def test_rows():
    return gaussians(K=7)[1]


def headline(compared, test):
    return verdict(compared, "stacked", test, {}).headline.replace("\u00a0", " ")


def test_a_gain_is_stated_in_nats_with_its_standard_error(test_rows):
    assert headline(comparison(0.12, 0.02), test_rows) == (
        "Stacking gains 0.120 ± 0.020 nats over the best of 7 members and 0.310 ± 0.030 nats over uniform weights."
    )


def test_no_gain_is_stated_plainly(test_rows):
    said = verdict(comparison(0.03, 0.02), "stacked", test_rows, {})
    assert said.tone == "same"
    assert "neither gains nor loses against the best of 7 members" in said.headline
    assert "the best member alone does as well" in said.remarks[0]
    assert "gains 0.310" in said.headline.replace("\u00a0", " ")  # another verb than before, so it is not left out


def test_a_loss_is_stated_plainly(test_rows):
    said = verdict(comparison(-0.12, 0.02), "stacked", test_rows, {})
    assert said.tone == "worse"
    assert "loses 0.120 ± 0.020 nats against the best of 7 members" in said.headline.replace("\u00a0", " ")
    assert "does better" in said.remarks[0]


def test_other_metrics_are_named_and_have_no_nats(test_rows):
    said = headline(comparison(0.12, 0.02, metric=ENERGY_SCORE), test_rows)
    assert said.startswith("Stacking improves the energy score by 0.120 ± 0.020 over the best of 7 members and by")
    assert "nats" not in said


@pytest.mark.parametrize(
    ("gain", "se", "word"),
    [
        (0.05, 0.02, "better"),
        (0.0399, 0.02, "same"),
        (-0.05, 0.02, "worse"),
        (np.inf, np.nan, "better"),
        (-np.inf, np.nan, "worse"),
        (np.nan, np.nan, "unknown"),
        (0.0, 0.0, "same"),
        (-1.1e-16, 7e-18, "same"),
        (0.1, np.nan, "unknown"),
    ],
)
def test_a_verdict_needs_two_standard_errors(gain, se, word):
    assert tone_of(Estimate(gain, se), -1.2) == word


def test_a_loss_against_uniform_weights_is_not_passed_over(test_rows):
    said = verdict(comparison(0.12, 0.02, over_uniform=-0.2), "stacked", test_rows, {})
    assert said.tone == "worse"
    assert "Uniform weights do better" in said.remarks[0]


@pytest.mark.parametrize(
    ("worse_by", "tone", "words"),
    [
        (0.002, "mixed", "Calibration is clearly worse than the best member’s: the rank distance"),
        (0.0001, "better", "Calibration is not clearly different from the best member’s"),
        (-0.002, "better", "Calibration is clearly better than the best member’s"),
    ],
)
def test_a_gain_with_a_clearly_worse_calibration_is_not_green(test_rows, worse_by, tone, words):
    compared = comparison(0.12, 0.02)
    value, gain = Estimate(0.003, 0.0005), Estimate(-worse_by, 0.0004)
    methods = {
        BEST: MethodResult(BEST, value, None, gain, member="a"),
        "uniform": MethodResult("uniform", value, gain, None),
        "stacked": MethodResult("stacked", value, gain, gain),
    }
    ranks = MetricResult(RANK_DISTANCE, "a", methods, floor=0.0002)
    both = replace(compared, results=(*compared.results, ranks))
    said = verdict(both, "stacked", test_rows, {})
    assert said.tone == tone
    assert words in said.remarks[-1]


def test_the_verdict_names_what_is_wrong_with_the_calibration(tmp_path):
    """Draws with half the spread of the posterior, whatever the weights."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=(600, 1))
    theta = y + rng.normal(size=(600, 1))
    log_q = -((theta - y - np.array([[[0.1]], [[-0.1]]])) ** 2)[..., 0] / 2
    table = ds.Table(theta, y, log_q=log_q, draws=y[:, None] + 0.5 * rng.normal(size=(2, 600, 50, 1)))
    said = written(tmp_path / "r.html", *table.split(0.5, seed=0))
    assert "In the stacked posterior theta_0 is too narrow, by a factor of" in said


def test_one_row_has_no_standard_error(tmp_path):
    table = make_table(N=51)
    assert np.isnan(standard_error(np.ones(1), np.ones(1)))
    said = written(tmp_path / "r.html", table.select(rows=slice(50)), table.select(rows=[50]))
    assert "± unknown" in said
    assert "± nan" not in said
    assert "better</span>" not in said


def test_a_bound_is_rounded_up():
    assert bound(3.5e-11, 1) == "4×10⁻¹¹"
    assert bound(3.01e-11, 2) == "3.1×10⁻¹¹"
    assert bound(9.9e-12, 1) == "1×10⁻¹¹"


def test_a_member_with_density_zero_is_beaten_infinitely(test_rows):
    said = headline(comparison(np.inf, np.nan), test_rows)
    assert "gains infinitely many nats over the best of 7 members" in said


def test_two_infinite_losses_cannot_be_compared(test_rows):
    assert "cannot be compared with the best of 7 members" in headline(comparison(np.nan, np.nan), test_rows)


def test_a_single_member_is_nothing_to_stack():
    _, test, _ = gaussians(K=1)
    assert "nothing to stack" in headline(comparison(0.12, 0.02), test)


def test_the_way_to_the_exact_posterior_is_a_share(test_rows):
    gaps = {BEST: Estimate(0.18, 0.02), "stacked": Estimate(0.06, 0.01)}
    said = verdict(comparison(0.12, 0.02), "stacked", test_rows, gaps)
    assert "0.060 ± 0.010 nats from the exact posterior" in said.headline.replace("\u00a0", " ")
    assert said.remarks[0] == "This goes 67% of the way from the best member to the exact posterior."


def test_better_than_exact_is_an_alarm(test_rows):
    gaps = {BEST: Estimate(0.18, 0.02), "stacked": Estimate(-0.06, 0.01)}
    assert "cannot be" in verdict(comparison(0.24, 0.02), "stacked", test_rows, gaps).remarks[0]


def test_gaps_to_the_exact_posterior_are_mean_differences_of_log_densities():
    validation, test, log_p = gaussians(K=4)
    fit = ds.stack(validation)
    gaps = gap_to_exact(log_p, test, fit, test.names[2])
    rows = log_p - np.log(fit.weights @ np.exp(test.log_q))
    assert gaps["stacked"].value == pytest.approx(rows.mean(), rel=1e-12)
    assert gaps["stacked"].se == pytest.approx(rows.std() / np.sqrt(test.N), rel=1e-12)
    assert gaps[BEST].value == pytest.approx((log_p - test.log_q[2]).mean(), rel=1e-12)


def test_gaps_to_the_exact_posterior_need_a_density():
    validation, test, log_p = gaussians()
    samples = ds.stack(
        validation, ds.SampleAggregation("diagonal"), ds.MeanScore() + ds.MomentScore(diagonal=True)
    )
    assert gap_to_exact(log_p, test, samples, test.names[0]).keys() == {"best", "uniform"}
    ranks = ds.Table(test.theta, rank=np.full((len(test.names), test.N, test.d), 0.4), names=test.names)
    assert gap_to_exact(log_p, ranks, ds.stack(validation), test.names[0]) == {}


def test_exact_densities_of_another_length_are_refused():
    validation, test, log_p = gaussians()
    with pytest.raises(
        ValueError, match=re.escape("`exact` must hold one log density per test row, (N,) = (100,); got (99,)")
    ):
        gap_to_exact(log_p[1:], test, ds.stack(validation), test.names[0])


def test_tiles_carry_the_certificate():
    validation, test, _ = gaussians()
    fit = ds.stack(validation)
    shown = {
        tile.label: tile for tile in tiles(ds.compare(validation, test, fit), "stacked", fit, fit.shares(test), {})
    }
    assert shown["members that matter"].value == str(np.count_nonzero(fit.weights))
    assert shown["from the optimum, certified: the weights, not the posterior"].value.startswith("≤ ")
