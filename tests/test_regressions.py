"""One test for each fault that was found and mended."""

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch

import drystone as ds
from conftest import make_table
from drystone.solvers import Descent, Gating, Gradient, Minimax, Multiplicative
from drystone.solvers.interior_point import quantile_regression
from drystone.solvers.minimax import Game
from table_in_blocks import stored


@pytest.mark.parametrize(
    ("form", "score"),
    [
        (ds.Mixture(), ds.LogScore()),
        (ds.Mixture(), ds.MeanScore()),
        (ds.Mixture(), ds.EnergyScore()),
        (ds.Mixture(1.5), ds.LogScore()),
        (ds.IntervalAggregation(), ds.IntervalScore()),
        (ds.SampleAggregation(), ds.MeanScore()),
    ],
    ids=repr,
)
def test_a_score_with_a_coefficient_is_solved_like_the_score(table, form, score):
    plain, scaled = ds.stack(table, form, score), ds.stack(table, form.penalised(3), 3 * score)
    for name, value in plain.params.items():
        np.testing.assert_allclose(scaled.params[name], value, atol=1e-6)
    assert scaled.loss == pytest.approx(3 * plain.loss)


def test_the_gap_of_a_scaled_score_is_scaled_too(table):
    with pytest.warns(ds.ConvergenceWarning):
        fit = ds.stack(table, score=1000 * ds.LogScore(), solver=Multiplicative(steps=3))
    assert fit.loss - 1000 * ds.stack(table).loss <= fit.gap


def test_tuning_may_reduce_a_hybrid_to_one_score(table):
    tuned = ds.tune(table, lambda lam: ds.MeanScore() + lam * ds.EnergyScore(), [0.0, 0.1], metric=ds.MeanScore())
    assert np.isfinite(tuned.frame["metric"]).all()


def test_single_precision_draws_work_with_every_form():
    table = make_table(N=80)
    single = ds.Table(table.theta, table.y, log_q=table.log_q, draws=table.draws.astype(np.float32))
    for form, score in (
        (ds.IntervalAggregation(), ds.IntervalScore()),
        (ds.SampleAggregation(), ds.EnergyScore()),
        (ds.Mixture(), ds.MomentScore()),
    ):
        assert np.isfinite(ds.stack(single, form, score).loss)


@pytest.mark.parametrize(("shift", "factor"), [(1e6, 1.0), (0.0, 1e13), (0.0, 1e-13)])
@pytest.mark.parametrize("structure", ["scalar", "diagonal", "full"])
def test_aggregated_means_do_not_depend_on_units_or_origin(shift, factor, structure):
    table = make_table(K=3, N=70, d=2)
    moved = ds.Table(factor * table.theta + shift, mean=factor * table.mean + shift)
    plain = ds.stack(table, ds.SampleAggregation(structure), ds.MeanScore())
    other = ds.stack(moved, ds.SampleAggregation(structure), ds.MeanScore())
    assert other.loss == pytest.approx(factor**2 * plain.loss, rel=1e-6)


@pytest.mark.parametrize("factor", [1e-9, 1e9])
@pytest.mark.parametrize("score", [ds.EnergyScore(), ds.IntervalScore()], ids=repr)
def test_aggregated_samples_do_not_depend_on_units(factor, score):
    table = make_table(K=3, N=80, d=2)
    moved = ds.Table(factor * table.theta, table.y, draws=factor * table.draws)
    plain, other = (ds.stack(t, ds.SampleAggregation(), score) for t in (table, moved))
    assert other.loss == pytest.approx(factor * plain.loss, rel=1e-2)


@pytest.mark.parametrize("score", [ds.MomentScore(), ds.MeanScore()], ids=repr)
def test_mixtures_of_far_away_parameters_keep_their_weights_on_the_simplex(score):
    table = make_table(K=4, N=60)
    far = ds.Table(table.theta + 1e4, mean=table.mean + 1e4, cov=table.cov)
    near = ds.Table(table.theta, mean=table.mean, cov=table.cov)
    fit = ds.stack(far, score=score)
    assert fit.weights.sum() == pytest.approx(1, abs=1e-14)
    assert fit.loss == pytest.approx(ds.stack(near, score=score).loss, abs=1e-6)


