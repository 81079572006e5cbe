"""Tests for drystone.advise and its pieces."""

import re

import numpy as np
import pytest

import drystone as ds
from drystone.advice.bootstrap import bootstrap
from drystone.advice.gain import _greedy, gain_curve, sizes
from drystone.advice.learning import learning_curve
from drystone.advice.redundancy import drop_one, duplicates
from drystone.advice.refit import Problem, problem_of
from drystone.estimate import Estimate, split_folds
from helpers.tables import make_table


def ask(table, score: ds.Score = ds.LogScore()):
    return Problem(table, ds.Mixture(), score)


@pytest.fixture(scope="module")
def table():
    return make_table(K=7, N=300, d=2, seed=4)


@pytest.fixture(scope="module")
def advice(table):
    return ds.advise(ds.stack(table), table, times=30, subsets=5)


# ── the weights ──────────────────────────────────────────────────────────────────────────────────────────────


def test_bootstrap_standard_errors_are_those_of_maximum_likelihood():
    """Two members: Var(w) = 1 / (N I), I the mean of ((q_1 − q_2) / q*)²."""
    both = ds.toy.table(3000, seed=1, draws=2).select(members=["right", "left"])
    fit = ds.stack(both)
    q = np.exp(both.log_q)
    information = (((q[0] - q[1]) / (fit.weights @ q)) ** 2).mean()
    found = bootstrap(ask(both), fit.weights, times=150)
    assert found.se[0] == pytest.approx(1 / np.sqrt(3000 * information), rel=0.2)
    assert found.resampled[:, 0].mean() == pytest.approx(fit.weights[0], abs=0.3 * found.se[0])
    low, high = found.interval(0.1)[0]
    assert (high - low) / 2 == pytest.approx(1.645 * found.se[0], rel=0.2)


def test_effective_members_are_the_exponential_of_the_entropy(advice, table):
    w = ds.stack(table).weights
    w = w[w > 0]
    assert advice.effective_members == pytest.approx(np.prod(w**-w))


# ── members that could go ────────────────────────────────────────────────────────────────────────────────────


def test_drop_one_losses_are_those_of_refits(table):
    fit = ds.stack(table)
    found = drop_one(ask(table), fit)
    heaviest = int(fit.weights.argmax())
    others = [k for k in range(table.K) if k != heaviest]
    without = ds.stack(table.select(members=others))
    assert found.loss[heaviest] == pytest.approx(without.loss - fit.loss, abs=1e-7)
    paired = fit.apply(table).log_q - without.apply(table.select(members=others)).log_q
    assert found.se[heaviest] == pytest.approx(paired.std() / np.sqrt(table.N), rel=1e-4)
    assert (found.loss[fit.weights == 0] == 0).all()


def test_a_member_of_whom_there_is_a_twin_is_redundant_and_named():
    table = make_table(K=3, N=200, seed=1)
    rng = np.random.default_rng(0)
    best = int(ds.stack(table).weights.argmax())
    twin = table.log_q[best] + 1e-3 * rng.normal(size=200)
    doubled = ds.Table(table.theta, log_q=np.vstack([table.log_q, twin]), names=["a", "b", "c", "twin"])
    fit = ds.stack(doubled)
    assert duplicates(doubled) == [("abc"[best], "twin")]
    found = drop_one(ask(doubled), fit)
    assert found.redundant[fit.names.index("twin") if fit.weights[3] > 0 else best]
    assert found.loss.max() < drop_one(ask(table), ds.stack(table)).loss.max()


def test_members_that_differ_are_not_called_the_same(table):
    assert duplicates(table) == []
    assert duplicates(ds.Table(table.theta, draws=table.draws)) == []


def test_members_that_differ_by_an_offset_a_scale_or_a_support_are_not_called_the_same(table):
    log_q = np.array(table.log_q[0])
    holes = log_q.copy()
    holes[5] = -np.inf
    members = [log_q, log_q - 0.3, 0.8 * log_q, holes, holes + 1e-3]
    assert duplicates(ds.Table(table.theta, log_q=np.stack(members))) == [("member_3", "member_4")]


