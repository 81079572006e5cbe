"""Products of posteriors and likelihoods, and mixtures of likelihoods, against closed forms and other solvers."""

import re
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import kstest, norm
from scipy.stats import t as student_t

import drystone as ds
from drystone.solvers.product import _derivatives
from drystone.table import blocks
from helpers.stored_table import held
from helpers.tables import make_table

TAU, SD, K = 5.0, 2.0, 4
PRIOR = ds.tasks.Normal([0.0], [TAU])
SPREAD = 1 / np.sqrt(1 / TAU**2 + 1 / SD**2)


class Posterior:
    """Posterior of θ ~ N(0, τ²) given one of K measurements y_k = θ + e_k, independent errors e_k ~ N(0, 2²)."""

    def __init__(self, k):
        self.k = k

    def mean(self, y):
        return SPREAD**2 * y[:, self.k : self.k + 1] / SD**2

    def log_prob(self, theta, y):
        return norm.logpdf(theta, self.mean(y), SPREAD)[:, 0]

    def sample(self, n, y, seed):
        return self.mean(y) + SPREAD * np.random.default_rng(seed).normal(size=(n, len(y), 1))


class Likelihood:
    """Density of one of the measurements; ``shift`` makes it one up to a term in y."""

    def __init__(self, k, shift=0.0, sd=SD):
        self.k, self.shift, self.sd = k, shift, sd
        self.normalized_in_y = shift == 0

    def log_likelihood(self, theta, y):
        return norm.logpdf(y[:, self.k], theta[:, 0], self.sd) + self.shift * y[:, self.k]


def simulated(N, seed):
    rng = np.random.default_rng(seed)
    theta = TAU * rng.normal(size=(N, 1))
    return theta, theta + SD * rng.normal(size=(N, K))


def exact(theta, y):
    """Return the log posterior density given all measurements."""
    variance = 1 / (1 / TAU**2 + K / SD**2)
    return norm.logpdf(theta[:, 0], variance * y.sum(1) / SD**2, np.sqrt(variance))


MEMBERS = {f"m{k}": Posterior(k) for k in range(K)}
THETA, Y = simulated(300, 0)


@pytest.fixture(scope="module")
def table():
    return ds.tabulate(MEMBERS, THETA, Y, draws=0, points=200, prior=PRIOR)


def test_a_product_sharpens_as_the_closed_form_says_where_a_mixture_cannot(table):
    fit, mixture = ds.stack(table, ds.Product()), ds.stack(table)
    assert fit.gap <= 1e-6
    np.testing.assert_allclose(fit.weights, 1, atol=0.2)
    assert fit.loss == pytest.approx(-exact(THETA, Y).mean(), abs=0.01)
    assert fit.loss < mixture.loss - 0.4
    np.testing.assert_allclose(np.exp(fit.apply(table).log_q).mean(), np.exp(exact(THETA, Y)).mean(), rtol=0.1)


def test_the_product_of_likelihoods_is_that_of_their_posteriors(table):
    likelihoods = {f"m{k}": Likelihood(k, shift=0.3 * k) for k in range(K)}
    members = ds.normalize(likelihoods, prior=PRIOR, proposal=MEMBERS, draws=200)
    rows = slice(0, 60)
    of_likelihoods = ds.tabulate(members, THETA[rows], Y[rows], draws=0, points=500)
    fit, of_posteriors = ds.stack(of_likelihoods, ds.Product()), ds.stack(table.select(rows=rows), ds.Product())
    assert fit.loss == pytest.approx(of_posteriors.loss, abs=0.02)
    np.testing.assert_allclose(fit.weights, of_posteriors.weights, atol=0.1)
    mixed = {**{name: members[name] for name in ("m0", "m1")}, **{name: MEMBERS[name] for name in ("m2", "m3")}}
    of_both = ds.tabulate(mixed, THETA[rows], Y[rows], draws=0, points=500)
    assert of_both.likelihoods == {"m0": True, "m1": False}
    assert ds.stack(of_both, ds.Product()).loss == pytest.approx(fit.loss, abs=0.02)
    posterior = fit.posterior(members)
    grid = np.linspace(-25, 25, 2001)[:, None]
    density = np.exp(posterior.log_prob(grid, Y[3]))
    assert np.trapezoid(density, grid[:, 0]) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("simplex", [False, True])
def test_the_certificate_holds_against_another_solver(simplex):
    table = make_table(K=4, N=60, seed=3, points=30, row_weights=True)
    form = ds.Product(simplex=simplex)
    fit = ds.stack(table, form)

    def loss(w):
        return float(_derivatives(table, w, range(1), np.arange(0), form.prior_share)[0])

    assert loss(fit.weights) == pytest.approx(fit.loss, abs=1e-12)
    sums = [{"type": "eq", "fun": lambda w: w.sum() - 1}] if simplex else []
    found = minimize(loss, np.full(4, 0.25), bounds=[(0, None)] * 4, constraints=sums, method="SLSQP", tol=1e-14)
    assert fit.gap <= 1e-8
    assert fit.loss <= found.fun + 1e-9
    assert fit.loss - found.fun >= -1e-6


