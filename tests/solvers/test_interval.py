"""Interval aggregation: the optimum of an independent linear programme, and conformal coverage."""

import numpy as np
import pytest
import scipy.sparse as sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import norm

import drystone as ds
from drystone.forms.interval import CONSTRAINTS
from drystone.solvers.quantile_regression import quantile_regression
from helpers.tables import make_table


def by_linear_programme(X, theta, tau, a, constraint, intercepts=0):
    """The same optimum from HiGHS: min τ a·u + (1 − τ) a·v subject to Xβ + u − v = θ."""
    N, K = X.shape
    cost = np.r_[np.zeros(K), tau * a, (1 - tau) * a]
    equations, right = sparse.hstack([sparse.csr_matrix(X), sparse.eye(N), -sparse.eye(N)]), theta
    weights = K - intercepts
    if constraint == "convex":
        total = np.r_[np.ones(weights), np.zeros(intercepts + 2 * N)]
        equations, right = sparse.vstack([equations, sparse.csr_matrix(total[None])]), np.r_[theta, 1]
    lowest = None if constraint == "free" else 0
    bounds = [(lowest, None)] * weights + [(None, None)] * intercepts + [(0, None)] * (2 * N)
    return linprog(cost, A_eq=equations.tocsr(), b_eq=right, bounds=bounds, method="highs").fun


def ends(N, K, kind, seed):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=N)
    X = 0.8 * theta[:, None] - 1.5 + 0.3 * rng.normal(size=(N, K)) + 0.3 * rng.normal(size=K)
    if kind == "collinear":
        X[:, K // 2 :] = X[:, : K - K // 2]
    if kind == "heavy tails":
        theta, X = theta + rng.standard_cauchy(N), X + 0.1 * rng.standard_cauchy((N, K))
    return X, theta, rng.dirichlet(np.ones(N))


@pytest.mark.parametrize("constraint", CONSTRAINTS)
@pytest.mark.parametrize("kind", ["generic", "collinear", "heavy tails"])
@pytest.mark.parametrize("size", [(300, 20), (45, 40), (30, 40), (7, 1)], ids=str)
@pytest.mark.parametrize("intercepts", [0, 1])
def test_the_optimum_is_that_of_a_linear_programme(constraint, kind, size, intercepts):
    N, K = size
    X, theta, a = ends(N, K, kind, seed=3)
    if intercepts:
        X = np.hstack([X, np.ones((len(X), 1))])
    for tau in (0.05, 0.5, 0.95):
        fit = quantile_regression(X, theta, tau, a, constraint, intercepts=intercepts)
        optimum = by_linear_programme(X, theta, tau, a, constraint, intercepts)
        assert fit.loss == pytest.approx(optimum, rel=1e-7, abs=1e-10)
        assert fit.loss - fit.gap <= optimum + 1e-9 * max(optimum, 1e-3)
        residual = theta - X @ fit.coefficients
        assert fit.loss == pytest.approx(a @ np.maximum(tau * residual, (tau - 1) * residual), rel=1e-6, abs=1e-10)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(2, 60),
    st.integers(1, 8),
    st.integers(0, 2**31),
    st.sampled_from(CONSTRAINTS),
    st.floats(0.02, 0.98),
)
def test_random_problems_agree_with_a_linear_programme(N, K, seed, constraint, tau):
    X, theta, a = ends(N, K, "generic", seed)
    fit = quantile_regression(X, theta, tau, a, constraint)
    assert fit.loss == pytest.approx(by_linear_programme(X, theta, tau, a, constraint), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 0.01])
@pytest.mark.parametrize("far", [1e3, -1e6, 1e8])
@pytest.mark.parametrize("intercepts", [0, 1])
@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_parameters_far_from_the_origin_are_fitted_as_well_as_near_it(constraint, intercepts, far, ridge):
    X, theta, a = ends(200, 6, "generic", seed=5)
    ones = np.ones((len(X), intercepts))
    near, fit = (
        quantile_regression(
            np.hstack([X + shift, ones]), theta + shift, 0.1, a, constraint, ridge, intercepts, tol=1e-10
        )
        for shift in (0.0, far)
    )
    assert fit.gap <= 1e-8 * fit.loss
    if constraint == "convex" or intercepts:  # nothing changes then but the intercept
        assert fit.loss == pytest.approx(near.loss, rel=1e-7)
    else:  # the constant in the columns is half an intercept
        free = quantile_regression(np.hstack([X, np.ones((200, 1))]), theta, 0.1, a, constraint, 0.0, 1)
        convex = quantile_regression(X, theta, 0.1, a, "convex", ridge)
        assert free.loss - 1e-9 <= fit.loss <= convex.loss + 1e-9