def test_members_without_weight_and_copies_are_redundant(table):
    fit = ds.stack(table)
    assert drop_one(ask(table), fit).redundant[fit.weights == 0].all()
    copies = ds.Table(table.theta, log_q=np.repeat(table.log_q[:1], 3, 0))
    assert drop_one(ask(copies), ds.stack(copies)).redundant.all()


# ── the gain curve ───────────────────────────────────────────────────────────────────────────────────────────


def test_sizes_double_and_have_those_that_further_members_are_judged_by():
    assert sizes(1, 16).tolist() == [1]
    assert sizes(50, 50).tolist() == [1, 3, 6, 12, 25, 50]
    assert sizes(8, 16).tolist() == [1, 2, 3, 4, 8]


@pytest.mark.parametrize("score", [ds.LogScore(), ds.EnergyScore(), ds.LogScore() + ds.RankCvM()])
def test_greedy_stacks_fall_from_the_best_member_to_the_best_stack(score):
    table = make_table(K=6, N=90, seed=2)
    alone = [float(ds.stack(table.select(members=[k]), score=score).loss) for k in range(6)]
    stacks = list(_greedy(ask(table, score=score), int(np.argmin(alone))))
    losses = [fit.loss for fit in stacks]
    assert losses[0] == pytest.approx(min(alone))
    assert (np.diff(losses) < 1e-7).all()
    assert losses[-1] == pytest.approx(ds.stack(table, score=score).loss, abs=2e-4)
    assert [len(fit.names) for fit in stacks] == list(range(1, len(stacks) + 1))


def test_losses_are_of_held_out_rows(table):
    curve = gain_curve(ask(table), subsets=3, folds=4, seed=9)
    stacked, best, uniform = 0.0, 0.0, 0.0
    for rows, left in split_folds(table.N, 4, 9):
        train, test = table.select(rows=rows), table.select(rows=left)
        stacked -= ds.stack(train).apply(test).log_q.sum() / table.N
        best -= test.log_q[train.log_q.mean(1).argmax()].sum() / table.N
        uniform -= np.log(np.exp(test.log_q).mean(0)).sum() / table.N
    assert curve.stacked == pytest.approx(stacked)
    assert curve.best.value == pytest.approx(best)
    assert curve.greedy[0] == pytest.approx(best)
    assert curve.uniform.value == pytest.approx(uniform)
    assert curve.random[-1] == pytest.approx(stacked)
    assert curve.random_se[-1] == pytest.approx(0, abs=1e-9)
    assert curve.gain == Estimate(curve.best.value - curve.stacked, curve.best.se)


def test_random_members_gain_as_they_become_more(advice):
    curve = advice.curve
    assert curve.random_sizes.tolist() == [1, 2, 3, 7]
    assert (np.diff(curve.random) < 0).all()
    assert set(curve.frame["chosen"]) == {"greedy", "random"}


def test_the_gain_of_further_members_is_from_held_out_losses_of_random_subsets(table, monkeypatch):
    """Without noise: two of four members against all four say what four more add."""
    monkeypatch.setattr("drystone.advice.further.EXPONENT", (0.5, 0.0))
    few = table.select(members=[0, 1, 2, 3])
    curve = gain_curve(ask(few), more=4, subsets=5, folds=3, seed=1)
    orders = np.random.default_rng(1)
    pairs = [np.sort(orders.permutation(4)[:2]) for _ in range(5)]
    lost = 0.0
    for rows, left in split_folds(few.N, 3, 1):
        train, test = few.select(rows=rows), few.select(rows=left)
        of_pairs = [ds.stack(train.select(members=p)).evaluate(test.select(members=p))["loss"] for p in pairs]
        lost += (np.mean(of_pairs) - ds.stack(train).evaluate(test)["loss"]) / 3
    assert curve.random[1] - curve.stacked == pytest.approx(lost, rel=1e-4)
    assert curve.further.members == 4
    gains = curve.further.gains
    assert gains.mean() == pytest.approx(lost * 2**-0.5, abs=4 * gains.std() / np.sqrt(len(gains)))