def test_derivatives_are_those_of_the_loss():
    table, w, h = make_table(K=3, N=20, seed=4, points=15), np.array([0.3, 0.0, 1.1]), 1e-5
    value, gradient, hessian = _derivatives(table, w, range(3), np.arange(3), 0.05)
    view = ds.Product(defensive=0.05).combine({"weights": torch.tensor(w)}, table)
    assert value == pytest.approx(-float(view.log_q().mean()))
    for k in range(3):
        step = h * np.eye(3)[k]
        up, down = (_derivatives(table, w + sign * step, range(2), np.arange(3), 0.05) for sign in (1, -1))
        assert gradient[k] == pytest.approx((up[0] - down[0]) / (2 * h), abs=1e-8)
        np.testing.assert_allclose(hessian[k], (up[1] - down[1]) / (2 * h), atol=1e-6)


@pytest.mark.parametrize("kind", ["posteriors", "likelihoods"])
def test_members_are_mixed_with_the_prior_before_they_are_multiplied(kind):
    members, w = MEMBERS, np.array([1.0, 0.5, 0.0, 0.7])
    if kind == "likelihoods":  # up to a term in y, which must not matter
        measured = {f"l{k}": Likelihood(k, shift=0.3 * k) for k in range(K)}
        members = ds.normalize(measured, prior=PRIOR, proposal=MEMBERS["m0"], draws=500)
    y, grid = np.array([[2.0, 1.0, 0.0, -9.0]]), np.linspace(-25, 25, 4001)[:, None]
    form = ds.Product(prior=PRIOR, defensive=0.01)
    table = ds.tabulate(members, THETA[:5], Y[:5], draws=0, points=100, prior=PRIOR)
    fit = ds.Stacking(**{**ds.stack(table, form).__dict__, "params": {"weights": w}})
    log_p = norm.logpdf(grid[:, 0], 0, TAU)
    log_g = log_p + sum(
        w_k * (np.logaddexp(np.log(0.99) + m.log_prob(grid, y), np.log(0.01) + log_p) - log_p)
        for w_k, m in zip(w, MEMBERS.values(), strict=True)
    )
    expected = log_g - np.log(np.trapezoid(np.exp(log_g), grid[:, 0]))
    log_q = fit.posterior(members).log_prob(grid, y[0])
    likely = expected > expected.max() - 4
    np.testing.assert_allclose(log_q[likely], expected[likely], atol=0.15)


def test_no_member_has_a_veto():
    theta = THETA[:50]
    y = np.column_stack([np.repeat(theta, 3, 1), theta[:, 0] + 60])  # the last is far off
    table = ds.tabulate(MEMBERS, theta, y, draws=0, points=300, prior=PRIOR)
    plain, defended = (
        ds.Product(defensive=share).combine({"weights": torch.ones(K)}, table).log_q().numpy()
        for share in (0.0, 1e-4)
    )
    others = ds.Product().combine({"weights": torch.tensor([1.0, 1.0, 1.0, 0.0])}, table).log_q().numpy()
    assert (plain < others - 40).all()
    np.testing.assert_allclose(defended, others, atol=1.0)
    lost = table.log_f.copy()
    lost[0, :, 0] = -np.inf  # not even a density of 0 at the truth is a veto
    spoiled = ds.Table(table.theta, log_f=lost, points=table.points, log_r=table.log_r, log_prior=table.log_prior)
    assert ds.Product().combine({"weights": torch.ones(K)}, spoiled).log_q().isfinite().all()


def test_a_likelihood_that_no_point_of_a_row_explains_says_nothing_there():
    table = make_table(K=3, N=40, seed=5, points=20)
    log_f = table.log_f.copy()
    log_f[1, 7] = -np.inf
    arrays = {"points": table.points, "log_r": table.log_r, "log_prior": table.log_prior}
    likelihoods = dict.fromkeys(table.names, False)
    spoiled = ds.Table(table.theta, log_f=log_f, likelihoods=likelihoods, names=table.names, **arrays)
    fit = ds.stack(spoiled, ds.Product())
    assert fit.gap <= 1e-6
    all_three, without = (
        ds.Product().combine({"weights": torch.tensor(w)}, spoiled).log_q().numpy()
        for w in ([0.5, 0.4, 0.3], [0.5, 0.0, 0.3])
    )
    assert all_three[7] == pytest.approx(without[7])
    assert np.isfinite(all_three).all()
    assert np.abs(all_three - without).max() > 0.01