def test_noise_of_similar_members_is_a_note_not_a_failure():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(150, 2))
    theta = y + rng.normal(size=(150, 2))
    draws = y[:, None] + 0.1 * rng.normal(size=(8, 1, 1, 2)) + rng.normal(size=(8, 150, 60, 2))
    table = ds.Table(theta, draws=draws)
    fit = ds.stack(table, score=ds.EnergyScore())
    assert fit.converged
    generic = ds.stack(table, score=ds.EnergyScore(), solver=Gradient())
    assert fit.loss - fit.gap <= generic.loss
    assert generic.loss - generic.gap <= fit.loss


def test_the_interval_score_of_a_mixture_is_never_worse_than_a_member():
    for seed in range(6):
        table = make_table(K=4, N=60, S=60, d=2, seed=seed)
        fit = ds.stack(table, ds.Mixture(), ds.IntervalScore())
        for vertex in np.eye(4):
            view = ds.Mixture().combine({"weights": torch.tensor(vertex)}, table)
            assert fit.loss <= float(ds.IntervalScore()(view)) + 1e-12


def test_quantiles_of_a_mixture_reach_into_the_tails():
    table = ds.toy.table(30, seed=1, draws=2000)
    fit = ds.stack(table)
    member = list(ds.toy.MEMBERS)[int(np.argmax(fit.weights))]
    alone = ds.Stacking(**{**vars(fit), "params": {"weights": np.eye(4)[list(ds.toy.MEMBERS).index(member)]}})
    for alpha in (0.004, 0.02, 0.2):
        got = alone.apply(table).interval(alpha)[:, 0, 0]
        k = table.names.index(member)
        np.testing.assert_allclose(got, table.quantile(alpha / 2)[k, :, 0], atol=0.25)


def test_a_member_with_nan_draws_does_not_pass_for_calibrated():
    table = make_table()
    draws = table.draws.copy()
    draws[1, 3] = np.nan
    spoiled = ds.Table(table.theta, log_q=table.log_q, draws=draws)
    with pytest.raises(ValueError, match=r"`rank` is NaN or infinite for 'member_1' at 1 of 60 rows"):
        ds.stack(spoiled, score=ds.LogScore() + ds.RankCvM())
    fit = ds.stack(spoiled, score=ds.LogScore() + ds.RankCvM(), nonfinite="drop")
    assert fit.dropped["members"] == ["member_1"]


def test_compare_leaves_out_what_tables_and_forms_cannot_give():
    table, test = make_table(N=120), make_table(N=90, seed=1)
    few = [
        ds.Table(t.theta, quantiles={q: t.quantile(q) for q in (0.05, 0.95)}, rank=t.rank) for t in (table, test)
    ]
    fit = ds.stack(few[0], ds.IntervalAggregation(), ds.IntervalScore())
    comparison = ds.compare(few[0], few[1], fit)
    assert "90% interval score" in comparison.left_out
    assert "90% coverage error" in set(comparison.frame["metric"])
    other = ds.stack(table, ds.IntervalAggregation(0.2), ds.IntervalScore(0.2))
    frame = ds.compare(table, test, {"log": ds.stack(table), "intervals": other}).frame
    assert "intervals" not in set(frame["method"])
    with pytest.raises(TypeError, match="`fits` must be a Stacking or a mapping"):
        ds.compare(table, test, [fit])  # pyright: ignore[reportArgumentType]


def test_standard_errors_of_ranks_respect_row_weights():
    rng = np.random.default_rng(0)
    values, claimed = [], []
    for seed in range(40):
        plain = ds.toy.table(200, seed=seed, draws=40)
        weights = np.exp(1.0 * rng.normal(size=200))
        table = ds.Table(plain.theta, rank=plain.rank, log_q=plain.log_q, row_weights=weights, names=plain.names)
        frame = ds.compare(table, table).frame
        rows = frame[(frame["metric"] == "rank distance D") & (frame["method"] == "uniform")].iloc[0]
        values.append(rows["value"])
        claimed.append(rows["se"])
    assert 0.5 < np.mean(claimed) / np.std(values) < 2