def test_copies_ask_for_no_more_and_good_members_among_bad_ones_for_luck():
    toy = ds.toy.table(400, seed=3, draws=2)
    perfect = -((toy.theta - toy.y)[:, 0] ** 2) / 2 - np.log(np.sqrt(2 * np.pi))
    bad = [perfect - 0.5 * (toy.theta[:, 0] - toy.y[:, 0] - shift) ** 2 for shift in (4, 5, 6)]
    for log_q, answer in (
        (toy.log_q[[0, 0, 0, 0]], "no"),
        (np.stack([perfect, perfect, *bad[:2]]), "cannot tell"),
        (np.stack([perfect, *bad]), "yes"),  # three of four would have gained by coming across the fourth
    ):
        table = ds.Table(toy.theta, log_q=log_q)
        advice = ds.advise(ds.stack(table), table, times=2, subsets=60)
        assert advice.more_members == answer
        if answer == "cannot tell":
            assert "More members like these: cannot tell from 4 members." in str(advice)


def test_members_that_each_add_something_ask_for_more():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(1500, 1))
    theta = y + rng.normal(size=(1500, 1))
    centre = np.linspace(-2, 2, 6)[:, None]
    log_q = -(((theta - y)[:, 0] - centre) ** 2) / 2 / 0.3**2 - np.log(0.3 * np.sqrt(2 * np.pi))
    table = ds.Table(theta, log_q=log_q)
    assert ds.advise(ds.stack(table), table, times=2, subsets=2).more_members == "yes"


def test_so_many_members_are_enough(advice):
    curve = advice.curve
    m = curve.enough(0.9)
    reached = curve.best.value - curve.greedy >= 0.9 * curve.gain.value
    assert reached[m - 1]
    assert not reached[: m - 1].any()
    assert curve.enough(50.0) is None


def test_scores_with_steps_have_no_greedy_curve():
    table = make_table(K=3, N=40, S=21, d=1)
    curve = gain_curve(ask(table, score=ds.IntervalScore()), subsets=2, folds=2)
    assert len(curve.greedy) == len(curve.greedy_sizes) == 0
    assert np.isfinite(curve.random).all()


def test_rows_that_some_subsets_cannot_explain_give_an_infinite_loss():
    table = make_table(K=3, N=60)
    log_q = np.array(table.log_q)
    log_q[0, ::3], log_q[1, 1::3] = -np.inf, -np.inf
    curve = gain_curve(ask(ds.Table(table.theta, log_q=log_q)), subsets=6, folds=3)
    assert curve.random[0] == np.inf
    assert np.isfinite(curve.stacked)


# ── more simulations? ────────────────────────────────────────────────────────────────────────────────────────


def test_what_is_left_to_gain_is_half_a_nat_a_free_weight_and_row():
    """Three members carry weight on the toy: two free weights, (3 − 1) / 2 / N nats."""
    left = [learning_curve(ask(ds.toy.table(400, seed, 2)), seed=seed).left.value * 400 for seed in range(6)]
    assert np.mean(left) == pytest.approx(1.0, abs=0.6)


def test_standard_errors_of_what_is_left_match_its_spread():
    curves = [learning_curve(ask(ds.toy.table(200, seed, 2)), repeats=2, seed=seed) for seed in range(12)]
    spread = np.std([curve.left.value for curve in curves], ddof=1)
    assert 0.4 < np.mean([curve.left.se for curve in curves]) / spread < 2.0
    assert curves[0].rows.tolist() == [40, 80, 160]


def test_few_rows_for_many_members_leave_more_to_gain_than_many():
    tables = [make_table(K=25, N=N, S=2, d=2, seed=1) for N in (40, 300, 3000)]
    advice = [ds.advise(ds.stack(table), table, times=2, subsets=2) for table in tables]
    assert [one.more_rows for one in advice] == ["perhaps", "yes", "no"]
    assert advice[0].learning.left.value > advice[1].learning.left.value > advice[2].learning.left.value > 0