def test_draws_are_of_the_members_mixed_with_the_prior_when_weights_sum_to_one():
    y, grid = np.array([[6.0, -6.0, 0.0, 0.0]]), np.linspace(-25, 25, 4001)[:, None]
    form, w = ds.Product(prior=PRIOR, defensive=0.3), np.array([0.5, 0.5, 0.0, 0.0])
    table = ds.tabulate(MEMBERS, THETA[:5], Y[:5], draws=0, points=100, prior=PRIOR)
    posterior = ds.Stacking(**{**ds.stack(table, form).__dict__, "params": {"weights": w}}).posterior(MEMBERS)
    density = np.exp(posterior.log_prob(grid, y[0]))
    share = np.cumsum(density) / density.sum()
    draws = posterior.sample((2000,), y[0], seed=1)[:, 0]
    assert kstest(draws, lambda x: np.interp(x, grid[:, 0], share)).pvalue > 1e-3


def test_a_fit_leaves_nothing_of_its_own_in_the_table():
    table = make_table(K=3, N=40, seed=5, points=20)
    ds.stack(table, ds.Product())
    assert not any(isinstance(kept, list) for kept in table._cache.values())


def test_a_share_of_the_prior_is_less_than_one():
    with pytest.raises(ValueError, match=r"`defensive` must be in \[0, 1\); got 1"):
        ds.Product(defensive=1)


def test_without_the_prior_only_weights_on_the_simplex_can_be_fitted():
    table = ds.tabulate(MEMBERS, THETA, Y, draws=0, points=100)
    assert table.log_prior is None
    with pytest.raises(ValueError, match=r"only Product\(simplex=True\)"):
        ds.stack(table, ds.Product())
    fit = ds.stack(table, ds.Product(simplex=True))
    assert fit.gap <= 1e-6
    mean = sum(w * m.mean(Y)[:, 0] for w, m in zip(fit.weights, MEMBERS.values(), strict=True))
    closed = norm.logpdf(THETA[:, 0], mean, SPREAD)
    assert fit.loss == pytest.approx(-closed.mean(), abs=0.01)


def test_draws_with_weights_that_sum_to_one_are_exact(table):
    fit = ds.stack(table, ds.Product(simplex=True))
    posterior = fit.posterior(MEMBERS)
    draws = posterior.sample_batched((4000,), Y[:3], seed=1)
    for n in range(3):
        mean = sum(w * m.mean(Y[n : n + 1])[0, 0] for w, m in zip(fit.weights, MEMBERS.values(), strict=True))
        assert kstest(draws[:, n, 0], norm(mean, SPREAD).cdf).pvalue > 1e-3
        assert len(np.unique(draws[:, n])) == 4000


def test_draws_and_density_of_a_sharp_product_are_those_of_the_closed_form(table):
    fit = ds.stack(table, ds.Product(prior=PRIOR, defensive=0))
    posterior = fit.posterior(MEMBERS)
    power = fit.weights.sum()
    variance = 1 / (1 / TAU**2 + power / SD**2)
    mean = variance * fit.weights @ Y[0] / SD**2
    draws = posterior.sample((2000,), Y[0], seed=2)
    assert kstest(draws[:, 0], norm(mean, np.sqrt(variance)).cdf).pvalue > 1e-3
    assert len(np.unique(draws)) > 1990
    points = mean + np.sqrt(variance) * np.linspace(-2, 2, 9)[:, None]
    closed = norm.logpdf(points[:, 0], mean, np.sqrt(variance))
    np.testing.assert_allclose(posterior.log_prob(points, Y[0]), closed, atol=0.15)
    again = posterior.log_prob(points[::-1], Y[0])[::-1]
    np.testing.assert_allclose(again, posterior.log_prob(points, Y[0]), rtol=1e-12)
    np.testing.assert_allclose(
        posterior.log_prob_batched(THETA[:40], Y[:40])[0], fit.apply(table).log_q[:40], atol=0.3
    )


@pytest.mark.parametrize("able", [1, 0], ids=["one can draw", "none can draw"])
def test_members_without_a_sampler_propose_no_points_and_are_multiplied(table, able):
    members = MEMBERS | {f"m{k}": ds.adapters.from_functions(Posterior(k).log_prob) for k in range(able, K)}
    without = ds.tabulate(members, THETA[:150], Y[:150], draws=0, points=400, prior=PRIOR)
    fit = ds.stack(without, ds.Product(prior=PRIOR))
    exact_fit = ds.stack(table.select(rows=slice(150)), ds.Product())
    assert fit.loss == pytest.approx(exact_fit.loss, abs=0.03)
    posterior = fit.posterior(members)
    # Points of the prior alone are few where a posterior is: single rows are noisy.
    errors = posterior.log_prob_batched(THETA[:50], Y[:50])[0] - fit.apply(without).log_q[:50]
    assert abs(errors.mean()) < 0.1
    variance = 1 / (1 / TAU**2 + fit.weights.sum() / SD**2)
    draws = posterior.sample((2000,), Y[0], seed=2)
    mean = variance * fit.weights @ Y[0] / SD**2
    assert draws.mean() == pytest.approx(mean, abs=0.15)
    assert draws.std() == pytest.approx(np.sqrt(variance), rel=0.15)