@pytest.mark.parametrize("constraint", CONSTRAINTS)
def test_a_ridge_is_certified_and_shrinks(constraint):
    X, theta, a = ends(200, 12, "collinear", 0)
    plain, ridged = (quantile_regression(X, theta, 0.1, a, constraint, ridge=r) for r in (0.0, 0.05))
    assert ridged.gap <= 1e-8 * ridged.loss
    assert np.linalg.norm(ridged.coefficients) <= np.linalg.norm(plain.coefficients) + 1e-9
    rng = np.random.default_rng(1)
    for _ in range(200):  # no nearby allowed point is better than the certificate says
        other = ridged.coefficients + 0.01 * rng.normal(size=12)
        if constraint != "free":
            other = np.maximum(other, 0)
        if constraint == "convex":
            other /= other.sum()
        r = theta - X @ other
        loss = a @ np.maximum(0.1 * r, -0.9 * r) + 0.05 * other @ other / 2
        assert loss >= ridged.loss - ridged.gap - 1e-12


def test_a_quantile_of_numbers_is_a_quantile():
    values = np.array([3.0, 1.0, 7.0, 5.0, 9.0])
    for tau, answer in ((0.1, 1.0), (0.5, 5.0), (0.9, 9.0)):
        fit = quantile_regression(np.ones((5, 1)), values, tau, np.full(5, 0.2))
        assert fit.coefficients[0] == pytest.approx(answer, abs=1e-6)


def test_the_gap_of_a_fit_is_that_of_the_interval_score(table):
    score = ds.IntervalScore((0.1, 0.3), scale=(1.0, 2.0, 0.5))
    fit = ds.stack(table, ds.IntervalAggregation((0.1, 0.3), weights="free"), score)
    assert fit.params["lower"].shape == (2, 3, 5)
    direct = 0.0
    for alpha in (0.1, 0.3):
        for tau in (alpha / 2, 1 - alpha / 2):
            for j, scale in enumerate((1.0, 2.0, 0.5)):
                X = table.quantile(tau)[:, :, j].T / scale
                optimum = by_linear_programme(X, table.theta[:, j] / scale, tau, table.row_weights, "free")
                direct += 2 / alpha * optimum / 3 / 2
    assert fit.loss == pytest.approx(direct, rel=1e-6)
    assert fit.gap <= 1e-8 * fit.loss


def test_shared_weights_are_the_same_for_all_parameters(table):
    fit = ds.stack(
        table, ds.IntervalAggregation(shared=True, weights="convex", intercept=True), ds.IntervalScore()
    )
    np.testing.assert_allclose(fit.params["lower"], fit.params["lower"][:1].repeat(3, 0))
    assert fit.params["upper"][0].sum() == pytest.approx(1)
    assert len(set(fit.params["lower_intercept"].round(9))) == 3  # an intercept each


def test_weights_are_chosen_by_cross_validation_unless_given():
    few = make_table(K=20, N=50, seed=4)
    fit = ds.stack(few, ds.IntervalAggregation(), ds.IntervalScore())
    assert fit.form != ds.IntervalAggregation()
    assert "cross-validation in 5 parts took" in fit.notes[0]
    other = make_table(K=20, N=400, seed=4)  # same members' quality, new rows
    free = ds.stack(few, ds.IntervalAggregation(weights="free"), ds.IntervalScore())
    assert fit.evaluate(other)["loss"] < free.evaluate(other)["loss"]


def test_weights_that_pay_are_free():
    """Members that are biased alike: only an intercept helps, and rows enough say so."""
    rng = np.random.default_rng(6)
    y = rng.normal(size=(600, 1))
    draws = y[:, None] + 1 + rng.normal(size=(3, 600, 60, 1))
    fit = ds.stack(
        ds.Table(y + rng.normal(size=(600, 1)), draws=draws), ds.IntervalAggregation(), ds.IntervalScore()
    )
    assert "with intercept" in fit.choice
    assert fit.params["lower_intercept"] == pytest.approx(-1, abs=0.3)


