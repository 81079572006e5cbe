"""Tests for drystone.posterior and the allocation of draws."""

from typing import ClassVar

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.stats import kstest, norm

import drystone as ds
from drystone.forms.stratified import allocate


class Trap:
    """A member that must never be asked."""

    def log_prob(self, theta, y):
        raise AssertionError("evaluated")

    sample = log_prob


def fit_with(weights, names=tuple(ds.toy.MEMBERS)):
    fit = ds.stack(ds.toy.table(200, seed=1))
    return ds.Stacking(**{**vars(fit), "params": {"weights": np.array(weights)}, "names": tuple(names)})


WEIGHTS = [0.35, 0.25, 0.3, 0.1]


@pytest.fixture
def posterior():
    return fit_with(WEIGHTS).posterior(ds.toy.MEMBERS)


def mixture_cdf(y):
    def cdf(t):
        parts = [w * norm.cdf(t, y + m.shift, m.sd) for w, m in zip(WEIGHTS, ds.toy.MEMBERS.values(), strict=True)]
        return np.sum(parts, 0)

    return cdf


def test_shapes_follow_sbi(posterior):
    x, xs = torch.tensor([0.7]), torch.randn(4, 1)
    assert posterior.sample((), x).shape == (1,)
    assert posterior.sample((6,), x).shape == (6, 1)
    assert posterior.sample((6, 2), x[None]).shape == (6, 2, 1)
    assert posterior.sample_batched((6,), xs).shape == (6, 4, 1)
    assert posterior.sample_batched(torch.Size([6]), x=xs, show_progress_bars=False).shape == (6, 4, 1)
    assert posterior.log_prob(torch.randn(5, 1), x).shape == (5,)
    with pytest.raises(ValueError, match=r"`theta` must have shape \(S, d\); got \(6, 2, 1\)"):
        posterior.log_prob(torch.randn(6, 2, 1), x)
    assert posterior.log_prob_batched(torch.randn(4, 1), xs).shape == (1, 4)
    assert posterior.log_prob_batched(torch.randn(3, 4, 1), xs).shape == (3, 4)
    assert posterior.mean(x).shape == (1,)
    assert posterior.cov(x).shape == (1, 1)
    assert posterior.interval(x, 0.2).shape == (1, 2)


def test_a_number_of_draws_may_be_numpys(posterior):
    assert posterior.sample(np.int64(3), np.array([0.7])).shape == (3, 1)


def test_answers_are_of_the_kind_of_the_question(posterior):
    assert isinstance(posterior.sample((3,), np.array([0.7])), np.ndarray)
    x = torch.tensor([0.7], dtype=torch.float64)
    assert posterior.sample((3,), x).dtype == torch.float64
    assert posterior.log_prob(torch.randn(3, 1), x.float()).dtype == torch.float32


def test_draws_follow_the_mixture_and_so_does_every_prefix(posterior):
    draws = posterior.sample((4000,), np.array([0.7]), seed=5)[:, 0]
    assert kstest(draws, mixture_cdf(0.7)).pvalue > 1e-3
    assert kstest(draws[:400], mixture_cdf(0.7)).pvalue > 1e-3


def test_density_and_draws_agree(posterior):
    x = np.array([0.7])
    total, _ = quad(lambda t: np.exp(posterior.log_prob(np.array([[t]]), x)[0]), -20, 20)
    assert total == pytest.approx(1, abs=1e-6)
    draws = posterior.sample((5000,), x, seed=6)
    ratio = norm.pdf(draws[:, 0], 0.7, 0.8) / np.exp(posterior.log_prob(draws, x))
    assert abs(ratio.mean() - 1) < 4 * ratio.std() / np.sqrt(5000)


def test_batched_methods_agree_with_single_ones(posterior):
    xs, theta = np.random.default_rng(0).normal(size=(3, 1)), np.random.default_rng(1).normal(size=(5, 3, 1))
    batched = posterior.log_prob_batched(theta, xs)
    for b in range(3):
        np.testing.assert_allclose(batched[:, b], posterior.log_prob(theta[:, b], xs[b]))


def test_repeated_observations_are_given_to_members_in_parts(posterior, monkeypatch):
    xs, theta = np.random.default_rng(0).normal(size=(7, 1)), np.random.default_rng(1).normal(size=(5, 7, 1))
    whole, rows = posterior.log_prob_batched(theta, xs), []
    log_prob = type(posterior)._log_prob
    monkeypatch.setattr(type(posterior), "_log_prob", lambda *at: rows.append(len(at[2])) or log_prob(*at))
    monkeypatch.setattr("drystone.posterior.MOST_VALUES", 16)
    np.testing.assert_array_equal(posterior.log_prob_batched(theta, xs), whole)
    assert rows == [15, 15, 5]