@pytest.mark.parametrize("n", [1, 200])
def test_data_that_no_member_explains_have_no_draws(n):
    def within_one(theta, y):
        return np.where(np.abs(y - theta)[:, 0] < 1, -np.log(2), -np.inf)

    within = ds.adapters.from_likelihood(within_one, normalized_in_y=True)
    prior = ds.tasks.Uniform([0.0], [1.0])
    members = ds.normalize({"a": within, "b": within}, prior=prior, draws=100)
    rng = np.random.default_rng(0)
    theta = rng.uniform(0, 1, (20, 1))
    table = ds.tabulate(members, theta, theta + rng.uniform(-1, 1, (20, 1)), draws=0, points=50)
    posterior = ds.stack(table, ds.LikelihoodMixture()).posterior(members)
    with pytest.raises(ds.SamplingError, match="LikelihoodMixture is 0 at all"):
        posterior.sample((n,), x=[5.0], seed=1)


def test_where_few_points_are_effective_a_density_has_more(table):
    # The product is thirty times narrower than its members: of 1,000 points about 50 would be effective.
    power = 250.0
    fit = ds.stack(table, ds.Product(prior=PRIOR, defensive=0))
    sharp = ds.Stacking(**{**fit.__dict__, "params": {"weights": np.full(K, power)}}).posterior(MEMBERS)
    variance = 1 / (1 / TAU**2 + K * power / SD**2)
    mean = variance * power * Y[:30].sum(1) / SD**2
    errors = sharp.log_prob_batched(mean[:, None], Y[:30])[0] - norm.logpdf(0, 0, np.sqrt(variance))
    assert np.sqrt((errors**2).mean()) < 0.08
    # The evaluated point is among the points, so that a density errs low; with independent points by 1/500.
    assert -0.05 < errors.mean() < 0.03


def test_a_product_needs_the_prior_at_new_data(table):
    fit = ds.stack(table, ds.Product())
    with pytest.raises(ds.IntractableError, match=r"needs the prior at new data: fit with Product\(prior=...\)"):
        fit.posterior(MEMBERS)


class DrawsSomething(ds.tasks.Normal):
    """A prior that cannot draw nothing."""

    def sample(self, n, rng):
        return np.stack([super(DrawsSomething, self).sample(1, rng)[0] for _ in range(n)])


def test_a_likelihood_with_hardly_any_weight_draws_no_points_from_the_prior():
    prior = DrawsSomething([0.0], [TAU])
    likelihood = ds.normalize({"b": Likelihood(1)}, prior=prior, proposal=Posterior(1), draws=50)
    fit = ds.Stacking.uniform(("a", "b"), parameters=("theta",))
    params = {"weights": np.array([0.95, 0.01])}
    fit = replace(fit, form=ds.Product(prior=prior), params=params)
    posterior = fit.posterior({"a": Posterior(0), **likelihood})
    assert np.isfinite(posterior.sample_batched((20,), Y[:30], seed=0)).all()


def test_a_loaded_product_has_its_prior_if_that_is_data(table, tmp_path):
    fit = ds.stack(table, ds.Product(prior=PRIOR))
    assert repr(fit.form) == "Product()"
    fit.save(tmp_path / "fit.json")
    loaded = ds.Stacking.load(tmp_path / "fit.json").posterior(MEMBERS)
    posterior = fit.posterior(MEMBERS)
    np.testing.assert_array_equal(loaded.sample((10,), Y[0], seed=0), posterior.sample((10,), Y[0], seed=0))
    np.testing.assert_array_equal(loaded.log_prob(THETA[:5], Y[0]), posterior.log_prob(THETA[:5], Y[0]))


def test_a_loaded_product_whose_prior_is_code_says_how_to_give_it_again(table, tmp_path):
    fit = ds.stack(table, ds.Product(prior=norm(0, TAU)))
    fit.save(tmp_path / "fit.json")
    loaded = ds.Stacking.load(tmp_path / "fit.json")
    np.testing.assert_array_equal(loaded.apply(table).log_q, fit.apply(table).log_q)
    with pytest.raises(ds.IntractableError, match=r"is code, .*Stacking.load\(path, form=Product\(prior=...\)\)"):
        loaded.posterior(MEMBERS).sample((10,), Y[0])
    again = ds.Stacking.load(tmp_path / "fit.json", form=ds.Product(prior=norm(0, TAU))).posterior(MEMBERS)
    np.testing.assert_array_equal(
        again.sample((10,), Y[0], seed=0), fit.posterior(MEMBERS).sample((10,), Y[0], seed=0)
    )


