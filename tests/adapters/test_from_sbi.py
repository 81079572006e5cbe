"""Members from sbi, for real."""

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sbi.inference import (
    EnsemblePosterior,
    ImportanceSamplingPosterior,
    MCMCPosterior,
    RejectionPosterior,
    VIPosterior,
)
from sbi.inference.posteriors import NPE_A_Posterior
from scipy.stats import truncnorm

import drystone as ds
from drystone.adapters import from_sbi
from helpers.global_state import global_state
from helpers.sbi_zoo import SD, Exact, fmpe, npe, prior, simulate

THETA, X = (tensor.numpy() for tensor in simulate(8, seed=7))
KINDS = ("maf", "nsf", "mdn")


def grid(n):
    """Midpoints of n × n cells of the prior's box, and the area of a cell."""
    ends = np.linspace(-1, 1, n + 1)
    middle = (ends[1:] + ends[:-1]) / 2
    return np.stack(np.meshgrid(middle, middle), -1).reshape(-1, 2), (2 / n) ** 2


def truncated(x) -> Any:
    """The exact posterior at rows x: a normal distribution held to the prior."""
    return truncnorm((-1 - x) / SD, (1 - x) / SD, x, SD)


@pytest.mark.parametrize("kind", KINDS)
def test_density_agrees_with_sbi_up_to_the_leakage_both_estimate(kind):
    posterior = npe(kind)
    ours = from_sbi(posterior, error=0.02).log_prob(THETA, X)
    torch.manual_seed(0)
    theirs = [
        float(posterior.log_prob(torch.tensor(t)[None], x=torch.tensor(x))[0])
        for t, x in zip(THETA, X, strict=True)
    ]
    np.testing.assert_allclose(ours, theirs, atol=0.12)  # four times both errors


@pytest.mark.parametrize("kind", KINDS)
def test_density_integrates_to_one_over_the_prior(kind):
    theta, area = grid(120)
    member = from_sbi(npe(kind), error=0.02)
    for x in X[:2]:
        total = np.exp(member.log_prob(theta, np.tile(x, (len(theta), 1)))).sum() * area
        assert total == pytest.approx(1, abs=0.08)


@pytest.mark.parametrize("kind", KINDS)
def test_draws_lie_within_the_prior_and_follow_the_density(kind):
    member, x = from_sbi(npe(kind), error=0.02), X[:1]
    draws = member.sample(4000, x, seed=1)[:, 0]
    assert np.abs(draws).max() <= 1
    # The mean of θ under the density, by quadrature, against that of the draws.
    theta, area = grid(120)
    density = np.exp(member.log_prob(theta, np.tile(x, (len(theta), 1)))) * area
    mean = density @ theta / density.sum()
    assert (np.abs(draws.mean(0) - mean) < 5 * draws.std(0) / np.sqrt(4000)).all()


def test_a_flow_matching_posterior_is_evaluated_for_all_rows_at_once():
    posterior = fmpe()
    member = from_sbi(posterior, error=0.2)
    theta, x = THETA[:3], X[:3]
    alone = [
        float(posterior.log_prob(torch.tensor(t)[None], x=torch.tensor(o))[0])
        for t, o in zip(theta, x, strict=True)
    ]
    np.testing.assert_allclose(member.member.log_prob(theta, x), alone, atol=1e-4)
    np.testing.assert_allclose(member.log_prob(theta, x), alone - np.log(member.acceptance(x)), atol=1e-4)
    draws = member.sample(20, x, seed=1)
    assert draws.shape == (20, 3, 2)
    assert np.abs(draws).max() <= 1


@pytest.mark.parametrize("kind", ["maf", "mdn", "fmpe"])
def test_same_seed_same_draws_and_the_global_generator_is_left_alone(kind):
    member = from_sbi(fmpe() if kind == "fmpe" else npe(kind))
    state = global_state()
    first, second, third = (member.sample(6, X[:2], seed=seed) for seed in (2, 2, 3))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)
    assert global_state() == state


@pytest.mark.parametrize("kind", ["maf", "mdn", "fmpe"])
def test_a_member_can_be_sent_to_another_process(kind):
    member = from_sbi(fmpe() if kind == "fmpe" else npe(kind), error=0.3)
    sent = pickle.loads(pickle.dumps(member))
    np.testing.assert_array_equal(sent.log_prob(THETA[:2], X[:2]), member.log_prob(THETA[:2], X[:2]))
    np.testing.assert_array_equal(sent.sample(3, X[:2], seed=0), member.sample(3, X[:2], seed=0))


def test_an_ensemble_is_unpacked():
    members = from_sbi(EnsemblePosterior([npe("maf"), npe("mdn")], weights=[0.9, 0.1]))
    assert list(members) == ["member_0", "member_1"]
    np.testing.assert_array_equal(members["member_1"].log_prob(THETA, X), from_sbi(npe("mdn")).log_prob(THETA, X))


