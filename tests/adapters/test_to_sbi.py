"""The stacked posterior in sbi's world: its diagnostics, its plots, and as one of its own posteriors."""

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from sbi.analysis import pairplot, sbc_rank_plot
from sbi.diagnostics import check_sbc, run_sbc, run_tarp
from sbi.diagnostics.lc2st import LC2ST
from sbi.inference import EnsemblePosterior
from sbi.inference.posteriors.base_posterior import NeuralPosterior
from sbi.utils.metrics import c2st

import drystone as ds
from drystone.adapters import from_sbi
from helpers.sbi_zoo import SD, fmpe, npe, prior, simulate

X_O = torch.tensor([0.3, -0.4])
# sbi asks for hundreds of everything; a test does with fewer.
few = pytest.mark.filterwarnings("ignore:(Number of|You are computing SBC).*:UserWarning")


@cache
def members():
    kinds = {kind: from_sbi(npe(kind)) for kind in ("maf", "nsf", "mdn")}
    return {**kinds, "fmpe": from_sbi(fmpe(), error=0.3)}


@cache
def stacked():
    theta, x = simulate(12, seed=11)
    table = ds.tabulate(members(), theta, x, draws=20, parameters=["a", "b"])
    return ds.stack(table, ds.Mixture(concentration=1.1)).posterior(members())


def with_weights(posterior, **weights):
    """The same posterior with other weights, by name."""
    fit = posterior.fit
    params = {"weights": np.array([weights.get(name, 0.0) for name in fit.names])}
    return ds.Stacking(**{**vars(fit), "params": params, "form": ds.Mixture()}).posterior(members())


@cache
def flows() -> Any:
    """Without the member whose draws are slow."""
    return with_weights(stacked(), maf=0.2, nsf=0.5, mdn=0.3)


def test_real_posteriors_of_several_kinds_are_stacked():
    posterior = stacked()
    assert posterior.fit.names == ("maf", "nsf", "mdn", "fmpe")
    assert posterior.fit.converged
    draws = posterior.sample((30,), X_O, seed=0)
    assert draws.dtype == torch.float32
    assert prior().support.check(draws).all()
    assert torch.isfinite(posterior.log_prob(draws, X_O)).all()


def test_it_can_be_pickled_as_ours_and_as_one_of_sbi():
    ours = pickle.loads(pickle.dumps(flows()))
    theirs = pickle.loads(pickle.dumps(flows().to_sbi().set_default_x(X_O)))
    draws = flows().sample((4,), X_O, seed=0)
    torch.testing.assert_close(ours.sample((4,), X_O, seed=0), draws, rtol=0, atol=0)
    torch.testing.assert_close(theirs.sample((4,), seed=0), draws, rtol=0, atol=0)
    torch.testing.assert_close(theirs.log_prob(draws), flows().log_prob(draws, X_O), rtol=0, atol=0)


def test_density_and_draws_agree():
    draws = flows().sample((6000,), X_O, seed=1)
    # The uniform density on a square around x_o, where the posterior is not small, has mean 1 over the draws.
    uniform = ((draws - X_O).abs().amax(-1) < SD) / (2 * SD) ** 2
    ratio = uniform / flows().log_prob(draws, X_O).exp()
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / len(ratio) ** 0.5 + 0.05


@few
def test_sbc_tarp_and_their_plots_take_it_as_it_is():
    theta, x = simulate(60, seed=12)
    torch.manual_seed(0)
    ranks, dap = run_sbc(theta, x, flows(), num_posterior_samples=50, show_progress_bar=False)
    assert ranks.shape == dap.shape == (60, 2)
    stats = check_sbc(ranks, theta, dap, num_posterior_samples=50)
    assert set(stats) == {"ks_pvals", "c2st_ranks", "c2st_dap"}
    ecp, alpha = run_tarp(theta, x, flows(), num_posterior_samples=50, show_progress_bar=False)
    assert ecp.shape == alpha.shape
    assert (ecp[0], ecp[-1]) == (0, 1)
    figure, _ = sbc_rank_plot(ranks, 50, plot_type="cdf")
    assert figure.axes


@few
def test_expected_coverage_takes_its_density():
    theta, x = simulate(5, seed=13)
    ranks, _ = run_sbc(
        theta, x, flows(), num_posterior_samples=20, reduce_fns=flows().log_prob, show_progress_bar=False
    )
    assert ranks.shape == (5, 1)