@pytest.mark.parametrize("form", [ds.Product(), ds.Product(simplex=True), ds.LikelihoodMixture()], ids=repr)
def test_fits_survive_the_disk_and_tables_are_worked_through_in_blocks(form, tmp_path):
    likelihoods = isinstance(form, ds.LikelihoodMixture)
    table = make_table(K=4, N=60, d=2, seed=8, points=25, likelihoods=likelihoods)
    fit = ds.stack(table, form)
    fit.save(tmp_path / "fit.json")
    again = ds.Stacking.load(tmp_path / "fit.json")
    assert again.form == form
    np.testing.assert_array_equal(again.apply(table).log_q, fit.apply(table).log_q)
    table.save(tmp_path / "table.zarr")
    on_disk = ds.Table.open(tmp_path / "table.zarr", memory=2**30)
    assert on_disk.likelihoods == table.likelihoods
    in_blocks = stored_with_points(table, tmp_path / "blocks.zarr", 3)
    for other in (on_disk, in_blocks, ds.Table.load(tmp_path / "table.zarr")):
        fitted = ds.stack(other, form)
        assert fitted.loss == pytest.approx(fit.loss, abs=1e-7)
        np.testing.assert_allclose(fitted.weights, fit.weights, atol=1e-5)
    assert fit.evaluate(in_blocks)["loss"] == pytest.approx(fit.loss)
    np.testing.assert_allclose(fit.apply(in_blocks).mean, fit.apply(table).mean)


def stored_with_points(table, path, n):
    """Write a table with shared points in about so many blocks, and open it with hardly any memory allowed."""
    from drystone.table.disk import Writer
    from drystone.table.statistics import as_arguments

    block = table.log_f.nbytes // n
    with Writer(path, table.N, table.names, table.parameters, block=block) as new:
        new.likelihoods = table.likelihoods
        rows = {name: getattr(table, name) for name in ("theta", "y", *blocks.point_arrays(table))}
        new.write(0, **rows, **as_arguments(held(table)))
    return ds.Table.open(path, memory=2**16)


def test_statistics_come_from_the_weighted_points(table):
    applied = ds.stack(table, ds.Product()).apply(table)
    variance = 1 / (1 / TAU**2 + K / SD**2)
    mean = variance * Y.sum(1) / SD**2
    assert np.abs(applied.mean[:, 0] - mean).mean() < 0.15
    assert np.sqrt(applied.cov.mean()) == pytest.approx(np.sqrt(variance), rel=0.1)
    np.testing.assert_allclose(applied.rank[:, 0], norm.cdf(THETA[:, 0], mean, np.sqrt(variance)), atol=0.25)
    width = np.diff(applied.interval(0.1)[:, 0]).mean()
    assert width == pytest.approx(2 * 1.645 * np.sqrt(variance), rel=0.1)
    assert applied.draws(50).shape == (300, 50, 1)


def test_other_scores_are_evaluated_and_not_fitted(table):
    fit = ds.stack(table, ds.Product())
    for score in (ds.EnergyScore(), ds.RankCvM(), ds.MomentScore(), ds.IntervalScore(), ds.MeanScore()):
        with pytest.raises(ds.IntractableError, match="Product is fitted by LogScore alone"):
            ds.stack(table, ds.Product(), score)
        assert np.isfinite(fit.evaluate(table, score)["loss"])
    with pytest.raises(ds.IntractableError, match="fitted by LogScore alone"):
        ds.stack(table, ds.Product(), ds.LogScore() + ds.RankCvM())


def test_products_are_compared_on_tables_with_and_without_draws():
    for keep in (False, True):
        table = ds.tabulate(MEMBERS, THETA[:60], Y[:60], draws=30, points=50, prior=PRIOR, keep_draws=keep)
        fits = {"product": ds.stack(table, ds.Product()), "mixture": ds.stack(table)}
        frame = ds.compare(table, table, fits).frame
        values = {(row["metric"], row["method"]): row["value"] for row in frame.to_dict("records")}
        assert values["log density", "product"] > values["log density", "mixture"] + 0.3
        assert values["moment error", "product"] < values["moment error", "mixture"]


def test_the_monte_carlo_error_is_stated_and_covers_what_other_points_give():
    losses, stated = [], []
    for seed in range(8):
        table = ds.tabulate(MEMBERS, THETA[:40], Y[:40], draws=0, points=60, prior=PRIOR, seed=seed)
        fit = ds.Stacking(**{**ds.stack(table, ds.Product()).__dict__, "params": {"weights": np.ones(K)}})
        losses.append(fit.evaluate(table)["loss"])
        note = ds.stack(table, ds.Product()).notes[-1]
        stated.append(float(note.split("standard error of ")[1].split(" ")[0]))
    assert 0.4 < np.std(losses, ddof=1) / np.mean(stated) < 2.5


