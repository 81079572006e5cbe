"""The ceilings of the tasks against values computed independently with other integrators and other seeds."""

import numpy as np
import pytest

import drystone as ds

# Mean log posterior density at the truth and its standard error.
KNOWN = {
    "gaussian_mixture": (-1.013, 0.008),
    "lotka_volterra": (17.8, 0.13),
    "sir": (8.04, 0.07),
    "slcp": (-1.35, 0.06),
    "two_moons": (3.788, 0.006),
}
SIZES = {"gaussian_mixture": 20_000, "lotka_volterra": 5, "sir": 12, "slcp": 150, "two_moons": 5_000}
SLOW_SIZES = {"lotka_volterra": 100, "sir": 300, "slcp": 2_000}


@pytest.mark.parametrize(
    ("name", "n"), [*SIZES.items(), *(pytest.param(*s, marks=pytest.mark.slow) for s in SLOW_SIZES.items())]
)
def test_ceilings_agree_with_known_values(name, n):
    mean, standard_error = KNOWN[name]
    ceiling = ds.tasks.get(name).ceiling(n, np.random.default_rng(5))
    assert ceiling.n == n
    assert abs(ceiling.mean - mean) < 4 * np.hypot(ceiling.standard_error, standard_error)


def test_the_gaussian_ceiling_is_the_negative_entropy_of_its_posterior():
    for prior_sd in (0.7, 100.0):
        variance = prior_sd**2 / (1 + prior_sd**2)
        ceiling = ds.tasks.Gaussian(prior_sd).ceiling(4000, np.random.default_rng(0))
        assert abs(ceiling.mean + 0.5 * np.log(2 * np.pi * np.e * variance)) < 4 * ceiling.standard_error


def test_a_ceiling_needs_two_simulations():
    with pytest.raises(ValueError, match="`n` must be at least 2"):
        ds.tasks.get("gaussian").ceiling(1, np.random.default_rng(0))
