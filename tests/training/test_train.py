"""Training: what is learnt, what is kept, and that a seed decides every bit."""

import os
import signal
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from scipy import stats

import drystone as ds

SMALL = ds.Sweep(transforms=(2, 2), units=(10, 16), layers=(0, 1), bins=(4, 5), batch_size=(40, 60))


@pytest.fixture(scope="module")
def simulations():
    """θ uniform on [0, 2] × [−1, 3], y = θ + noise, and a third column that says nothing."""
    rng = np.random.default_rng(0)
    theta = rng.uniform([0, -1], [2, 3], (500, 2))
    y = np.column_stack([theta + 0.2 * rng.normal(size=(500, 2)), np.full(500, 4.0)])
    return theta, y


BOX = ([0.0, -1.0], [2.0, 3.0])


def parameters(ensemble):
    return [member.flow.parameters for member in ensemble]


def assert_same(first, second):
    assert first.names == second.names
    for a, b in zip(parameters(first), parameters(second), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("family", ["maf", "nsf"])
def test_a_gaussian_posterior_is_learnt(family):
    rng = np.random.default_rng(1)
    theta = rng.normal(size=(3000, 1)) * 2 + 5
    y = theta + rng.normal(size=(3000, 1))
    configuration = ds.Configuration(family, transforms=2, units=16, layers=1, learning_rate=3e-3)
    member = ds.train(theta, y, sweep=[configuration], epochs=40, patience=10)[0]

    theta, y = theta[:500], y[:500]
    mean, variance = 5 + 0.8 * (y - 5), 0.8  # conjugate: prior N(5, 4), noise N(0, 1)
    exact = (-0.5 * (theta - mean) ** 2 / variance - 0.5 * np.log(2 * np.pi * variance))[:, 0]
    assert member.log_prob(theta, y).mean() == pytest.approx(exact.mean(), abs=0.03)
    draws = member.sample(4000, y[:3], seed=0)
    assert draws.shape == (4000, 3, 1)
    np.testing.assert_allclose(draws.mean(axis=0), mean[:3], atol=0.15)
    np.testing.assert_allclose(draws.std(axis=0), np.sqrt(variance), rtol=0.1)


def test_nothing_leaks_out_of_the_prior(simulations):
    theta, y = simulations
    member = ds.train(theta, y, members=1, family="nsf", sweep=SMALL, prior=BOX, epochs=3)[0]
    draws = member.sample(300, y[:20], seed=1)
    assert ((draws >= BOX[0]) & (draws <= BOX[1])).all()
    assert member.log_prob([[2.1, 0.0], [1.0, -1.1]], y[:2]).tolist() == [-np.inf, -np.inf]

    # The nearer to a bound, the denser: the tails of the flow end there.
    share = 1 / (1 + np.exp(-np.linspace(-15, 15, 401)))
    axes = [a + (b - a) * share for a, b in zip(*BOX, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    density = np.exp(member.log_prob(grid, y[:1])).reshape(401, 401)
    assert np.trapezoid(np.trapezoid(density, axes[1]), axes[0]) == pytest.approx(1, abs=5e-3)


def test_a_seed_decides_every_bit_whatever_the_number_of_workers(simulations):
    options = {"members": 4, "family": "nsf", "sweep": SMALL, "epochs": 3, "prior": BOX}
    one = ds.train(*simulations, workers=1, **options)
    assert_same(one, ds.train(*simulations, workers=2, **options))
    other = ds.train(*simulations, workers=2, seed=1, **options)
    assert not any(
        a.shape == b.shape and np.array_equal(a, b)
        for a, b in zip(parameters(one), parameters(other), strict=True)
    )


def test_a_member_is_the_same_however_many_there_are(simulations):
    few = ds.train(*simulations, members=2, sweep=SMALL, epochs=2)
    assert_same(few, ds.train(*simulations, members=3, sweep=SMALL, epochs=2)[:2])


def test_members_differ_and_share_the_validation_rows(simulations):
    a, b = ds.train(*simulations, sweep=[ds.Configuration(units=8)] * 2, epochs=2)
    assert not np.array_equal(a.flow.parameters, b.flow.parameters)
    assert a.scaling is b.scaling


SCRIPT = """
import sys, numpy as np, drystone as ds
rng = np.random.default_rng(0)
theta, y = rng.normal(size=(400, 2)), rng.normal(size=(400, 3))
sweep = ds.Sweep(transforms=(2, 2), units=(10, 16), layers=(0, 1), batch_size=(40, 60))
ds.train(theta, y, members=6, sweep=sweep, epochs=400, patience=None, directory=sys.argv[1], workers=1)
"""


def test_a_killed_run_continues_to_the_same_bits(tmp_path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"

    def start(directory):
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen([sys.executable, "-c", SCRIPT, str(directory)], env=environment)

    process = start(killed)
    deadline = time.monotonic() + 120
    while not list(killed.glob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {path.name: path.stat().st_mtime_ns for path in killed.glob("*.json")}
    assert 0 < len(finished) < 6
    assert start(killed).wait() == 0
    assert start(whole).wait() == 0

    # What was finished was not done again, and all of it is what an uninterrupted run gives.
    assert all((killed / name).stat().st_mtime_ns == time for name, time in finished.items())
    names = sorted(path.name for path in whole.glob("*.safetensors"))
    assert len(names) == 6
    assert sorted(path.name for path in killed.glob("*.safetensors")) == names
    for name in names:
        first, second = load_file(killed / name), load_file(whole / name)
        for key in second:
            np.testing.assert_array_equal(first[key], second[key])


def test_a_directory_of_other_data_is_not_continued(simulations, tmp_path):
    theta, y = simulations
    ds.train(theta, y, members=1, sweep=SMALL, epochs=1, directory=tmp_path)
    ds.train(theta, y, members=2, sweep=SMALL, epochs=1, directory=tmp_path)
    same: dict[str, Any] = {"y": y, "epochs": 1, "seed": 0}
    changes: list[dict[str, Any]] = [{"y": y + theta[:, :1]}, {"epochs": 2}, {"seed": 1}]
    for change in changes:
        with pytest.raises(ds.StaleError, match=r"\.json \(its data or settings changed\)"):
            ds.train(theta, members=1, sweep=SMALL, directory=tmp_path, **(same | change))


def test_likelihoods_in_the_same_directory_change_nothing(simulations, tmp_path):
    theta, y = simulations[0], simulations[1][:, :2]
    ds.train(theta, y, target="likelihood", members=1, sweep=SMALL, epochs=1, directory=tmp_path)
    beside = ds.train(theta, y, members=1, epochs=1, directory=tmp_path)[0]
    alone = ds.train(theta, y, members=1, epochs=1)[0]
    assert beside.configuration == alone.configuration
    assert beside.recipe == alone.recipe
    np.testing.assert_array_equal(beside.log_prob(theta, y), alone.log_prob(theta, y))


def test_a_diverged_member_is_tried_once_more_and_then_left_out(simulations, tmp_path):
    fine = ds.Configuration(transforms=2, units=8, layers=1)
    # Steps of 10³⁰ overflow whatever the divisor.
    wild = ds.Configuration(transforms=2, units=8, layers=1, learning_rate=1e30)
    with pytest.warns(ds.ConvergenceWarning, match="1 of 2 members diverged twice and were left out: nsf-001"):
        ensemble = ds.train(*simulations, sweep=[fine, wild], epochs=3, directory=tmp_path)
    assert ensemble.names == ("nsf-000",)
    assert ensemble.diverged == ("nsf-001",)
    assert ds.Ensemble.load(tmp_path).diverged == ("nsf-001",)


def test_a_member_that_recovers_says_so(simulations, monkeypatch):
    """The first attempt diverges because its learning rate does; a tenth of it does not."""
    from drystone.training.engines import compiled

    class Fragile(compiled.CompiledLearner):
        def epoch(self, rows):
            return np.nan if self.configuration.learning_rate > 1e-3 else super().epoch(rows)

    monkeypatch.setattr(compiled, "CompiledLearner", Fragile)
    member = ds.train(*simulations, sweep=[ds.Configuration(units=8, learning_rate=5e-3)], epochs=2)[0]
    assert member.history.restarts == 1
    assert member.configuration.learning_rate == pytest.approx(5e-4)


def test_snapshots_are_the_parameters_after_their_epochs(simulations):
    ensemble = ds.train(*simulations, members=2, sweep=SMALL, epochs=4, patience=None, snapshots=(2, 1))
    shorter = ds.train(*simulations, members=2, sweep=SMALL, epochs=1, patience=None)
    assert_same(ensemble.snapshot(1), shorter)
    with pytest.raises(ValueError, match=r"`epoch` must be one of the snapshots \[1, 2\]; got 3"):
        ensemble.snapshot(3)


@pytest.mark.parametrize("engine", ["compiled", "torch"])
def test_an_averaged_member_is_the_running_average_of_its_epochs(simulations, engine):
    def states(ema_decay):
        configuration = ds.Configuration("nsf", transforms=2, units=12, layers=1, ema_decay=ema_decay)
        ensemble = ds.train(
            *simulations, sweep=[configuration], epochs=3, patience=None, snapshots=(1, 2, 3), engine=engine
        )
        return [ensemble.snapshot(epoch)[0].flow.parameters for epoch in (1, 2, 3)]

    # Averaging does not change what is learnt, only what is kept of it.
    learnt, kept = states(0.0), states(0.6)
    for epoch in (0, 1, 2):
        expected = np.average(learnt[: epoch + 1], axis=0, weights=0.6 ** np.arange(epoch, -1, -1))
        np.testing.assert_allclose(kept[epoch], expected, rtol=1e-5, atol=1e-6)
    assert np.abs(kept[2] - learnt[2]).max() > 1e-3


def test_y_can_be_logged_and_reduced(simulations):
    theta, y = simulations
    y = np.exp(np.column_stack([y, y[:, :2] @ np.random.default_rng(2).normal(size=(2, 5))]) / 3)
    member = ds.train(theta, y, members=1, sweep=SMALL, epochs=2, log_y=True, components=2)[0]
    assert member.flow.architecture.context == 2
    assert np.isfinite(member.log_prob(theta, y)).all()


def test_a_cluster_trains_the_same_members(simulations):
    distributed = pytest.importorskip("distributed")
    options = {"members": 2, "sweep": SMALL, "epochs": 2}
    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        there = ds.train(*simulations, client=client, **options)
    assert_same(there, ds.train(*simulations, **options))


def test_progress_is_quiet_off_a_terminal_and_shown_when_asked(simulations, capsys):
    ds.train(*simulations, members=1, sweep=SMALL, epochs=1)
    assert capsys.readouterr().err == ""
    ds.train(*simulations, members=1, sweep=SMALL, epochs=1, progress=True)
    shown = capsys.readouterr().err
    assert "1/1" in shown
    assert "best=" in shown
    assert "median=" in shown


def test_a_batch_larger_than_the_data_is_all_of_it(simulations):
    theta, y = simulations
    member = ds.train(theta[:30], y[:30], sweep=[ds.Configuration(units=8, batch_size=500)], epochs=2)[0]
    assert np.isfinite(member.history.losses).all()


ONES = np.ones((20, 2))
ON_A_PLANE = np.random.default_rng(3).dirichlet([2, 1, 3, 4], 20).astype(np.float32)
BAD = {
    "flat theta": ({"theta": np.ones(20)}, r"`theta` must have shape \(N, d\); got \(20,\)"),
    "structured y": ({"y": np.ones((20, 2, 2))}, r"`y` must have shape \(N, c\); got \(20, 2, 2\)"),
    "rows": ({"y": np.ones((19, 2))}, "`theta` and `y` must have the same number of rows; got 20 and 19"),
    "nan": (
        {"y": ONES * np.nan},
        r"`y` must be finite; 20 \(0, 1, .*\) of 20 rows .* \(abs\(y\) < 1e\+60\)",
    ),
    "nan in theta": ({"theta": ONES * [[1.0, np.inf]]}, r"`theta` must be finite; 20 \(0, 1, .*\) of 20 rows"),
    "fractions": ({"theta": ON_A_PLANE}, r"columns \[0, 1, 2, 3\] of `theta` are linearly dependent"),
    "twice": ({"theta": ON_A_PLANE[:, [0, 1, 0]] * [1, 1, 9] + [0, 0, 5]}, r"columns \[0, 2\] .* dependent"),
    "constant": ({"theta": np.c_[ON_A_PLANE[:, 0], ONES]}, r"column [12] of `theta` is constant"),
    "minutes": ({"minutes": 0}, "`minutes` must be positive; got 0"),
    "support": ({"prior": ([2, 0], [3, 2])}, "must lie in the support of `prior`; 20 of 20 rows do not"),
    "validation": ({"validation": 0.0}, "`validation` must leave rows on both sides; got 0.0 of 20 rows"),
    "members": ({"members": 0}, "`members` must be at least 1; got 0"),
    "epochs": ({"epochs": 0}, "`epochs` must be at least 1; got 0"),
    "patience": ({"patience": 0}, "`patience` must be at least 1, or None; got 0"),
    "engine": ({"engine": "jax"}, "`engine` must be 'compiled' or 'torch'; got 'jax'"),
    "device": ({"device": "cuda"}, "need `engine='torch'`"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_a_bad_argument_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ds.train(**{"theta": ON_A_PLANE[:, :2], "y": ONES} | arguments)


@pytest.mark.parametrize("kind", ["discrete", "clipped", "five times each"])
def test_frequent_values_of_a_parameter_are_warned_of(kind):
    rng = np.random.default_rng(0)
    continuous = rng.normal(size=(400, 2))
    second = {
        "discrete": rng.integers(0, 20, 400),
        "clipped": continuous[:, 1].clip(None, 1.5),
        "five times each": np.tile(continuous[:80, 1], 5),
    }[kind]
    theta = np.column_stack([continuous[:, 0], second])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ds.train(theta, continuous, members=1, sweep=SMALL, epochs=1)
        ds.train(theta, continuous, target="likelihood", members=1, sweep=SMALL, epochs=1)
    expected = [] if kind == "five times each" else ["column 1 of `theta` is"]
    assert [str(one.message)[:22] for one in caught if "theta" in str(one.message)] == expected


def test_likelihoods_are_trained_on_dependent_parameters():
    theta = np.random.default_rng(3).dirichlet([2, 1, 3], 200)
    y = theta @ [1.0, 2.0, 4.0] + np.random.default_rng(4).normal(size=200)
    ensemble = ds.train(theta, y[:, None], target="likelihood", sweep=SMALL, members=1, epochs=1)
    assert np.isfinite(ensemble[0].log_likelihood(theta, y[:, None])).all()


def test_importing_drystone_imports_neither_numba_nor_torch():
    code = "import sys, drystone; print({'numba', 'torch', 'zuko', 'pandas'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


GAMMA = torch.distributions.Gamma(torch.tensor([2.0, 3.0]), torch.ones(2))


@pytest.mark.parametrize("prior", [GAMMA, stats.gamma([2.0, 3.0]), ds.tasks.LogNormal([0.0, 0.0], [1.0, 1.0])])
def test_priors_on_half_lines_keep_draws_positive(prior):
    theta = stats.gamma([2.0, 3.0]).rvs(size=(400, 2), random_state=0)
    y = theta + np.random.default_rng(0).normal(size=(400, 2))
    member = ds.train(theta, y, members=1, family="maf", sweep=SMALL, prior=prior, epochs=2)[0]
    assert (member.sample(500, y[:5], seed=0) > 0).all()
    assert member.log_prob([[1.0, -0.1]], y[:1])[0] == -np.inf
    same = ds.train(theta, y, members=1, family="maf", sweep=SMALL, prior=(0.0, np.inf), epochs=2)[0]
    np.testing.assert_array_equal(member.log_prob(theta, y), same.log_prob(theta, y))


def test_data_need_not_be_clipped(simulations, tmp_path):
    theta, y = simulations
    options = {"sweep": [ds.Configuration(units=8, transforms=1)], "epochs": 1, "progress": False}
    unclipped = ds.train(theta, y, clip_y=None, directory=tmp_path, **options)
    far = y[:5] + 1e3 * y.std(0)
    assert np.abs(unclipped[0].context(far)).max() > 900
    assert np.abs(ds.train(theta, y, **options)[0].context(far)).max() == 6
    again = ds.Ensemble.load(tmp_path)
    np.testing.assert_array_equal(again.log_prob(theta, y), unclipped.log_prob(theta, y))
    assert len(ds.train(theta, y, clip_y=None, directory=tmp_path, **options)) == 1


def test_a_budget_leaves_members_out_and_does_not_change_the_others(simulations, tmp_path):
    options = {"members": 3, "sweep": SMALL, "epochs": 2, "progress": False, "directory": tmp_path}
    # The time is over at once, so that only the member that is always finished is.
    limited = ds.train(*simulations, minutes=1e-9, **options)
    assert limited.names == ("nsf-000",)
    assert limited.unfinished == ("nsf-001", "nsf-002")
    assert "2 unfinished" in repr(limited)
    more = ds.train(*simulations, minutes=1e9, **options)
    whole = ds.train(*simulations, **{**options, "directory": None})
    assert more.names == whole.names
    assert more.unfinished == ()
    np.testing.assert_array_equal(more.log_prob(*simulations), whole.log_prob(*simulations))


def test_a_finished_member_is_enough_for_a_spent_budget(simulations, tmp_path):
    options = {"sweep": SMALL, "epochs": 2, "progress": False, "directory": tmp_path}
    ds.train(*simulations, members=1, **options)
    ensemble = ds.train(*simulations, members=3, minutes=1e-9, **options)
    assert ensemble.names == ("nsf-000",)
    assert ensemble.unfinished == ("nsf-001", "nsf-002")


def test_a_spent_budget_goes_on_until_a_member_does_not_diverge(simulations):
    wild, fine = (ds.Configuration(transforms=2, units=8, layers=1, learning_rate=rate) for rate in (1e30, 1e-3))
    with pytest.warns(ds.ConvergenceWarning, match="2 of 3 members diverged"):
        ensemble = ds.train(*simulations, sweep=[wild, wild, fine, fine], epochs=2, minutes=1e-9, progress=False)
    assert ensemble.names == ("nsf-002",)
    assert ensemble.unfinished == ("nsf-003",)


def test_the_average_of_one_epoch_is_that_epoch(simulations):
    plain, averaged = (
        ds.train(*simulations, sweep=[ds.Configuration(units=8, ema_decay=decay)], epochs=1, progress=False)
        for decay in (0.0, 0.8)
    )
    np.testing.assert_array_equal(averaged[0].flow.parameters, plain[0].flow.parameters)


@pytest.mark.parametrize(("rows", "drops", "patience"), [(4000, 3, 8), (1000, 3, 17), (300, 3, 56), (4000, 0, 20)])
def test_few_rows_are_waited_for_longer(rows, drops, patience):
    theta, y = ds.toy.simulate(rows, seed=1)
    sweep = [ds.Configuration("maf", transforms=1, units=4, layers=0)]
    ensemble = ds.train(theta, y, sweep=sweep, epochs=1, lr_drops=drops, workers=1, progress=False)
    assert ensemble[0].recipe.schedule.patience == patience