def test_a_member_with_density_zero_at_a_truth_takes_no_part():
    table = make_table(K=3, N=40, seed=5, points=20)
    log_f = table.log_f.copy()
    log_f[1, 7, 0] = -np.inf
    log_f[2, 9, 4] = -np.inf
    spoiled = ds.Table(table.theta, log_f=log_f, points=table.points, log_r=table.log_r, log_prior=table.log_prior)
    fit = ds.stack(spoiled, ds.Product(defensive=0))
    assert fit.weights[1] == 0
    assert "density is 0 at the truth of a row: member_1" in " ".join(fit.notes)
    assert fit.gap <= 1e-6


@pytest.mark.parametrize(("dof", "simplex"), [(1, False), (2, False), (2, True)])
def test_tails_heavier_than_the_priors_do_not_hide_the_optimum(dof, simplex):
    # log q − log p is 10⁴ and more far out, where the prior has no mass.
    class HeavyTailed(Posterior):
        def log_prob(self, theta, y):
            return student_t.logpdf(theta, dof, self.mean(y), 0.5 * SPREAD)[:, 0]

        def sample(self, n, y, seed):
            rng = np.random.default_rng(seed)
            return self.mean(y) + 0.5 * SPREAD * rng.standard_t(dof, size=(n, len(y), 1))

    members = {f"m{k}": HeavyTailed(k) for k in range(2)}
    table = ds.tabulate(members, THETA[:100], Y[:100], draws=0, points=300, prior=PRIOR)
    fit = ds.stack(table, ds.Product(prior=PRIOR, simplex=simplex))
    first = np.linspace(0.1, 0.9, 9)
    for total in (1.0,) if simplex else (0.6, 0.8, 0.9, 1.0):
        for w in total * np.stack([first, 1 - first], 1):
            other = replace(fit, params={"weights": w})
            assert fit.loss <= other.evaluate(table)["loss"] + fit.gap + 1e-9


@pytest.mark.parametrize("simplex", [False, True])
@pytest.mark.parametrize("shift", [300.0, 1e6])
def test_a_member_that_is_far_from_every_truth_takes_no_part(shift, simplex):
    class Far(Posterior):
        def log_prob(self, theta, y):
            return super().log_prob(theta - shift, y)

        def sample(self, n, y, seed):
            return super().sample(n, y, seed) + shift

    settings = {"draws": 0, "points": 100, "prior": PRIOR}
    fit = ds.stack(ds.tabulate({**MEMBERS, "far": Far(0)}, THETA[:60], Y[:60], **settings), ds.Product(simplex))
    assert fit.weights[-1] == pytest.approx(0, abs=1e-6)
    assert fit.gap <= 1e-6
    alone = ds.stack(ds.tabulate(MEMBERS, THETA[:60], Y[:60], **settings), ds.Product(simplex))
    assert fit.loss == pytest.approx(alone.loss, abs=0.1)


def test_a_product_of_nothing_but_a_hopeless_member_is_the_prior():
    class Far(Posterior):
        def log_prob(self, theta, y):
            return super().log_prob(theta - 1e4, y)

        def sample(self, n, y, seed):
            return super().sample(n, y, seed) + 1e4

    members = {"far": Far(0)}
    table = ds.tabulate(members, THETA[:40], Y[:40], draws=0, points=300, prior=PRIOR)
    fit = ds.stack(table, ds.Product(prior=PRIOR))
    assert fit.weights == pytest.approx(0, abs=1e-6)
    assert fit.loss == pytest.approx(-PRIOR.log_prob(THETA[:40]).mean(), abs=0.5)
    posterior = fit.posterior(members)
    assert posterior.sample((2000,), Y[0], seed=1).std() == pytest.approx(TAU, rel=0.2)


def test_a_member_that_is_the_prior_gets_no_weight_and_does_no_harm():
    table = make_table(K=3, N=60, seed=6, points=30)
    with_prior = ds.Table(
        table.theta,
        log_f=np.concatenate([table.log_f, table.log_prior[None]]),
        points=table.points,
        log_r=table.log_r,
        log_prior=table.log_prior,
    )
    fit, without = ds.stack(with_prior, ds.Product()), ds.stack(table, ds.Product())
    assert fit.weights[3] == 0
    assert fit.loss == pytest.approx(without.loss, abs=1e-8)


def test_duplicates_share_their_weight():
    table = make_table(K=2, N=60, seed=6, points=30)
    twice = ds.Table(
        table.theta,
        log_f=np.concatenate([table.log_f, table.log_f[:1]]),
        points=table.points,
        log_r=table.log_r,
        log_prior=table.log_prior,
    )
    fit, once = ds.stack(twice, ds.Product()), ds.stack(table, ds.Product())
    assert fit.gap <= 1e-8
    assert fit.weights[0] + fit.weights[2] == pytest.approx(once.weights[0], abs=1e-4)