def test_ends_stay_within_the_range_of_the_members_unless_leaving_it_is_clearly_better():
    """Members that flatten y, each with waves of its own, and rare rows far out."""
    K, of_members = 25, np.random.default_rng(5)
    slope, scale, waves = of_members.uniform(0.2, 1, K), of_members.normal(size=K), of_members.normal(size=(K, 5))
    spread = np.sqrt(1 + 2 * (1 - slope) ** 2) * np.exp(0.1 * scale)

    def simulated(N, seed):
        rng = np.random.default_rng(seed)
        y = rng.standard_t(4, size=N)
        theta = y + rng.normal(size=N)
        mean = slope[:, None] * y + 0.25 * waves @ np.sin(0.7 * np.arange(1, 6)[:, None] * y)
        draws = mean[..., None] + spread[:, None, None] * rng.normal(size=(K, N, 100))
        return ds.Table(theta[:, None], draws=draws[..., None])

    few, new = simulated(400, 0), simulated(4000, 100)
    chosen, nonnegative, free = (
        ds.stack(few, ds.IntervalAggregation(weights=weights), ds.IntervalScore())
        for weights in ("auto", "nonnegative", "free")
    )
    assert chosen.choice.startswith("convex")
    for other in (nonnegative, free):
        assert chosen.evaluate(new)["loss"] < other.evaluate(new)["loss"]


@pytest.mark.parametrize("N", [2, 3, 9])
def test_with_hardly_any_rows_the_ends_are_averaged_or_chosen_but_not_fitted_at_any_price(N):
    fit = ds.stack(make_table(K=4, N=N, seed=1), ds.IntervalAggregation(), ds.IntervalScore())
    assert fit.converged
    assert fit.choice


def test_members_that_are_alike_are_left_alone():
    """With nothing to gain, doing nothing is the choice in most repetitions, and hardly anything is lost."""
    choices, ratios = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = rng.normal(size=(2100, 2))
        draws = y[:, None] + rng.normal(size=(6, 2100, 60, 2))
        table = ds.Table(y + rng.normal(size=(2100, 2)), draws=draws)
        few, new = table.select(rows=np.arange(100)), table.select(rows=np.arange(100, 2100))
        fit = ds.stack(few, ds.IntervalAggregation(), ds.IntervalScore())
        lower, upper = (new.quantile(level).mean(0) for level in (0.05, 0.95))
        outside = np.maximum(lower - new.theta, 0) + np.maximum(new.theta - upper, 0)
        choices.append(fit.choice)
        ratios.append(fit.evaluate(new)["loss"] / (upper - lower + 20 * outside).mean())
    assert choices.count("uniform") >= 5
    assert np.mean(ratios) < 1.005
    assert max(ratios) < 1.03


def test_crossed_ends_are_exchanged_and_counted():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(40, 1))
    lower, upper = np.sort(rng.normal(size=(2, 3, 40, 1)), 0)  # ends that know nothing
    table = ds.Table(theta, quantiles={0.45: lower, 0.55: upper})
    fit = ds.stack(table, ds.IntervalAggregation(0.9), ds.IntervalScore(0.9))
    assert any("crossed" in note for note in fit.notes)
    interval = fit.apply(table).interval(0.9)
    assert (interval[..., 0] <= interval[..., 1]).all()
    assert fit.gap is None  # of ends that are not exchanged


def test_a_conformal_margin_has_no_certificate():
    table = ds.toy.table(200, seed=1)
    plain, widened = (
        ds.stack(table, ds.IntervalAggregation(weights="convex", conformal=conformal), ds.IntervalScore())
        for conformal in (False, True)
    )
    assert plain.status is ds.solvers.Status.CERTIFIED
    assert widened.loss > plain.loss + plain.gap
    assert (widened.gap, widened.status) == (None, ds.solvers.Status.CONVERGED)


def test_a_ridge_takes_a_row_of_weight_two_for_two_rows():
    table = ds.toy.table(60, seed=3, draws=40)
    copies = np.random.default_rng(0).integers(1, 4, size=60)
    form = ds.IntervalAggregation(weights="nonnegative", ridge=0.1)
    weighted = ds.Table(table.theta, draws=table.draws, row_weights=copies)
    repeated = table.select(rows=np.repeat(np.arange(60), copies))
    fits = [ds.stack(rows, form, ds.IntervalScore()) for rows in (weighted, repeated)]
    np.testing.assert_allclose(fits[0].loss, fits[1].loss, rtol=1e-6)
    np.testing.assert_allclose(fits[0].params["lower"], fits[1].params["lower"], atol=1e-4)