def test_rows_without_weight_are_as_if_they_were_not_there():
    table = make_table(N=60)
    a = np.ones(60)
    a[[3, 17]] = 0
    log_q = table.log_q.copy()
    log_q[:, 3] = -np.inf
    masked = ds.Table(table.theta, table.y, log_q=log_q, draws=table.draws, row_weights=a)
    without = table.select(rows=np.flatnonzero(a))
    for form, score in ((ds.Mixture(), ds.LogScore()), (ds.IntervalAggregation(), ds.IntervalScore())):
        assert ds.stack(masked, form, score).loss == pytest.approx(ds.stack(without, form, score).loss)


def test_scales_and_levels_may_be_arrays(table):
    score = ds.EnergyScore(scale=table.theta.std(0))
    assert repr(score).startswith("EnergyScore(scale=(")
    assert ds.stack(table, score=score).converged
    huge = ds.EnergyScore(scale=(1e45, 1e45, 1e45))
    assert float(huge(ds.stack(table).view(table))) > 0
    assert ds.IntervalAggregation(alpha=[0.1, 0.2]) == ds.IntervalAggregation(alpha=(0.1, 0.2))
    assert ds.IntervalScore(alpha=float(np.float32(0.25))) == ds.IntervalScore(alpha=0.25)


def test_two_functions_of_one_name_are_two_terms(table):
    score = ds.LogScore() + ds.RankCvM(lambda t, y: t[..., 0]) + 3 * ds.RankCvM(lambda t, y: t[..., 1] ** 2)
    fit = ds.stack(table, score=score)
    assert len(fit.terms) == 3
    values = list(fit.terms.values())
    assert fit.loss == pytest.approx(values[0] + values[1] + 3 * values[2])


def test_a_fit_with_code_in_it_says_so_when_loaded(tmp_path, table):
    def norm(theta, y):
        return np.linalg.norm(theta, axis=-1)

    score = ds.LogScore() + ds.RankCvM(norm)
    fit = ds.stack(table, score=score)
    fit.save(tmp_path / "fit.json")
    with pytest.raises(ValueError, match=r"`statistic` of RankCvM is code, which is not stored"):
        ds.Stacking.load(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json", score=score).evaluate(table) == fit.evaluate(table)


def test_members_of_the_wrong_dimension_are_named():
    class Flat:
        def sample(self, n, y, seed=None):
            return np.zeros((n, len(y), 2))

    fit = ds.stack(ds.toy.table(100))
    posterior = fit.posterior({**ds.toy.MEMBERS, "narrow": Flat()})
    with pytest.raises(ValueError, match=r"member 'narrow' must give shape \(n, N, d\) = \(\d+, 1, 1\); got"):
        posterior.sample((50,), np.zeros(1))
    with pytest.raises(ValueError, match=r"must have d = 1 parameters along its last axis; got shape \(3,\)"):
        posterior.log_prob(np.zeros(3), np.zeros(1))


def test_torchs_seed_governs_members_that_take_one():
    posterior = ds.stack(ds.toy.table(100)).posterior(ds.toy.MEMBERS)
    draws = []
    for _ in range(2):
        torch.manual_seed(5)
        draws.append(posterior.sample(20, np.zeros(1)))  # an int counts as (20,)
    np.testing.assert_array_equal(*draws)


def test_local_weights_win_where_global_ones_leave_a_row_unexplained():
    rng = np.random.default_rng(1)
    y = rng.normal(size=(400, 1))
    log_q = np.where((y[:, 0] < 0) == np.array([[True], [False]]), -1.0, -np.inf)
    fit = ds.stack(ds.Table(y, y, log_q=log_q), ds.LocalMixture(hidden=(16,), learning_rate=0.03))
    assert fit.form != ds.Mixture()


def test_local_weights_by_ranks_need_more_than_luck():
    kept = 0
    for seed in range(6):
        table = ds.toy.table(240, seed=seed, draws=60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = ds.stack(table, ds.LocalMixture(hidden=(8,), epochs=60), ds.RankCvM())
        kept += isinstance(fit.form, ds.LocalMixture)
    assert kept <= 2


def test_one_number_a_simulation_may_be_given_as_a_vector():
    table = ds.toy.table(120, draws=20)
    flat = ds.Table(table.theta, table.y[:, 0], log_q=table.log_q, draws=table.draws)
    assert np.isfinite(ds.JensenShannon(hidden=(8,), epochs=2).estimate(ds.stack(flat).view(flat)).value)
    assert np.isfinite(ds.stack(flat, ds.LocalMixture(hidden=(8,), epochs=5)).loss)


def test_stacking_near_an_observation_of_any_kind_of_data():
    rng = np.random.default_rng(0)
    theta, log_q = rng.normal(size=(90, 1)), rng.normal(size=(3, 90))
    counts = ds.Table(theta, rng.integers(0, 3, size=(90, 1)), log_q=log_q)
    assert "effective rows" in ds.stack(counts, at=[1]).notes[0]
    constant = ds.Table(theta, np.ones((90, 1)), log_q=log_q)
    assert ds.stack(constant, at=[1.0]).converged
    spoiled = ds.Table(theta, np.where(np.arange(90) == 4, np.nan, 1.0)[:, None], log_q=log_q)
    with pytest.raises(ValueError, match=r"finite `y`; 1 of 90 rows are not \(the first: 4\)"):
        ds.stack(spoiled, at=[1.0])
    with pytest.raises(ValueError, match="standard deviations of y from the nearest simulation"):
        ds.stack(counts, at=[1e6])


def test_a_parameter_that_never_varies_has_an_interval():
    table = make_table(N=50, d=2)
    theta = table.theta.copy()
    theta[:, 1] = 3.0
    fit = ds.stack(ds.Table(theta, draws=table.draws), ds.IntervalAggregation(intercept=True), ds.IntervalScore())
    np.testing.assert_allclose(fit.apply(table).interval(0.1)[:, 1], 3.0, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"score": ds.LogScore}, r"`score` must be a Score; got .*Did you mean LogScore\(\)\?"),
        ({"form": ds.LogScore()}, r"`form` must be a Form; got LogScore\(\). Is it `score=...` that you mean\?"),
        ({"score": "log"}, "`score` must be a Score; got 'log'"),
    ],
)
def test_arguments_of_the_wrong_kind_are_told_apart(table, arguments, message):
    with pytest.raises(TypeError, match=message):
        ds.stack(table, **arguments)