# ── the whole ────────────────────────────────────────────────────────────────────────────────────────────────


def test_advice_is_plain_sentences(advice):
    text = str(advice)
    for words in (
        "of 7 members carry weight",
        "equally weighted ones",
        "or better (bootstrap)",
        "hardest to replace is",
        "over the best single member (LogScore())",
        "More members like these: ",
        "More stacking simulations: no. Expected further gain over these 300",
        "from infinitely many",
        "Calibration: 1 of 2 parameters at fault (cross-validated over these 300 rows",
        "theta_1 is too wide, by a factor of",
        "To try against what is too wide: members trained longer",
    ):
        assert words in text
    assert "Skipped" not in text


def test_the_frame_has_a_line_a_member(advice, table):
    frame = advice.frame
    assert sorted(frame.index) == sorted(table.names)
    assert frame["weight"].is_monotonic_decreasing
    k = table.names.index(frame.index[0])
    assert frame["weight_se"].iloc[0] == advice.bootstrap.se[k]
    assert frame["drop_one"].iloc[0] == advice.drop_one.loss[k]


def test_the_same_seed_gives_the_same_advice(table):
    fit = ds.stack(table)
    first, second = (ds.advise(fit, table, times=5, subsets=2, seed=3) for _ in range(2))
    assert str(first) == str(second)


def test_what_takes_too_long_is_skipped_and_named(table):
    advice = ds.advise(ds.stack(table), table, seconds=0.0)
    assert advice.bootstrap is advice.curve is advice.learning is advice.drop_one is None
    assert advice.more_rows is advice.more_members is None
    assert re.fullmatch(r"it would take about \d+ s", advice.skipped["the gain curve"])
    (skipped,) = (line for line in str(advice).splitlines() if "Skipped" in line)
    assert re.search(r"to save time: .*the gain curve.*\. Allow it with ds\.advise\(", skipped)
    assert list(advice.frame.columns) == ["weight", "same_as"]


def test_forms_without_a_single_set_of_weights_get_the_rest():
    table = make_table(K=3, N=60, d=1)
    fit = ds.stack(table, ds.SampleAggregation("diagonal"), ds.MeanScore())
    advice = ds.advise(fit, table, subsets=2)
    assert advice.weights is None
    assert advice.bootstrap is None
    assert np.isnan(advice.effective_members)
    assert advice.skipped["the bootstrap of the weights"] == "SampleAggregation has no single set of weights"
    assert advice.curve.gain.value == pytest.approx(advice.curve.best.value - advice.curve.stacked)
    assert "carry weight" not in str(advice)
    assert "hardest to replace" in str(advice)


def test_scores_that_are_not_means_over_rows_have_no_standard_error_of_drop_one():
    table = make_table(K=3, N=60, d=1)
    advice = ds.advise(ds.stack(table, score=ds.LogScore() + ds.RankCvM()), table, times=2, subsets=2, folds=2)
    used = advice.weights > 0
    assert np.isnan(advice.drop_one.se[used]).all()
    assert not advice.drop_one.redundant[used].any()
    assert "nan" not in str(advice)


def test_a_member_without_whom_a_row_is_impossible_cannot_be_dropped():
    table = make_table(K=3, N=60)
    log_q = np.array(table.log_q)
    log_q[[0, 1], 7] = -np.inf
    impossible = ds.Table(table.theta, log_q=log_q)
    advice = ds.advise(ds.stack(impossible), impossible, times=2, subsets=2)
    assert advice.drop_one.loss[2] == np.inf
    assert "without it the others lose an unbounded amount (a row of density 0)" in str(advice)