def test_an_optimum_at_infinity_is_reached_as_far_as_numbers_go():
    table = make_table(K=2, N=5, seed=6, points=30)
    best = np.where(np.arange(31) == 0, 1.0, 0.0) + np.zeros((2, 5, 31))
    separable = ds.Table(
        table.theta, log_f=best, points=table.points, log_r=0 * table.log_r, log_prior=0 * table.log_prior
    )
    fit = ds.stack(separable, ds.Product())
    assert fit.loss == pytest.approx(-np.log(31), abs=1e-9)
    assert np.isfinite(fit.weights).all()


def test_the_guide_says_what_is_so(capsys):
    guide = (Path(__file__).parents[2] / "docs" / "products.md").read_text()
    names = {}
    for code in re.findall(r"```python\n(.*?)```", guide, re.DOTALL):
        exec(compile(code, "products.md", "exec"), names)
    assert "sum of all weights" in capsys.readouterr().out
    np.testing.assert_allclose(names["product"].weights, 1, atol=0.2)


class TestLikelihoodMixture:
    def members(self):
        wide = {"narrow": Likelihood(0, sd=1.5), "right": Likelihood(0), "wide": Likelihood(0, sd=4.0)}
        return ds.normalize(wide, prior=PRIOR, proposal=MEMBERS["m0"], draws=200)

    def test_weights_are_those_of_the_mixture_of_densities_of_y(self):
        members = self.members()
        table = ds.tabulate(members, THETA[:60], Y[:60], draws=0, points=100)
        fit = ds.stack(table, ds.LikelihoodMixture())
        of_data = np.stack([m.log_likelihood(THETA[:60], Y[:60]) for m in members.values()])
        np.testing.assert_array_equal(table.log_f[:, :, 0], of_data)
        direct = ds.stack(ds.Table(THETA[:60], log_q=of_data))
        np.testing.assert_allclose(fit.weights, direct.weights)
        assert fit.gap == direct.gap <= 1e-6
        grid = np.linspace(-30, 30, 3001)
        for n in range(5):
            sds = [1.5, SD, 4.0]
            joint = logsumexp([norm.logpdf(Y[n, 0], grid, sd) for sd in sds], axis=0, b=fit.weights[:, None])
            joint += norm.logpdf(grid, 0, TAU)
            log_z = np.log(np.trapezoid(np.exp(joint), grid))
            closed = np.interp(THETA[n, 0], grid, joint) - log_z
            assert fit.apply(table).log_q[n] == pytest.approx(closed, abs=0.25)
        posterior = fit.posterior(members)
        density = np.exp(posterior.log_prob(grid[:, None], Y[0]))
        assert np.trapezoid(density, grid) == pytest.approx(1, abs=0.05)
        draws = posterior.sample((1000,), Y[0], seed=1)
        assert draws.mean() == pytest.approx(np.trapezoid(grid * density, grid), abs=0.3)

    def test_members_that_are_not_densities_of_y_are_refused_by_name(self):
        ratio = ds.normalize({"ratio": Likelihood(0, shift=0.4)}, prior=PRIOR, proposal=MEMBERS["m0"], draws=100)
        members = {**self.members(), **ratio, "m0": MEMBERS["m0"]}
        table = ds.tabulate(members, THETA[:20], Y[:20], draws=0, points=30)
        with pytest.raises(ds.IntractableError, match=r"ratio, m0 are not"):
            ds.stack(table, ds.LikelihoodMixture())
        assert ds.stack(table.select(members=["narrow", "wide"]), ds.LikelihoodMixture()).converged