@pytest.mark.parametrize(
    ("solver", "score"),
    [
        (ds.solvers.Descent(), ds.LogScore()),
        (ds.solvers.Gating(), ds.LogScore()),
        (ds.solvers.Minimax(), ds.LogScore()),
        (ds.solvers.Gradient(), ds.JensenShannon()),
    ],
    ids=repr,
)
def test_a_solver_for_something_else_is_refused(table, solver, score):
    with pytest.raises(ds.IntractableError, match="cannot solve"):
        ds.stack(table, score=score, solver=solver)


def test_a_form_of_the_users_own_that_is_a_mixture_is_solved_as_one(table):
    class Renamed(ds.Mixture):
        pass

    assert ds.stack(table, Renamed()).weights == pytest.approx(ds.stack(table).weights, abs=1e-4)


def test_big_endian_draws_are_read(table):
    foreign = ds.Table(table.theta, draws=table.draws.astype(">f4"))
    assert ds.stack(foreign, score=ds.EnergyScore()).converged


def test_a_table_does_not_change_when_the_users_arrays_do(table):
    theta = table.theta.copy()
    held = ds.Table(theta, log_q=table.log_q)
    theta[:] = 0
    np.testing.assert_array_equal(held.theta, table.theta)


@pytest.mark.parametrize("chosen", [[], slice(0, 0), np.zeros(5, bool)])
def test_selecting_nothing_is_an_error(table, chosen):
    with pytest.raises(ValueError, match="no `members` selected"):
        table.select(members=chosen)


def test_selecting_a_member_twice_or_by_fractions_is_an_error(table):
    with pytest.raises(ValueError, match="some are selected twice"):
        table.select(members=[0, 0])
    with pytest.raises(TypeError, match="names, positions, a mask or a slice"):
        table.select(rows=[0.5])
    with pytest.raises(ValueError, match=r"level must be in \(0, 1\); got 1.5"):
        table.quantile(1.5)


def test_intervals_that_can_be_fitted_without_any_loss_are():
    X = np.array([[0.1083141, 0.78905131, -0.27021499], [-0.59617301, -0.35100249, 0.30747826]])
    fit = quantile_regression(X, np.array([1.67696119, 1.75902609]), 0.5, np.array([0.7, 0.3]), "nonnegative")
    assert fit.loss < 1e-9
    assert fit.gap < 1e-9