def test_members_without_weight_are_never_evaluated():
    fit = fit_with([0.6, 0.0, 0.4, 0.0])
    members = {**ds.toy.MEMBERS, "left": Trap(), "wide": Trap()}
    posterior = fit.posterior(members)
    assert posterior.sample_batched((9,), np.zeros((2, 1))).shape == (9, 2, 1)
    assert np.isfinite(posterior.log_prob(np.zeros((3, 1)), np.zeros(1))).all()


def test_same_seed_same_draws_and_the_global_state_is_left_alone(posterior):
    x = torch.tensor([0.7])
    state = torch.random.get_rng_state()
    first, second, third = (posterior.sample((50,), x, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first, second)
    assert not torch.equal(first, third)
    assert torch.equal(state, torch.random.get_rng_state())


def test_members_that_take_no_seed_are_seeded_through_torch():
    class Noise:
        def sample(self, n, y):
            return torch.randn(n, len(y), 1)

    posterior = fit_with([0.5, 0.5], ["a", "b"]).posterior([Noise(), Noise()])
    x = torch.zeros(1)
    assert torch.equal(posterior.sample((20,), x, seed=1), posterior.sample((20,), x, seed=1))
    torch.manual_seed(0)
    first = posterior.sample((20,), x)
    torch.manual_seed(0)
    assert torch.equal(first, posterior.sample((20,), x))


def test_a_member_that_cannot_do_what_is_asked_is_named():
    class Draws:
        def sample(self, n, y):
            return np.zeros((n, len(y), 1))

    posterior = fit_with([0.5, 0.5], ["mcmc", "flow"]).posterior({"mcmc": Draws(), "flow": ds.toy.MEMBERS["left"]})
    assert posterior.sample((4,), np.zeros(1)).shape == (4, 1)
    with pytest.raises(ds.IntractableError, match=r"member 'mcmc' \(Draws\) has no `log_prob`"):
        posterior.log_prob(np.zeros((4, 1)), np.zeros(1))


def test_wrong_shapes_name_the_member():
    class Turned:
        def sample(self, n, y):
            return np.zeros((len(y), n, 1))

        def log_prob(self, theta, y):
            return np.zeros((len(theta), 1))

    posterior = fit_with([1.0], ["turned"]).posterior([Turned()])
    with pytest.raises(ValueError, match=r"member 'turned' must return shape \(n, N, d\) = \(4, 2, 1\)"):
        posterior.sample_batched((4,), np.zeros((2, 1)))
    with pytest.raises(ValueError, match=r"`log_prob` of member 'turned' must return shape \(N,\) = \(3,\)"):
        posterior.log_prob(np.zeros((3, 1)), np.zeros(1))


@pytest.mark.parametrize("array", ["theta", "y"])
def test_a_member_that_changes_its_arrays_is_named_and_changes_nothing_else(array):
    class Changing(ds.toy.Gaussian):
        def log_prob(self, theta, y):
            {"theta": theta, "y": y}[array][:] = 7.0
            return np.zeros(len(theta))

        def sample(self, n, y, seed=None):
            y[:] = 7.0
            return super().sample(n, y, seed)

    members = {"changes": Changing(0.0, 1.0), "next": ds.toy.MEMBERS["left"]}
    posterior = fit_with([0.5, 0.5], members).posterior(members)
    theta, x = np.zeros((3, 1)), np.zeros((3, 1))
    with pytest.raises(ValueError, match=f"member 'changes' changed `{array}` in place; work on a copy"):
        posterior.log_prob_batched(theta, x)
    with pytest.raises(ValueError, match="member 'changes' changed `y` in place; work on a copy"):
        posterior.sample_batched((4,), x)
    assert not theta.any()
    assert not x.any()


def test_wrong_arguments_say_what_to_do(posterior):
    with pytest.raises(ValueError, match="`x` is missing"):
        posterior.sample((3,))
    with pytest.raises(ValueError, match="use the batched method"):
        posterior.sample((3,), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="one observation per row"):
        posterior.sample_batched((3,), np.zeros(()))
    with pytest.raises(ValueError, match=r"alpha=0\.1 for a 90 % interval"):
        posterior.interval(np.zeros(1), 90)
    with pytest.raises(ValueError, match=r"`theta` must have shape \(S, B, d\) with B = 2"):
        posterior.log_prob_batched(np.zeros((4, 3, 1)), np.zeros((2, 1)))
    with pytest.raises(ValueError, match="expected 4 `members`"):
        posterior.fit.posterior(list(ds.toy.MEMBERS.values())[:3])
    with pytest.raises(ValueError, match=r"`members` lacks \['wide'\]"):
        posterior.fit.posterior({k: v for k, v in ds.toy.MEMBERS.items() if k != "wide"})


def test_allocation_is_unbiased_and_within_one_of_its_share():
    rng = np.random.default_rng(0)
    weights = np.array([0.313, 0.0, 0.152, 0.4, 0.135])
    counts = allocate(weights, 7, 20_000, rng)
    assert (counts.sum(1) == 7).all()
    assert np.abs(counts - 7 * weights).max() < 1
    assert (counts[:, 1] == 0).all()
    se = counts.std(0) / np.sqrt(20_000) + 1e-12
    assert (np.abs(counts.mean(0) - 7 * weights) < 4 * se).all()
    # Remainders are not tied to each other in pairs: some two members with remainders both get an extra draw.
    extra = counts - np.floor(7 * weights)
    assert ((extra[:, 0] > 0) & (extra[:, 2] > 0)).any()


def test_allocation_can_differ_by_row():
    weights = np.array([[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_array_equal(allocate(weights, 6, 3, np.random.default_rng(0)), [[6, 0], [3, 3], [0, 6]])


def test_members_of_the_wrong_dimension_are_named():
    class Flat:
        def sample(self, n, y, seed=None):
            return np.zeros((n, len(y), 2))

    fit = ds.stack(ds.toy.table(100))
    posterior = fit.posterior({**ds.toy.MEMBERS, "narrow": Flat()})
    with pytest.raises(ValueError, match=r"member 'narrow' must return shape \(n, N, d\) = \(\d+, 1, 1\); got"):
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


# ── as sbi users call it ─────────────────────────────────────────────────────────────────────────────────────


class Series:
    """N(mean of the data, 0.1²) with data of shape (2, 5), as a series of two channels."""

    def __init__(self, y_shape=None):
        if y_shape is not None:
            self.y_shape = y_shape

    def log_prob(self, theta, y):
        assert y.shape[1:] == (2, 5)
        return norm.logpdf(theta[:, 0], y.mean((1, 2)), 0.1)

    def sample(self, n, y, seed=None):
        assert y.shape[1:] == (2, 5)
        return y.mean((1, 2))[None, :, None] + 0.1 * np.random.default_rng(seed).normal(size=(n, len(y), 1))


def test_one_observation_may_have_any_shape_that_a_member_or_the_reference_knows():
    rng = np.random.default_rng(0)
    y = rng.normal(size=(6, 2, 5))
    table = ds.Table(y.mean((1, 2))[:, None], y=y, log_q=np.zeros((1, 6)), names=["series"], parameters=["theta"])
    known = fit_with([1.0], ["series"]).posterior([Series((2, 5))])
    referred = fit_with([1.0], ["series"]).posterior([Series()], reference=table)
    for posterior in (known, referred):
        assert posterior.sample((3,), y[0]).shape == (3, 1)
        assert posterior.sample((3,), torch.as_tensor(y[:1])).shape == (3, 1)
        assert posterior.log_prob(np.zeros((4, 1)), y[0]).shape == (4,)
        with pytest.raises(ValueError, match=r"one observation of shape \(2, 5\); got shape \(6, 2, 5\).*batched"):
            posterior.sample((3,), y)
        with pytest.raises(ValueError, match=r"one observation of shape \(2, 5\); got shape \(5, 2\)"):
            posterior.sample((3,), y[0].T)
    unknown = fit_with([1.0], ["series"]).posterior([Series()])
    assert unknown.sample((3,), y[:1]).shape == (3, 1)
    with pytest.raises(ValueError, match=r"give x\[None\]"):
        unknown.sample((3,), y[0])


def test_a_channel_of_one_is_not_taken_for_a_batch():
    class Channel(ds.toy.Gaussian):
        y_shape = (1, 3)

        def sample(self, n, y, seed=None):
            assert y.shape[1:] == (1, 3)
            return np.zeros((n, len(y), 1))

    posterior = fit_with([1.0], ["one"]).posterior([Channel(0.0, 1.0)])
    assert posterior.sample((2,), np.zeros((1, 3))).shape == (2, 1)
    assert posterior.sample((2,), np.zeros((1, 1, 3))).shape == (2, 1)


def test_a_default_observation_stands_for_those_that_are_not_given(posterior):
    x, theta = torch.tensor([0.7]), torch.zeros(3, 1)
    with pytest.raises(ValueError, match=r"`x` is missing.*set_default_x"):
        posterior.mean()
    assert posterior.set_default_x(x) is posterior
    assert torch.equal(posterior.sample((5,), seed=1), posterior.sample((5,), x, seed=1))
    assert torch.equal(posterior.log_prob(theta), posterior.log_prob(theta, x))
    assert torch.equal(posterior.potential(theta), posterior.log_prob(theta, x))
    assert torch.equal(posterior.mean(seed=0), posterior.mean(x, seed=0))
    assert torch.equal(posterior.cov(seed=0), posterior.cov(x, seed=0))
    assert torch.equal(posterior.interval(seed=0), posterior.interval(x, seed=0))
    assert torch.equal(posterior.map(seed=0), posterior.map(x, seed=0))
    with pytest.raises(ValueError, match="batched"):
        posterior.set_default_x(torch.zeros(4, 1))


def test_the_mode_is_the_highest_point_of_the_density(posterior):
    grid = np.linspace(-6, 8, 28_001)[:, None]
    density = posterior.log_prob(grid, np.array([0.7]))
    mode = posterior.map(np.array([0.7]), seed=0)
    assert mode.shape == (1,)
    assert mode[0] == pytest.approx(grid[density.argmax(), 0], abs=2e-3)
    assert posterior.map(torch.tensor([0.7])).dtype == torch.float32


def test_a_mode_on_the_edge_of_a_support_is_found():
    class Edge:
        """Density e^{−θ_1 − θ_2} for θ > 0."""

        def log_prob(self, theta, y):
            return np.where((theta > 0).all(1), -theta.sum(1), -np.inf)

        def sample(self, n, y, seed=None):
            return np.random.default_rng(seed).exponential(size=(n, len(y), 2))

    fit = ds.Stacking.single(["edge"], 0, parameters=["a", "b"])
    mode = fit.posterior([Edge()]).map(np.zeros(1), seed=0)
    assert (mode > 0).all()
    assert mode.max() < 0.01


def test_members_that_live_on_a_device_are_moved():
    class OnDevice(ds.toy.Gaussian):
        devices: ClassVar[list] = []

        def to(self, device):
            self.devices.append(device)

    member = OnDevice(0.0, 1.0)
    posterior = fit_with([0.5, 0.5], ["moves", "stays"]).posterior([member, ds.toy.MEMBERS["left"]])
    assert posterior.set_default_x(torch.zeros(1)).to("cpu") is posterior
    assert member.devices == [torch.device("cpu")]
    assert posterior.sample((3,)).device.type == "cpu"
    with pytest.raises(RuntimeError, match="device"):
        posterior.to("nowhere")


# ── at one observation ───────────────────────────────────────────────────────────────────────────────────────


def test_at_an_observation_there_are_draws_and_the_weights_in_use(posterior):
    here = posterior.at([0.7], draws=4000)
    assert here.draws.shape == (4000, 1)
    assert kstest(here.draws[:, 0], mixture_cdf(0.7)).pvalue > 1e-3
    assert here.weights == dict(zip(ds.toy.MEMBERS, WEIGHTS, strict=True))
    np.testing.assert_array_equal(here.mean, here.draws.mean(0))
    ends = np.quantile(here.draws[:, 0], [0.1, 0.9], method="weibull")  # the i-th of S draws is that of i/(S + 1)
    np.testing.assert_allclose(here.interval(0.2)[0], ends)
    assert "reference=table" in str(here)
    assert "Weights here: right 0.35" in str(here)


def test_a_reference_must_have_data_and_the_parameters_of_the_fit():
    fit = fit_with(WEIGHTS)
    with pytest.raises(ValueError, match="`reference` must hold the data `y`"):
        fit.posterior(ds.toy.MEMBERS, reference=ds.Table(np.zeros((3, 1)), log_q=np.zeros((4, 3))))
    other = ds.Table(np.zeros((3, 1)), y=np.zeros((3, 1)), log_q=np.zeros((4, 3)), parameters=["other"])
    with pytest.raises(ValueError, match="parameters of the fit"):
        fit.posterior(ds.toy.MEMBERS, reference=other)