class TestSharedPoints:
    def test_the_first_point_is_the_truth_and_the_weights_are_unbiased(self, table):
        np.testing.assert_array_equal(table.points[:, 0], THETA)
        assert table.log_f.shape == (K, 300, 201)
        np.testing.assert_allclose(table.log_f[1, 5], Posterior(1).log_prob(table.points[5], Y[[5] * 201]))
        np.testing.assert_allclose(table.log_prior, norm.logpdf(table.points[..., 0], 0, TAU))
        for log_p in (table.log_prior, table.log_f[2]):  # E_r[p / r] = 1
            assert np.exp(log_p - table.log_r)[:, 1:].mean() == pytest.approx(1, abs=0.02)

    def test_rows_do_not_depend_on_chunks_or_workers(self, table, monkeypatch):
        monkeypatch.setattr("drystone.tabulation.points.NUMBERS", 201 * K * 7)
        some = ds.tabulate(MEMBERS, THETA, Y, draws=0, points=200, prior=PRIOR)
        np.testing.assert_array_equal(some.points, table.points)
        np.testing.assert_array_equal(some.log_f, table.log_f)

    def test_added_members_are_evaluated_at_the_same_points(self, tmp_path):
        class Counting(Posterior):
            rows = 0

            def log_prob(self, theta, y):
                self.rows += len(theta)
                return super().log_prob(theta, y)

        first = {"a": Counting(0), "b": Counting(1)}
        few = ds.tabulate(first, THETA[:30], Y[:30], draws=0, points=20, prior=PRIOR, directory=tmp_path)
        before = [member.rows for member in first.values()]

        class Sampler:
            def sample(self, n, y, seed):
                return Posterior(0).sample(n, y, seed)

        added = {"c": Posterior(2), **first, "chains": Sampler()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            more = ds.tabulate(added, THETA[:30], Y[:30], draws=0, points=20, prior=PRIOR, directory=tmp_path)
        assert [member.rows for member in first.values()] == before
        np.testing.assert_array_equal(more.points, few.points)
        np.testing.assert_array_equal(more.log_f[[1, 2]], few.log_f)
        np.testing.assert_array_equal(more.log_f[0, 4], Posterior(2).log_prob(more.points[4], Y[[4] * 21]))

    def test_a_posterior_that_has_a_likelihood_too_is_a_posterior(self):
        class Both(Posterior):
            def log_likelihood(self, theta, y):
                return norm.logpdf(y[:, self.k], theta[:, 0], SD)

        table = ds.tabulate({"both": Both(0)}, THETA[:10], Y[:10], draws=0, points=20, prior=PRIOR)
        assert table.likelihoods == {}
        np.testing.assert_array_equal(table.log_f[0, 3], Posterior(0).log_prob(table.points[3], Y[[3] * 21]))

    def test_members_without_a_density_have_no_values_there(self):
        class Sampler:
            def sample(self, n, y, seed):
                return Posterior(0).sample(n, y, seed)

        with pytest.warns(UserWarning, match="without `log_q`"):
            table = ds.tabulate({"s": Sampler(), **MEMBERS}, THETA[:30], Y[:30], draws=5, points=20, prior=PRIOR)
        np.testing.assert_array_equal(table.has("points"), [False, True, True, True, True])
        fit = ds.stack(table, ds.Product())
        assert fit.weights[0] == 0
        assert fit.dropped["members"] == ["s"]

    def test_joined_tables_keep_the_points_they_share(self, table):
        joined = table.select(members=["m0", "m2"]).join(table.select(members=["m1"]))
        np.testing.assert_array_equal(joined.log_f, table.log_f[[0, 2, 1]])
        bare = ds.Table(THETA, Y, log_q=np.zeros((1, 300)), names=["other"], parameters=table.parameters)
        np.testing.assert_array_equal(table.join(bare).has("points"), [True] * 4 + [False])
        others = ds.tabulate({"o": Posterior(0)}, THETA, Y, draws=0, points=200, prior=PRIOR, seed=9)
        with pytest.warns(UserWarning, match="different shared points"):
            np.testing.assert_array_equal(table.join(others).has("points"), [True] * 4 + [False])

    def test_what_is_missing_is_said(self, table):
        with pytest.raises(ValueError, match="needs shared points"):
            ds.stack(make_table(), ds.Product())
        with pytest.raises(ValueError, match="the table has no shared points"):
            _ = make_table().points
        with pytest.raises(ValueError, match="shared points need `points`, `log_r`, `log_f`"):
            ds.Table(THETA, log_f=table.log_f)
        outside = ds.tabulate(MEMBERS, THETA[:50], Y[:50], draws=0, points=20, prior=([-1.0], [1.0]))
        with pytest.raises(ValueError, match="the prior is 0 at the true parameters"):
            ds.stack(outside, ds.Product())


def test_draws_of_a_product_without_prior_lie_where_its_density_does_if_the_prior_is_known():
    members = {"a": ds.toy.Gaussian(0.0, 0.4), "b": ds.toy.Gaussian(0.0, 0.7)}
    prior, rng = ds.tasks.Uniform([0.0], [1.0]), np.random.default_rng(0)
    theta = rng.uniform(0.1, 0.9, (60, 1))
    y = theta + 0.3 * rng.normal(size=theta.shape)
    table = ds.tabulate(members, theta, y, draws=0, points=100, prior=prior)
    posterior = ds.stack(table, ds.Product(simplex=True, prior=prior)).posterior(members)
    draws = posterior.sample((500,), [0.1], seed=1)
    assert np.isfinite(posterior.log_prob(draws, [0.1])).all()


def test_rows_that_no_point_explains_have_no_draws_no_rank_and_no_mean():
    table = make_table(N=20, points=30, likelihoods=True)
    fit = ds.stack(table, ds.LikelihoodMixture())
    log_f = table.log_f.copy()
    log_f[:, 3, 1:] = -np.inf
    arrays = {name: getattr(table, name) for name in ("points", "log_r", "log_prior", "likelihoods")}
    applied = fit.apply(ds.Table(table.theta, log_f=log_f, names=table.names, **arrays))
    for of_rows in (applied.rank, applied.mean, applied.draws(50)[:, 0]):
        assert np.isnan(of_rows[3]).all()
        assert np.isfinite(np.delete(of_rows, 3, 0)).all()