def test_markov_chains_have_draws_and_no_density():
    posterior = MCMCPosterior(Exact(prior()), prior(), num_chains=20, warmup_steps=5, init_strategy="proposal")
    member, state = from_sbi(posterior), global_state()
    first, second = (member.sample(40, X[:2], seed=4) for _ in range(2))
    assert first.shape == (40, 2, 2)
    assert np.abs(first.mean(0) - X[:2]).max() < 0.3
    np.testing.assert_array_equal(first, second)
    assert global_state() == state
    assert not hasattr(member, "log_prob")
    fit = ds.stack(ds.Table(THETA, log_q=np.zeros((1, 8)), names=["mcmc"]))
    with pytest.raises(ds.IntractableError, match=r"member 'mcmc' .* has no `log_prob`, so no density"):
        fit.posterior({"mcmc": member}).log_prob(THETA, X[0])


def test_rejection_sampling_ends_in_time():
    posterior = RejectionPosterior(Exact(prior()), prior(), num_iter_to_find_max=3)
    member = from_sbi(posterior)
    assert not hasattr(member, "log_prob")
    draws = member.sample(200, X[:2], seed=0)
    exact = truncated(X[:2])
    assert (np.abs(draws.mean(0) - exact.mean()) < 5 * exact.std() / np.sqrt(200)).all()
    posterior.m = 1e30  # nothing is ever accepted
    with pytest.raises(ds.SamplingError, match=r"rejection sampling at x = .* gave up"):
        from_sbi(posterior, seconds=0.5).sample(5, X[:1], seed=0)


def test_importance_sampling_over_a_potential_of_ones_own_has_draws_and_no_density():
    member = from_sbi(ImportanceSamplingPosterior(Exact(prior()), prior(), method="sir"))
    assert not hasattr(member, "log_prob")  # sbi's errs high without bound
    draws, exact = member.sample(200, X[:2], seed=0), truncated(X[:2])
    assert (np.abs(draws.mean(0) - exact.mean()) < 5 * exact.std() / np.sqrt(200)).all()


def test_a_corrected_posterior_is_not_asked_for_a_batch_it_would_not_correct():
    class Corrected(NPE_A_Posterior):
        def __init__(self, posterior):
            self.__dict__.update(posterior.__dict__)
            self.asked = 0

        def log_prob(
            self, theta, x=None, norm_posterior=True, track_gradients=False, leakage_correction_params=None
        ):
            self.asked += 1
            return torch.full((len(theta),), -3.0)

        def sample(self, sample_shape: Any = (), x=None, *_: Any, **__: Any):
            return torch.zeros(*sample_shape, 2)

    posterior = Corrected(npe("mdn"))
    member = from_sbi(posterior)
    np.testing.assert_array_equal(member.log_prob(THETA, np.repeat(X[:2], 4, 0)), np.full(8, -3.0))
    assert posterior.asked == 2, "once for each different observation"
    assert member.sample(3, X, seed=0).shape == (3, 8, 2)


def test_an_amortised_variational_posterior_is_held_to_the_prior():
    potential = Exact(prior())
    potential.bounded = False  # what is −inf somewhere has no evidence lower bound
    posterior = VIPosterior(potential, prior())
    tiny: Any = {"n_particles": 8, "max_num_iters": 5, "num_transforms": 1, "hidden_features": 8}
    with torch.random.fork_rng():
        posterior.train_amortized(*simulate(100, seed=1), show_progress_bar=False, **tiny)
    member = from_sbi(posterior)
    for n in (1, 3):
        assert np.abs(member.sample(50, X[:n], seed=0)).max() <= 1
    raw = posterior.log_prob(torch.tensor(THETA), x=torch.tensor(X)).numpy()
    np.testing.assert_allclose(member.log_prob(THETA, X), raw - np.log(member.acceptance(X)), rtol=1e-4)


def test_what_cannot_be_amortised_is_refused():
    posterior = VIPosterior(Exact(prior()), prior())
    with pytest.raises(ValueError, match=r"fitted to one observation.*`train_amortized`"):
        from_sbi(posterior)
    with pytest.raises(TypeError, match=r"must be one of sbi's posteriors .*; got SimpleNamespace"):
        from_sbi(SimpleNamespace())  # pyright: ignore[reportArgumentType]


def test_an_estimator_that_leaks_everything_is_reported_not_waited_for():
    away = prior().__class__(torch.tensor([50.0, 50.0]), torch.tensor([51.0, 51.0]))
    member = from_sbi(npe("mdn"), prior=away)
    with pytest.raises(ds.SamplingError, match=r"0 of 1\d+ draws lie within"):
        member.sample(10, X[:1], seed=0)
    with pytest.raises(ds.SamplingError, match="0 of"):
        member.log_prob(np.full((1, 2), 50.5), X[:1])