@pytest.mark.parametrize("wrong", [False, True])
def test_conformal_intervals_cover_whatever_the_members_are(wrong):
    alphas, covered = (0.05, 0.1, 0.3), []
    form = ds.IntervalAggregation(alphas, weights="convex", conformal=True)
    for seed in range(500):
        rng = np.random.default_rng([seed, 7])
        theta = rng.normal(size=(64, 1))
        shift, width = (8.0, 0.01) if wrong else (0.2, 0.9)
        middle = (0 if wrong else 0.3) * theta + shift * rng.normal(size=(3, 1, 1))
        levels = [level for alpha in alphas for level in (alpha / 2, 1 - alpha / 2)]
        ends = [middle + width * (level - 0.5) + 0.1 * rng.normal(size=(3, 64, 1)) for level in levels]
        table = ds.Table(theta, quantiles=dict(zip(sorted(levels), np.sort(ends, 0), strict=True)))
        fit = ds.stack(table.select(rows=slice(0, 63)), form, ds.IntervalScore(alphas), seed=seed, tol=1e-4)
        applied = fit.apply(table.select(rows=[63]))
        ends_at = np.array([applied.interval(alpha)[0, 0] for alpha in alphas])
        covered.append((ends_at[:, 0] <= theta[63, 0]) & (theta[63, 0] <= ends_at[:, 1]))
    error = np.sqrt(np.array(alphas) * (1 - np.array(alphas)) / 500)
    assert (np.mean(covered, 0) >= 1 - np.array(alphas) - 3 * error).all()


@pytest.mark.parametrize(
    ("S", "fits", "observations"),
    [(10, 20, 30), *(pytest.param(S, 60, 100, marks=pytest.mark.slow) for S in (10, 20, 200))],
)
def test_conformal_intervals_at_new_data_cover_what_they_say(S, fits, observations):
    """Their ends are read off as many draws as those that the margin was found with."""
    alphas, N = (0.05, 0.1, 0.3), 300
    inside = np.zeros((fits, len(alphas)))
    for seed in range(fits):
        theta, y = ds.toy.simulate(N + observations, seed=100 + seed)
        draws = [m.sample(S, y[:N], seed=10 * seed + i) for i, m in enumerate(ds.toy.MEMBERS.values())]
        table = ds.Table(theta[:N], y[:N], draws=np.stack(draws).swapaxes(1, 2), names=list(ds.toy.MEMBERS))
        form = ds.IntervalAggregation(alphas, weights="convex", conformal=True)
        posterior = ds.stack(table, form, ds.IntervalScore(alphas), seed=seed).posterior(ds.toy.MEMBERS)
        for i, alpha in enumerate(alphas):
            ends = np.stack([posterior.interval(y[n], alpha, seed=n)[0] for n in range(N, N + observations)])
            inside[seed, i] = ((ends[:, :1] <= theta[N:]) & (theta[N:] <= ends[:, 1:])).mean()
    nominal, error = 1 - np.array(alphas), inside.std(0, ddof=1) / np.sqrt(fits)
    # On average over calibrations the coverage is between 1 − α and 1 − α + 1/(n + 1), of n = N/3 rows.
    assert (nominal - 3 * error < inside.mean(0)).all()
    assert (inside.mean(0) < nominal + 3 / N + 3 * error).all()


def test_conformal_needs_enough_rows_of_equal_weight(weighted_table):
    with pytest.raises(ValueError, match="needs rows of equal weight"):
        ds.stack(weighted_table, ds.IntervalAggregation(conformal=True), ds.IntervalScore())
    with pytest.raises(ValueError, match=r"needs 19 rows to calibrate on; a third of the table is 10"):
        ds.stack(make_table(N=30), ds.IntervalAggregation(0.05, conformal=True), ds.IntervalScore(0.05))


def test_levels_are_checked_and_must_match(table):
    with pytest.raises(ValueError, match=r"alpha must be in \(0, 1\); got 90. Did you mean alpha=0.1"):
        ds.IntervalAggregation(alpha=90)
    with pytest.raises(ValueError, match="one of free, nonnegative, convex, auto"):
        ds.IntervalAggregation(weights="positive")
    with pytest.raises(ds.IntractableError, match="must be the same levels"):
        ds.stack(table, ds.IntervalAggregation(0.1), ds.IntervalScore(0.2))
    theta, y = ds.toy.simulate(100, seed=0)
    tabulated = ds.tabulate(ds.toy.MEMBERS, theta, y, draws=50)
    with pytest.raises(ValueError, match=r"neither draws nor quantiles at level 0\.1 \(it has \[0\.05, 0\.95\]\)"):
        ds.stack(tabulated, ds.IntervalAggregation(0.2), ds.IntervalScore(0.2))
    fit = ds.stack(table, ds.IntervalAggregation(0.1), ds.IntervalScore(0.1))
    with pytest.raises(ValueError, match=r"fitted at alpha = 0.1, not 0.2"):
        fit.apply(table).interval(0.2)
    with pytest.raises(ds.IntractableError, match="no single set of weights"):
        _ = fit.weights