def test_lc2st_takes_its_draws():
    theta, x = simulate(60, seed=14)
    draws = flows().sample_batched((1,), x, seed=0)[0]
    test = LC2ST(theta, x, draws, classifier="random_forest", num_trials_null=1)
    test.train_on_observed_data(seed=0, verbosity=0)
    assert np.isfinite(test.get_statistic_on_observed_data(flows().sample((50,), X_O, seed=1), X_O))


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # sbi with NumPy 2
def test_pairs_are_plotted():
    figure, _ = pairplot([flows().sample((50,), X_O, seed=s) for s in (0, 1)], labels=["a", "b"])
    assert figure.axes


class Away:
    """N(y + shift, 0.05²): two of these with opposite shifts are far apart."""

    def __init__(self, shift):
        self.shift = shift

    def sample(self, n, y, seed):
        return y + self.shift + 0.05 * np.random.default_rng(seed).normal(size=(n, *y.shape))


@few
@pytest.mark.parametrize("order", [(-1.0, 1.0), (1.0, -1.0)])
def test_draws_are_exchangeable_whatever_the_order_of_the_members(order):
    pair = {str(shift): Away(shift) for shift in order}
    fit = ds.stack(ds.Table(np.zeros((3, 1)), log_q=np.zeros((2, 3)), names=list(pair)))
    posterior: Any = ds.Stacking(**{**vars(fit), "params": {"weights": np.array([0.5, 0.5])}}).posterior(pair)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(300, 1, generator=generator)
    signs = 2.0 * torch.randint(2, (300, 1), generator=generator) - 1
    theta = x + signs + 0.05 * torch.randn(300, 1, generator=generator)  # the stacked posterior is exact
    torch.manual_seed(2)
    _, dap = run_sbc(theta, x, posterior, num_posterior_samples=20, show_progress_bar=False)
    # The first draw of each posterior against the prior: indistinguishable, in either order.
    assert abs(float(c2st(dap, theta).mean()) - 0.5) < 0.08


# ── as one of sbi's own ──────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def neural() -> Any:
    return flows().to_sbi()


def test_it_is_a_neural_posterior_with_a_default_observation(neural):
    assert NeuralPosterior in type(neural).mro()
    with pytest.raises(ValueError, match="Context `x` needed"):
        neural.sample((3,))
    neural.set_default_x(X_O)
    assert neural.sample((3,)).shape == (3, 2)
    theta = flows().sample((5,), X_O, seed=0)
    torch.testing.assert_close(neural.log_prob(theta), flows().log_prob(theta, X_O))
    torch.testing.assert_close(neural.potential(theta, X_O + 0.1), flows().log_prob(theta, X_O + 0.1))
    _, x = simulate(4, seed=15)
    assert neural.sample_batched((3,), x, show_progress_bars=False).shape == (3, 4, 2)
    torch.testing.assert_close(neural.log_prob_batched(theta[:4], x), flows().log_prob_batched(theta[:4], x))
    with pytest.raises(TypeError, match="unexpected keyword"):
        neural.sample((3,), X_O, sample_with="mcmc")


def test_the_gradient_is_the_slope_of_the_density(neural):
    theta = flows().sample((6,), X_O, seed=3).requires_grad_()
    neural.potential(theta, X_O, track_gradients=True).sum().backward()
    h = 0.004
    for j in range(2):
        step = h * torch.eye(2)[j]
        rise = flows().log_prob(theta + step, X_O) - flows().log_prob(theta - step, X_O)
        torch.testing.assert_close(theta.grad[:, j], rise / (2 * h), atol=0.4, rtol=0.1)


def test_the_gradient_beside_a_bound_is_one_sided(neural):
    theta: Any = torch.tensor([[0.9999, -0.3], [0.2, -1.0]], requires_grad=True)
    neural.potential(theta, torch.tensor([0.9, -0.9]), track_gradients=True).sum().backward()
    assert torch.isfinite(theta.grad).all()


def test_the_mode_is_found(neural):
    torch.manual_seed(0)
    best = neural.set_default_x(X_O).map(num_iter=60, num_to_optimize=5, num_init_samples=100, learning_rate=0.05)
    ends = torch.linspace(-1, 1, 81)
    grid = torch.cartesian_prod(ends, ends)
    assert flows().log_prob(best, X_O).item() > flows().log_prob(grid, X_O).max().item() - 0.05


def test_it_can_be_a_member_of_sbis_ensembles(neural):
    both = EnsemblePosterior([neural, flows().to_sbi()])
    assert both.sample((6,), X_O).shape == (6, 2)


