"""What sbi trained in several rounds, for one observation, is recognized where that can be known."""

import warnings

import numpy as np
import pytest
import torch
from sbi.inference import NLE, NPE, NPE_A
from sbi.utils import RestrictedPrior, get_density_thresholder

from drystone.adapters import from_sbi
from helpers.sbi_zoo import Quiet, nle, npe, prior, simulate

X_O = torch.tensor([0.2, -0.1])
SEVERAL = r"trained in several rounds.*at=y_o.*row_weights"


def begun(trainer, **options):
    """A trainer with one round of simulations, from the prior."""
    inference = trainer(prior=prior(), show_progress_bars=False, tracker=Quiet(), **options)
    return trained(inference.append_simulations(*simulate(60, seed=1)))


def trained(inference, **options):
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        inference.train(max_num_epochs=1, **options)
    return inference


def around_the_observation(inference, proposal, **options):
    """The trainer after a second round, whose simulations come from a proposal."""
    theta, x = simulate(60, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        inference.append_simulations(0.1 * theta + X_O, x, proposal=proposal)
    return trained(inference, **options)


def test_a_trainer_is_taken_as_the_posterior_it_builds():
    theta, x = (tensor.numpy() for tensor in simulate(5, seed=3))
    inference = begun(NPE, density_estimator="mdn")
    built = from_sbi(inference.build_posterior())
    np.testing.assert_array_equal(from_sbi(inference).log_prob(theta, x), built.log_prob(theta, x))
    np.testing.assert_array_equal(
        from_sbi(nle()).log_likelihood(theta, x), from_sbi(nle()._neural_net).log_likelihood(theta, x)
    )


def test_a_trainer_without_training_says_so():
    with pytest.raises(ValueError, match=r"this NPE_C is not trained yet; call its `train\(\)` first"):
        from_sbi(NPE(prior=prior(), tracker=Quiet()))


def test_a_trainer_of_two_rounds_is_named():
    inference = begun(NPE, density_estimator="mdn")
    inference = around_the_observation(inference, inference.build_posterior().set_default_x(X_O))
    with pytest.warns(UserWarning, match=rf"this NPE_C was {SEVERAL}"):
        from_sbi(inference)


def test_a_trainer_of_truncated_proposals_is_named():
    inference = begun(NPE, density_estimator="mdn")
    posterior = inference.build_posterior().set_default_x(X_O)
    inside = get_density_thresholder(posterior, num_samples_to_estimate_support=50)
    truncated = RestrictedPrior(prior(), inside)
    inference = around_the_observation(inference, truncated, force_first_round_loss=True)
    with pytest.warns(UserWarning, match=rf"this NPE_C was {SEVERAL}"):
        from_sbi(inference)


def test_a_likelihood_is_named_if_its_trainer_was_told_the_round():
    inference = begun(NLE, density_estimator="mdn")
    trained(inference.append_simulations(*simulate(60, seed=2), from_round=1))
    with pytest.warns(UserWarning, match=rf"this NLE_A was {SEVERAL}"):
        from_sbi(inference)


def test_a_posterior_that_is_corrected_for_its_proposal_is_named():
    inference = begun(NPE_A, density_estimator="mdn_snpe_a")
    inference = around_the_observation(inference, inference.build_posterior().set_default_x(X_O))
    with pytest.warns(UserWarning, match=rf"this NPE_A_Posterior was {SEVERAL}"):
        from_sbi(inference.build_posterior())


def test_a_default_observation_is_a_hint():
    posterior = begun(NPE, density_estimator="mdn").build_posterior().set_default_x(X_O)
    with pytest.warns(
        UserWarning, match=r"default observation.*from_sbi\(inference\).*if there were several.*at=y_o"
    ):
        from_sbi(posterior)


def test_one_round_is_silent():
    from_sbi(npe("mdn"))  # warnings are errors
    from_sbi(begun(NPE, density_estimator="mdn"))