def test_aggregated_intervals_at_new_data():
    table = ds.toy.table(400, seed=1)
    fit = ds.stack(table, ds.IntervalAggregation(0.1, weights="convex"), ds.IntervalScore(0.1))
    posterior = fit.posterior(ds.toy.MEMBERS)
    x = np.array([1.3])
    ends = {}
    for end, tau in (("lower", 0.05), ("upper", 0.95)):
        quantiles = [x[0] + m.shift + m.sd * norm.ppf(tau) for m in ds.toy.MEMBERS.values()]
        ends[end] = fit.params[end][0] @ quantiles
    np.testing.assert_allclose(posterior.interval(x, seed=1)[0], [ends["lower"], ends["upper"]], atol=0.1)
    with pytest.raises(ds.IntractableError, match="has no d"):
        posterior.sample((3,), x)


def test_a_parameter_that_never_varies_has_an_interval():
    table = make_table(N=50, d=2)
    theta = table.theta.copy()
    theta[:, 1] = 3.0
    fit = ds.stack(ds.Table(theta, draws=table.draws), ds.IntervalAggregation(intercept=True), ds.IntervalScore())
    np.testing.assert_allclose(fit.apply(table).interval(0.1)[:, 1], 3.0, atol=1e-6)


def test_intervals_that_can_be_fitted_without_any_loss_are():
    X = np.array([[0.1083141, 0.78905131, -0.27021499], [-0.59617301, -0.35100249, 0.30747826]])
    fit = quantile_regression(X, np.array([1.67696119, 1.75902609]), 0.5, np.array([0.7, 0.3]), "nonnegative")
    assert fit.loss < 1e-9
    assert fit.gap < 1e-9


@pytest.mark.parametrize("weights", CONSTRAINTS)
def test_intervals_of_shifted_parameters_converge(weights):
    table = make_table(K=4, N=120, seed=2)
    far = ds.Table(table.theta + 1e6, draws=table.draws + 1e6)
    fit = ds.stack(far, ds.IntervalAggregation(weights=weights), ds.IntervalScore())
    assert fit.converged
    assert fit.gap <= 1e-8 * fit.loss


FORMS = [ds.Mixture(), ds.LocalMixture(), ds.SampleAggregation(), ds.IntervalAggregation()]


@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_one_draw_makes_no_interval(form):
    with pytest.raises(ValueError, match="at least 2 draws per member and simulation; the table has 1"):
        ds.stack(make_table(S=1), form, ds.IntervalScore())


def test_ends_part_of_the_way_to_doing_nothing_say_so_when_the_optimum_was_not_reached():
    solver = ds.solvers.InteriorPoint(steps=1)
    with pytest.warns(ds.ConvergenceWarning, match=r"InteriorPoint\(.*\) stopped after 2 steps"):
        fit = ds.stack(ds.toy.table(200, seed=1), ds.IntervalAggregation(), ds.IntervalScore(), solver=solver)
    assert fit.gap is None
    assert "of the way" in fit.choice


def test_conformal_ends_of_normalized_likelihoods_are_read_off_as_those_of_their_table():
    likelihood = ds.adapters.from_likelihood(lambda theta, y: norm.logpdf(y, theta, 1.0).sum(1))
    members = ds.normalize({"exact": likelihood}, prior=ds.tasks.Normal([0.0], [2.0]), draws=50)
    rng = np.random.default_rng(0)
    theta = 2 * rng.normal(size=(150, 1))
    table = ds.tabulate(members, theta, theta + rng.normal(size=theta.shape), draws=10)
    form = ds.IntervalAggregation(weights="convex", conformal=True)
    fit = ds.stack(table, form, ds.IntervalScore())
    posterior = fit.posterior(members)
    at_rows = np.stack([posterior.interval(y, seed=n) for n, y in enumerate(table.y[:5])])
    np.testing.assert_allclose(at_rows, fit.apply(table).interval(0.1)[:5])
