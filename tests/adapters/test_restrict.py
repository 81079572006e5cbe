"""Members restricted to a support: one acceptance rate for draws and density, bounded cost, no hang."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import kstest, norm, truncnorm, uniform

import drystone as ds
from drystone.adapters import from_functions, restrict
from drystone.adapters.restrict import GIVE_UP, RestrictedMember, support_of
from helpers.global_state import global_state

NORMAL = ds.toy.Gaussian(0.3, 0.8)  # q(θ|y) = N(y + 0.3, 0.8²)
BOX = ([-1.0], [1.5])


def exact_acceptance(y):
    return norm.cdf(1.5, y + 0.3, 0.8) - norm.cdf(-1.0, y + 0.3, 0.8)


@pytest.mark.parametrize("y", [0.2, 1.9])
def test_the_density_integrates_to_one_over_the_support(y):
    member = restrict(NORMAL, BOX, error=0.01)
    total, _ = quad(lambda t: np.exp(member.log_prob(np.array([[t]]), np.array([[y]]))[0]), -1.0, 1.5)
    assert total == pytest.approx(1, abs=0.04)  # four standard errors
    assert abs(total - 1) < abs(exact_acceptance(y) - 1) / 2, "no better than the density that leaks"
    outside = member.log_prob(np.array([[-1.01], [1.51]]), np.full((2, 1), y))
    assert np.isneginf(outside).all()


def test_draws_follow_the_truncated_distribution_in_order_and_in_every_row():
    y = np.array([[0.2], [1.9], [-0.7]])
    draws = restrict(NORMAL, BOX).sample(2000, y, seed=3)
    assert draws.shape == (2000, 3, 1)
    for row, centre in enumerate(y[:, 0] + 0.3):
        exact = truncnorm((-1 - centre) / 0.8, (1.5 - centre) / 0.8, centre, 0.8)
        assert kstest(draws[:, row, 0], exact.cdf).pvalue > 1e-3
        assert kstest(draws[:200, row, 0], exact.cdf).pvalue > 1e-3


def test_density_and_draws_have_the_same_acceptance():
    member, y = restrict(NORMAL, BOX, error=0.02), np.array([[1.9]])
    draws = np.asarray(member.sample(20_000, y, seed=4))[:, 0]
    density = np.exp(member.log_prob(draws, np.repeat(y, len(draws), 0)))
    ratio = 1 / 2.5 / density  # of the uniform density on the box, whose mean is 1
    assert abs(ratio.mean() - 1) < 4 * (ratio.std() / np.sqrt(len(ratio)) + 0.02)


def test_a_density_depends_on_the_set_of_rows_asked_for_and_on_nothing_else():
    member, again = restrict(NORMAL, BOX), restrict(NORMAL, BOX)
    theta, y = np.linspace(-0.9, 1.4, 7)[:, None], np.linspace(-2, 2, 7)[:, None]
    first = member.log_prob(theta, y)
    again.log_prob(theta[2:3], y[2:3])  # earlier calls
    some = np.array([4, 2, 0, 6, 1, 5, 3, 3, 2])  # order and repetitions
    np.testing.assert_array_equal(again.log_prob(theta[some], y[some]), first[some])
    far = np.where(np.arange(7)[:, None] == 5, 3.0, theta)  # other thetas, also outside
    expected = np.where(np.arange(7) == 5, -np.inf, first)
    np.testing.assert_array_equal(restrict(NORMAL, BOX).log_prob(far, y), expected)


def test_acceptance_is_exact_up_to_the_error_asked_for_in_every_row():
    y = np.linspace(-3, 3, 200)[:, None]
    member = restrict(NORMAL, BOX, error=0.05)
    assert isinstance(member, RestrictedMember)
    off = np.log(member.acceptance(y) / exact_acceptance(y[:, 0]))
    assert 0.01 < off.std() < 0.055
    assert abs(off.mean()) < 4 * 0.05 / np.sqrt(200)


def test_rows_are_estimated_together_and_once():
    asked = []

    def sample(n, y, seed):
        asked.append(len(y))
        return NORMAL.sample(n, y, seed)

    member = from_functions(NORMAL.log_prob, sample, prior=BOX)
    theta, y = np.linspace(-0.9, 1.4, 50)[:, None], np.repeat(np.linspace(-2, 2, 25), 2)[:, None]
    first = member.log_prob(theta, y)
    assert asked[0] == 25
    assert asked == sorted(asked, reverse=True), "only rows that are still vague are asked for again"
    assert len(asked) < 20
    asked.clear()
    np.testing.assert_array_equal(member.log_prob(theta, y), first)
    assert asked == []


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_draws_that_are_not_finite_are_no_leakage(bad):
    def sample(n, y, seed):
        draws = NORMAL.sample(n, y, seed)
        draws[0, y[:, 0] > 0] = bad
        return draws

    member = from_functions(NORMAL.log_prob, sample, prior=BOX)
    y = np.array([[-0.2], [0.7]])
    assert np.isfinite(member.sample(5, y[:1], seed=0)).all()
    with pytest.raises(ds.SamplingError, match=r"1 of 5 draws at y = \[0.7\] are not finite"):
        member.sample(5, y, seed=0)
    with pytest.raises(ds.SamplingError, match=r"1 of 400 draws at y = \[0.7\] are not finite"):
        member.log_prob(np.zeros((2, 1)), y)


def test_same_seed_same_draws_and_global_generators_are_left_alone():
    member = restrict(from_functions(sample=lambda n, y: torch.randn(n, len(y), 1) + np.random.randn()), BOX)  # noqa: NPY002
    state = global_state()
    first, second, third = (member.sample(40, np.zeros((2, 1)), seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)
    assert global_state() == state


def test_a_member_outside_the_support_is_given_up_after_a_stated_number_of_draws():
    asked = []

    def sample(n, y, seed):
        asked.append(n)
        return np.full((n, len(y), 1), 9.0)

    member = from_functions(NORMAL.log_prob, sample, prior=BOX)
    with pytest.raises(ds.SamplingError, match=r"0 of 1\d+ draws lie within the prior's support at y = \[0.7"):
        member.sample(100, np.full((3, 1), 0.7))
    assert sum(asked) <= 2 * GIVE_UP
    asked.clear()
    with pytest.raises(ds.SamplingError, match="The member puts its mass elsewhere"):
        member.log_prob(np.zeros((1, 1)), np.full((1, 1), 0.7))
    assert sum(asked) <= 2 * GIVE_UP


def test_tabulating_names_the_member_that_cannot_be_sampled():
    away = from_functions(NORMAL.log_prob, lambda n, y: np.full((n, len(y), 1), 9.0), prior=BOX)
    theta = np.linspace(-0.9, 1.4, 6)[:, None]
    with pytest.warns(UserWarning, match="1 of 2 members are left out. away: SamplingError: .*0 of"):
        table = ds.tabulate({"fine": NORMAL, "away": away}, theta, theta, draws=20)
    assert table.names == ("fine",)
    fit = ds.stack(ds.toy.table(50))
    posterior = fit.posterior({**ds.toy.MEMBERS, "left": away})
    with pytest.raises(ds.SamplingError, match="member 'left': 0 of"):
        posterior.sample((50,), np.zeros(1))


def test_draws_of_a_member_without_density_are_held_to_the_support_too():
    member = restrict(from_functions(sample=NORMAL.sample), BOX)
    assert not hasattr(member, "log_prob")
    assert np.abs(member.sample(100, np.zeros((4, 1)), seed=0) - 0.25).max() <= 1.25


def test_a_density_without_sampler_cannot_be_held_to_a_support():
    with pytest.raises(ds.IntractableError, match="needs its `sample`"):
        from_functions(NORMAL.log_prob, prior=BOX)


D = torch.distributions
SUPPORTS = {
    "a pair": ([-1.0, 0.0], [1.0, 2.0]),
    "an array": np.array([[-1.0, 0.0], [1.0, 2.0]]),
    "a tensor": torch.tensor([[-1.0, 0.0], [1.0, 2.0]]),
    "a support": ds.tasks.Support([-1.0, 0.0], [1.0, 2.0]),
    "a prior of ours": ds.tasks.Uniform([-1.0, 0.0], [1.0, 2.0]),
    "a vector": D.Independent(D.Uniform(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 2.0])), 1),
    "each parameter": D.Uniform(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 2.0])),
    "only a density": type(
        "Density",
        (),
        {"log_prob": lambda _, t: torch.where((t - torch.tensor([0.0, 1.0])).abs().amax(-1) > 1, -torch.inf, 0.0)},
    )(),
    "only a density, of NumPy": type(
        "Density", (), {"log_prob": lambda _, t: np.where(np.all(np.abs(t - [0.0, 1.0]) <= 1, -1), 0.0, -np.inf)}
    )(),
}


@pytest.mark.parametrize("prior", SUPPORTS.values(), ids=SUPPORTS)
def test_supports_of_every_kind_are_understood(prior):
    contains = support_of(prior)
    assert contains is not None
    theta = np.array([[[0.5, 1.5], [-0.5, -0.1]], [[1.1, 1.0], [1.0, 2.0]]])
    np.testing.assert_array_equal(contains(theta), [[True, False], [False, True]])


@pytest.mark.parametrize(
    "kind", ["a pair", "an array", "a support", "a prior of ours", "a vector", "each parameter"]
)
@pytest.mark.parametrize("d", [1, 3])
def test_a_prior_of_another_number_of_parameters_is_refused(kind, d):
    contains: Any = support_of(SUPPORTS[kind])
    with pytest.raises(ValueError, match=f"`prior` is one of 2 parameters; theta has {d}, in shape"):
        contains(np.zeros((5, d)))


def test_numbers_bound_every_parameter():
    contains: Any = support_of((0, 1))
    np.testing.assert_array_equal(contains(np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 1.3]])), [True, False])


@pytest.mark.parametrize("prior", [np.zeros((3, 2)), [[0.0], [1.0], [2.0]], np.zeros(2)[None], ([[0.0]], [[1.0]])])
def test_bounds_that_are_no_pair_are_refused(prior):
    with pytest.raises(
        ValueError, match=r"must be a \(lower, upper\) pair of \(d,\) arrays or one array \(2, d\)"
    ):
        restrict(NORMAL, prior)
    with pytest.raises(ValueError, match=r"bounds must both have shape \(d,\); got \(2,\) and \(3,\)"):
        restrict(NORMAL, ([0, 0], [1, 1, 1]))


@pytest.mark.parametrize(
    "prior",
    [None, ds.tasks.Normal([0.0], [1.0]), D.Normal(0.0, 1.0), D.MultivariateNormal(torch.zeros(2), torch.eye(2))],
)
def test_a_member_of_an_unbounded_prior_is_left_as_it_is(prior):
    assert restrict(NORMAL, prior) is NORMAL


def test_a_parameter_on_a_bound_in_double_precision_is_inside():
    contains: Any = support_of(D.Uniform(torch.tensor([0.0]).double(), torch.tensor([0.1]).double()))
    assert contains(np.array([[0.1]])).all()


def test_wrong_arguments_say_what_to_do():
    with pytest.raises(TypeError, match=r"`prior` must be a .* pair, a Support, or have a `support`"):
        restrict(NORMAL, 3)
    with pytest.raises(ValueError, match=r"`error` must be in \(0, 1\)"):
        restrict(NORMAL, BOX, error=2)
    with pytest.raises(ValueError, match="needs `log_prob`, `sample` or both"):
        from_functions()
    with pytest.raises(TypeError, match="`sample` must be a function; got ndarray"):
        from_functions(sample=np.zeros(3))  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    "prior",
    [
        uniform(0.0, 1.0),
        [torch.distributions.Uniform(torch.zeros(1), torch.ones(1))],
        [uniform(0.0, 1.0)],
        ds.tasks.Uniform([0.0], [1.0]),
    ],
    ids=["SciPy", "torch in a list", "SciPy in a list", "ours"],
)
def test_any_prior_that_training_takes_restricts(prior):
    contains = support_of(prior)
    assert contains is not None
    np.testing.assert_array_equal(contains(np.array([[-0.1], [0.5], [1.1]])), [False, True, False])