def test_an_ensemble_of_sbi_has_our_weights_and_density():
    ensemble = with_weights(stacked(), maf=0.25, mdn=0.75).to_sbi(ensemble=True)
    assert isinstance(ensemble, EnsemblePosterior)
    assert ensemble.posteriors == [npe("maf"), npe("mdn")]
    torch.testing.assert_close(ensemble.weights, torch.tensor([0.25, 0.75]))
    theta = flows().sample((6,), X_O, seed=4)
    ours = with_weights(stacked(), maf=0.25, mdn=0.75).log_prob(theta, X_O)
    torch.testing.assert_close(ensemble.log_prob(theta, X_O), ours, atol=0.3, rtol=0)


def test_a_member_without_weight_may_say_nan():
    class Broken:
        def log_prob(self, theta, y):
            return np.full(len(theta), np.nan)

    fit = with_weights(stacked(), maf=0.25, mdn=0.75).fit
    posterior = fit.posterior({**members(), "nsf": Broken()})
    theta = flows().sample((6,), X_O, seed=5)
    assert torch.isfinite(posterior.to_sbi().log_prob(theta, X_O)).all()
    assert torch.isfinite(posterior.to_sbi(ensemble=True).log_prob(theta, X_O)).all()


def test_what_is_no_ensemble_of_sbi_says_so():
    with pytest.raises(ValueError, match=r"of one class; got DirectPosterior, VectorFieldPosterior"):
        stacked().to_sbi(ensemble=True)
    toy = ds.stack(ds.toy.table(50)).posterior(ds.toy.MEMBERS)
    with pytest.raises(ValueError, match=r"are not members from sbi"):
        toy.to_sbi(ensemble=True)
    with pytest.raises(TypeError, match="`prior` must be a torch distribution"):
        toy.to_sbi(prior=ds.tasks.Uniform([0], [1]))  # pyright: ignore[reportArgumentType]
    sample = ds.stack(ds.toy.table(50), ds.SampleAggregation("diagonal"), ds.MeanScore()).posterior(ds.toy.MEMBERS)
    with pytest.raises(ValueError, match="only a Mixture is an EnsemblePosterior"):
        sample.to_sbi(ensemble=True)


def test_a_posterior_of_our_own_members_goes_to_sbi_too():
    toy = ds.stack(ds.toy.table(200)).posterior(ds.toy.MEMBERS)
    neural = toy.to_sbi(torch.distributions.Normal(torch.zeros(1), 5 * torch.ones(1))).set_default_x([0.7])
    torch.manual_seed(0)
    best = neural.map(num_iter=80, num_to_optimize=5, num_init_samples=100, learning_rate=0.05)
    grid = torch.linspace(-3, 4, 1401)[:, None]
    assert best.item() == pytest.approx(grid[toy.log_prob(grid, [0.7]).argmax()].item(), abs=0.05)


def test_it_takes_the_calls_of_sbis_own_ensembles(neural):
    fit = flows().fit
    weights = torch.tensor([w for w in fit.weights if w > 0], dtype=torch.float32)
    assert neural.num_components == len(neural.posteriors) == 3
    assert neural.posteriors == [npe("maf"), npe("nsf"), npe("mdn")]
    torch.testing.assert_close(neural.weights, weights)
    theta = flows().sample((7,), X_O, seed=6)
    neural.set_default_x(X_O)
    log_weights, log_probs = neural.log_prob(theta, individually=True)
    assert (log_weights.shape, log_probs.shape) == ((3, 1), (3, 7))
    torch.testing.assert_close(torch.logsumexp(log_weights + log_probs, 0), neural.log_prob(theta))
    options = {"num_iter": 3, "num_to_optimize": 2, "num_init_samples": 10}
    log_weights, modes = neural.map(individually=True, **options)
    assert len(log_weights) == len(modes) == 3
    assert neural.map(X_O, init_method=theta, show_progress_bars=False, **options).numel() == 2
    assert neural.to("cpu") is neural
    assert neural.sample((4,), X_O).shape == (4, 2)
    assert neural.potential(theta).shape == (7,)


def test_members_of_other_libraries_are_components_as_well():
    toy = ds.stack(ds.toy.table(200)).posterior(ds.toy.MEMBERS).to_sbi()
    assert toy.num_components == len(toy.posteriors) == len(toy.weights)
    theta = torch.zeros(3, 1)
    log_weights, log_probs = toy.log_prob(theta, torch.tensor([0.7]), individually=True)
    torch.testing.assert_close(
        torch.logsumexp(log_weights + log_probs, 0), toy.log_prob(theta, torch.tensor([0.7]))
    )
    assert toy.posteriors[0].sample((2,), torch.tensor([0.7])).shape == (2, 1)


def test_sbis_estimators_know_the_shape_of_an_observation(neural):
    assert members()["maf"].y_shape == (2,)
    with pytest.raises(ValueError, match=r"one observation of shape \(2,\); got shape \(3,\)"):
        flows().sample((2,), torch.zeros(3))