def test_members_that_each_miss_a_row_say_nothing_of_further_ones():
    table = ds.toy.table(60, seed=1)
    log_q = np.array(table.log_q)
    log_q[range(4), range(4)] = -np.inf
    holes = ds.Table(table.theta, log_q=log_q)
    advice = ds.advise(ds.stack(holes), holes, times=2, subsets=4)
    assert np.isfinite(advice.fit.loss)
    assert advice.more_members == "cannot tell"
    assert "cannot tell from 4 members, as most subsets of these give some row a density of 0" in str(advice)


def test_what_the_fit_dropped_is_dropped_here():
    table = make_table(K=4, N=80)
    log_q = np.array(table.log_q)
    log_q[1, 3], log_q[:, 5] = np.nan, -np.inf
    broken = ds.Table(table.theta, log_q=log_q)
    fit = ds.stack(broken, nonfinite="drop")
    advice = ds.advise(fit, broken, times=2, subsets=2)
    assert advice.names == ("member_0", "member_2", "member_3")
    assert advice.rows == 79
    np.testing.assert_allclose(np.asarray(advice.weights), fit.weights[[0, 2, 3]], atol=1e-6)


def test_one_member_is_no_trouble():
    table = make_table(K=1, N=50)
    advice = ds.advise(ds.stack(table), table, times=2, subsets=2)
    assert advice.skipped == {"drop-one losses": "there is only one"}
    assert advice.more_members is None
    assert advice.more_rows == "no"
    assert "±" not in str(advice).partition("Calibration")[0]
    assert "1 of 1 members carry weight" in str(advice)


def test_where_nothing_is_at_stake_nothing_is_made_of_rounding(table):
    copies = ds.Table(table.theta, log_q=np.repeat(table.log_q[:1], 4, 0))
    advice = ds.advise(ds.stack(copies), copies, times=5, subsets=2)
    assert (advice.more_members, advice.more_rows) == ("no", "no")
    assert "member_0, member_1, member_2, member_3 say the same: keep one." in str(advice)
    assert "No member is hard to replace" in str(advice)
    assert "the stack gains nothing over the best single member" in str(advice)
    assert "0.0000" not in str(advice)
    alone = ds.Table(table.theta, log_q=np.stack([table.log_q[0], table.log_q[0] - 9]))
    assert "The weights are the same in all bootstrap refits." in str(ds.advise(ds.stack(alone), alone, times=5))


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_advice_does_not_depend_on_units(table, unit):
    def advice(scale):
        scaled = ds.Table(scale * table.theta, draws=scale * table.draws)
        return ds.advise(ds.stack(scaled, score=ds.EnergyScore()), scaled, times=5, subsets=2)

    here, there = advice(1.0), advice(unit)
    assert (there.more_members, there.more_rows) == (here.more_members, here.more_rows)
    np.testing.assert_array_equal(there.drop_one.redundant, here.drop_one.redundant)
    for words in ("hardest to replace", "No member is hard to replace", "gains nothing"):
        assert (words in str(there)) == (words in str(here)), words


def test_rows_that_the_fit_has_not_seen_are_refused(table):
    with pytest.raises(ValueError, match="must hold the rows that `fit` was fitted to: its loss there was"):
        ds.advise(ds.stack(table), make_table(K=7, N=300, d=2, seed=5))
    with pytest.raises(ValueError, match="must have the members of `fit`"):
        ds.advise(ds.stack(table), table.select(members=[0, 1]))
    with pytest.raises(ValueError, match="`times` must be at least 2"):
        ds.advise(ds.stack(table), table, times=1)


def test_draws_are_not_copied_where_only_densities_are_looked_at(table):
    assert problem_of(ds.stack(table), table).table.gives == {"log_q"}
    energy = ds.stack(table, score=ds.EnergyScore())
    assert problem_of(energy, table).table is table


def test_arguments_in_another_order_are_refused_in_words():
    table = ds.toy.table(50, seed=1)
    with pytest.raises(TypeError, match=r"got Table and Stacking\. Give ds\.advise\(fit, table\)"):
        ds.advise(table, ds.stack(table))  # pyright: ignore[reportArgumentType]
