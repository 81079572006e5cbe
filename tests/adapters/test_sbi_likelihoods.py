"""Neural likelihoods and ratios of sbi as likelihood members, in one stack with its posteriors."""

import numpy as np
import pytest
import torch
from sbi.inference import ImportanceSamplingPosterior, MCMCPosterior
from sbi.neural_nets.net_builders import build_maf

import drystone as ds
from drystone.adapters import from_sbi
from helpers.sbi_zoo import fmpe, nle, npe, nre, prior, simulate


@pytest.fixture(scope="module")
def rows():
    return tuple(array.numpy().astype(float) for array in simulate(60, seed=9))


def test_a_neural_likelihood_is_sbis_density_of_the_data(rows):
    theta, y = rows
    inference = nle()
    member = from_sbi(inference.build_posterior(sample_with="mcmc"))
    tensors = [torch.as_tensor(array, dtype=torch.float32) for array in rows]
    with torch.no_grad():
        expected = inference._neural_net.log_prob(tensors[1][None], condition=tensors[0])[0]
    np.testing.assert_allclose(member.log_likelihood(theta, y), expected, rtol=1e-5)
    assert member.normalized_in_y
    assert member.simulate(theta, seed=3).shape == y.shape


def test_the_potential_without_its_prior_is_the_likelihood(rows):
    theta, y = rows
    posterior = nle().build_posterior(sample_with="mcmc")
    posterior.potential_fn.set_x(torch.as_tensor(y, dtype=torch.float32), x_is_iid=False)
    points = torch.as_tensor(theta, dtype=torch.float32)
    expected = posterior.potential_fn(points, track_gradients=False)[0] - prior().log_prob(points)
    np.testing.assert_allclose(from_sbi(posterior).log_likelihood(theta, y), expected, rtol=1e-4, atol=1e-4)


def test_a_ratio_is_sbis(rows):
    theta, y = rows
    member = from_sbi(nre().build_posterior(sample_with="rejection"))
    tensors = [torch.as_tensor(array, dtype=torch.float32) for array in rows]
    with torch.no_grad():
        expected = nre()._neural_net.unnormalized_log_ratio(*tensors)
    np.testing.assert_allclose(member.log_likelihood(theta, y), expected, rtol=1e-5)
    assert not member.normalized_in_y


def test_the_trained_estimator_itself_will_do(rows):
    theta, y = rows
    for inference in (nle(), nre()):
        of_posterior = from_sbi(inference.build_posterior(sample_with="mcmc"))
        np.testing.assert_array_equal(
            from_sbi(inference._neural_net).log_likelihood(theta, y), of_posterior.log_likelihood(theta, y)
        )


def test_an_estimator_of_theta_is_not_taken_for_one_of_y():
    theta, x = simulate(60, seed=1)
    y = torch.cat([x, x[:, :1]], 1)
    estimator = build_maf(theta, y)  # what NPE trains; NLE would have build_maf(y, theta)
    with pytest.raises(ValueError, match=r"density of theta given y.*DirectPosterior"):
        from_sbi(estimator).log_likelihood(theta.numpy(), y.numpy())
    assert from_sbi(build_maf(y, theta)).log_likelihood(theta.numpy(), y.numpy()).shape == (60,)


def test_importance_sampling_over_a_likelihood_is_the_likelihood(rows):
    theta, y = rows
    potential = nle().build_posterior(sample_with="mcmc").potential_fn
    member = from_sbi(ImportanceSamplingPosterior(potential, prior()))
    np.testing.assert_array_equal(
        member.log_likelihood(theta, y), from_sbi(nle()._neural_net).log_likelihood(theta, y)
    )


def test_chains_over_a_posterior_are_that_posterior(rows):
    theta, y = rows
    direct = npe("maf")
    chains = MCMCPosterior(direct.potential_fn, prior())
    np.testing.assert_allclose(from_sbi(chains).log_prob(theta, y), from_sbi(direct).log_prob(theta, y), atol=0.2)


def test_posteriors_likelihoods_and_ratios_are_stacked_by_log_score(rows):
    theta, y = rows
    likelihoods = {"nle": from_sbi(nle()._neural_net), "nre": from_sbi(nre()._neural_net)}
    members = {"npe": from_sbi(npe("maf")), "fmpe": from_sbi(fmpe(), error=0.2)}
    members |= ds.normalize(likelihoods, prior=prior(), proposal=members["npe"], draws=100)
    table = ds.tabulate(members, theta, y, draws=20)
    assert np.isfinite(table.log_q).all()
    fit = ds.stack(table)
    assert fit.gap < 1e-8
    stacked = fit.posterior(members)
    assert stacked.sample((15,), x=torch.as_tensor(y[0], dtype=torch.float32), seed=1).shape == (15, 2)


def test_two_ensembles_are_merged_without_losing_members():
    from sbi.inference import EnsemblePosterior

    ensemble = EnsemblePosterior([npe("maf"), npe("maf")])
    merged = from_sbi(ensemble, prefix="a-") | from_sbi(ensemble, prefix="b-")
    assert list(merged) == ["a-member_0", "a-member_1", "b-member_0", "b-member_1"]