class Named(list):
    """A sequence of members that knows their names, as an ensemble does."""

    def __init__(self, **members):
        super().__init__(members.values())
        self.names = tuple(members)


def test_an_ensemble_in_another_order_gives_each_member_its_own_weight():
    fit, members = ds.stack(ds.toy.table(200, seed=1)), dict(ds.toy.MEMBERS)
    turned = Named(**dict(reversed(members.items())))
    theta, y = np.array([[0.3], [1.1]]), np.array([[0.1], [0.7]])
    for n in range(2):
        expected = fit.posterior(members).log_prob(theta, x=y[n])
        np.testing.assert_array_equal(fit.posterior(turned).log_prob(theta, x=y[n]), expected)


@pytest.mark.parametrize("form", [ds.Mixture(), ds.SampleAggregation()], ids=repr)
def test_every_term_beside_the_critic_moves_the_stack(form):
    table, ends = make_table(K=3, N=60, d=2), []
    for score in (ds.JensenShannon(), ds.JensenShannon() + 1e3 * ds.RankCvM()):
        ends.append(Game(table, form, score, holdout=0.3, seed=0).play(5, 1, 0.02)[-1])
    assert not torch.allclose(*ends)


def test_a_prior_on_the_weights_holds_against_a_critic():
    table = make_table(K=3, N=60, d=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = ds.stack(table, ds.Mixture(1e6), ds.JensenShannon(), solver=Minimax(rounds=200, critic_steps=1))
    np.testing.assert_allclose(fit.weights, 1 / 3, atol=0.02)


@pytest.mark.parametrize("structure", ["scalar", "diagonal", "full"])
def test_fits_by_least_squares_can_be_saved(tmp_path, structure):
    fit = ds.stack(make_table(), ds.SampleAggregation(structure), ds.MeanScore())
    fit.save(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json").gap == fit.gap


def test_fits_with_numpy_numbers_in_them_can_be_saved(tmp_path, table):
    numbers: Any = (np.float32(1.5), np.int64(10))
    ds.stack(table, ds.Mixture(numbers[0]), ds.EnergyScore(draws=numbers[1])).save(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json").form == ds.Mixture(1.5)


def test_draws_in_files_can_be_stacked_for_a_sum(tmp_path, table):
    for k, name in enumerate(table.names):
        ds.adapters.to_file(
            tmp_path / f"{name}.npz", theta=table.theta, log_q=table.log_q[k], draws=table.draws[k]
        )
    score = ds.LogScore() + ds.EnergyScore()
    fit = ds.stack(ds.adapters.from_files(str(tmp_path / "*.npz")), score=score)
    np.testing.assert_allclose(fit.weights, ds.stack(table, score=score).weights, atol=1e-6)


def test_an_impossible_row_without_weight_is_as_if_it_were_not_there():
    table = make_table(N=61)
    log_q, weights = table.log_q.copy(), np.ones(61)
    log_q[:, 7], weights[7] = -np.inf, 0
    table = ds.Table(table.theta, log_q=log_q, row_weights=weights)
    rest = table.select(rows=np.flatnonzero(weights))
    fit = ds.stack(table)
    assert fit.evaluate(table)["loss"] == pytest.approx(fit.loss)
    assert ds.compare(table, table).frame.equals(ds.compare(rest, rest).frame)


@pytest.mark.parametrize(
    "form", [ds.Mixture(), ds.SampleAggregation(draws=8), ds.LocalMixture(hidden=(4,))], ids=repr
)
def test_a_table_on_disk_is_diagnosed_as_in_memory(tmp_path, form):
    table = make_table(K=3, N=90, d=2)
    fit = ds.stack(table, form, ds.EnergyScore())
    opened = stored(table, tmp_path / "table.zarr", blocks=4, memory=2**24)
    np.testing.assert_allclose(fit.apply(opened).draws(5, 1), fit.apply(table).draws(5, 1))
    here, there = (ds.diagnostics.ranks(t, fit).methods["stacked"] for t in (table, opened))
    np.testing.assert_allclose(there, here)
    for score in (ds.RankMoments(), ds.JensenShannon(draws=5)):
        assert fit.evaluate(opened, score)["loss"] == pytest.approx(fit.evaluate(table, score)["loss"])
    weights = torch.as_tensor(np.random.default_rng(0).dirichlet(np.ones(90)))
    here, there = (float(fit.view(t).reweighted(weights).mean_of(ds.EnergyScore().rows)) for t in (table, opened))
    assert there == pytest.approx(here)


class Global:
    """Draws from torch's global generator, slowly."""

    def sample(self, n, y):
        first = torch.randn(n, *y.shape)
        threading.Event().wait(0.01)
        return first + torch.randn(n, *y.shape)


def test_members_that_share_a_generator_draw_the_same_in_threads():
    theta = np.random.default_rng(0).normal(size=(12, 2))
    members = {"a": Global(), "b": Global(), "c": Global()}
    here = ds.tabulate(members, theta, theta, draws=4)
    with ThreadPoolExecutor(4) as pool:
        there = ds.tabulate(members, theta, theta, draws=4, client=pool)
    np.testing.assert_array_equal(there.mean, here.mean)


@pytest.mark.parametrize(
    ("form", "score", "solver"),
    [
        (ds.SampleAggregation(), ds.JensenShannon(), Descent()),
        (ds.LocalMixture(), ds.JensenShannon(), Gating()),
        (ds.SampleAggregation(), ds.JensenShannon() + ds.RankCvM(lambda theta, y: theta.sum(-1)), None),
    ],
)
def test_what_has_no_gradient_is_refused_before_anything_is_solved(table, form, score, solver):
    with pytest.raises(ds.IntractableError):
        ds.stack(table, form, score, solver=solver)


class Held:
    """Cannot travel to another process."""

    def __init__(self):
        self.lock = threading.Lock()

    def sample(self, n, y, seed):
        return np.zeros((n, *y.shape))


class Sometimes:
    """Has a density for some data only."""

    def log_prob(self, theta, y):
        if y[0, 0] > 0:
            raise ds.IntractableError("not here")
        return -(theta**2).sum(1)

    def sample(self, n, y, seed):
        return np.random.default_rng(seed).normal(size=(n, *y.shape))


def test_a_member_that_cannot_travel_is_left_out(tmp_path):
    theta = np.ones((5, 1))
    with pytest.warns(UserWarning, match="1 of 2 members are left out. held"), ThreadPoolExecutor(1) as pool:
        table = ds.tabulate({"held": Held(), "fine": Sometimes()}, theta, theta, draws=3, client=pool)
    assert table.names == ("fine",)


def test_a_density_for_some_rows_is_none():
    y = np.linspace(-1, 1, 120)[:, None]
    table = ds.tabulate([Sometimes()], y, y, draws=3)
    assert "log_q" not in table.gives
    assert "rank" in table.gives


def test_intervals_are_asked_for_by_miscoverage(table):
    applied = ds.stack(table).apply(table)
    with pytest.raises(ValueError, match=r"Did you mean alpha=0.1"):
        applied.interval(90)
    np.testing.assert_array_equal(applied.interval(1 - 0.9), applied.interval(0.1))


def test_levels_are_the_same_however_they_are_computed(table):
    fit = ds.stack(table, ds.IntervalAggregation(1 - 0.9), ds.IntervalScore(0.1))
    frame = ds.compare(table, table, {"ends": fit}).frame
    assert "ends" in set(frame["method"])


def test_stacking_members_that_say_nothing():
    table = make_table(K=3, N=60, d=2)
    constant = ds.Table(
        table.theta, mean=np.zeros((3, 60, 2)), quantiles={0.05: np.zeros((3, 60, 2)), 0.95: np.zeros((3, 60, 2))}
    )
    assert np.isfinite(ds.stack(constant, ds.SampleAggregation(), ds.MeanScore()).loss)
    assert np.isfinite(ds.stack(constant, ds.IntervalAggregation(intercept=False), ds.IntervalScore()).loss)


def test_metrics_that_could_not_be_judged_are_named(table):
    densities = ds.Table(table.theta, log_q=table.log_q)
    assert "Not judged: rank distance D" in str(ds.compare(densities, densities))


def test_numbers_that_are_not_finite_are_explained(table):
    log_q = table.log_q.copy()
    log_q[2, 5] = np.nan
    broken = ds.Table(table.theta, log_q=log_q)
    with pytest.warns(UserWarning, match=r"`log_q` of the test rows .* 'member_2' at 1 of 60 rows"):
        ds.compare(ds.Table(table.theta, log_q=table.log_q), broken)
