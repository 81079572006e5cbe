"""What is wrong with arguments of `ds.infer`, `ds.refine` and `posterior.at` is said in words, before any work."""

import os

import numpy as np
import pytest

import drystone as ds
from helpers.tiny_inference import infer_module, refine_module

RNG = np.random.default_rng(0)
THETA = RNG.normal(size=(420, 1))
Y = THETA + 0.5 * RNG.normal(size=(420, 1))
PRIOR = ds.tasks.Normal([0.0], [1.0])
SMALL = {"members": 1, "epochs": 1, "workers": 1, "target": "posterior"}


class Prior:
    """N(0, 1), but for its density."""

    def __init__(self, density):
        self.density = density

    def sample(self, n, rng):
        return rng.normal(size=(n, 1))

    def log_prob(self, theta):
        return self.density(theta)


def at_one_row(value):
    return np.where(np.arange(len(Y))[:, None] == 3, value, Y)


NO_DENSITY = Prior(lambda theta: np.where(theta[:, 0] > 0, 0.0, -np.inf))
WRONG_OF_INFER = {
    "complex y": ({"y": Y + 1j}, "`y` must be real numbers; got dtype complex128"),
    "objects": ({"y": at_one_row(np.nan).astype(object)}, "`y` must be real numbers; got dtype object"),
    "text": ({"theta": THETA.astype(str)}, "`theta` must be real numbers; got dtype"),
    "masked": ({"y": np.ma.masked_array(Y, mask=np.arange(420)[:, None] == 5)}, r"`y` must be finite; 1 \(5\)"),
    "one row": ({"theta": THETA[:1], "y": Y[:1]}, "at least 400 are needed"),
    "no prior": ({"prior": None}, r"`prior` must be a \(lower, upper\) pair"),
    "prior 0 at some rows": ({"prior": NO_DENSITY}, "`theta` must lie in the support of `prior`"),
    "prior of a column": ({"prior": Prior(lambda theta: 0 * theta)}, r"`prior.log_prob\(theta\)` must give shape"),
    "prior NaN": ({"prior": Prior(lambda theta: theta[:, 0] * np.nan)}, "must be finite or −inf; 420"),
    "members": ({"members": 1.5}, "`members` must be an integer; got 1.5"),
    "seed": ({"seed": -1}, "`seed` must be at least 0; got -1"),
    "parameters": ({"parameters": ["a", "b"]}, "`parameters` must have 1 entries; got 2"),
    "test not a pair": ({"test": 5}, r"`test` must be simulations \(theta, y\), or None; got int"),
    "test empty": ({"test": (THETA[:0], Y[:0])}, "`test`: `theta` and `y` must have at least one row"),
    "test of other data": ({"test": (THETA, np.hstack([Y, Y]))}, r"`y` of `test` must have shape \(N, 1\)"),
    "test NaN": ({"test": (THETA, at_one_row(np.nan))}, r"`test`: `y` must be finite; 1 \(3\)"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG_OF_INFER.values(), ids=WRONG_OF_INFER)
def test_infer_says_what_is_wrong_before_it_trains(monkeypatch, changes, message):
    monkeypatch.setattr(infer_module, "train", None)
    arguments = {"theta": THETA, "y": Y, "prior": PRIOR, **SMALL, **changes}
    with pytest.raises((TypeError, ValueError), match=message):
        ds.infer(**arguments)


@pytest.fixture(scope="module")
def trained():
    """The stack of one trained posterior."""
    return ds.infer(THETA, Y, prior=PRIOR, **SMALL).posterior


def simulator(theta, rng):
    return rng.normal(theta, 0.5)


WRONG_OF_REFINE = {
    "complex": ({"at": [1j]}, "`x` must be real numbers"),
    "NaN": ({"at": [np.nan]}, "must be finite"),
    "too large": ({"at": [1e300]}, "must be finite"),
    "masked": ({"at": np.ma.masked_array([1.0], mask=[True])}, "must be finite"),
    "another shape": ({"at": [1.0, 2.0]}, r"must be one observation of shape \(1,\)"),
    "seed": ({"seed": -1}, "`seed` must be at least 0"),
    "rows": ({"simulations": (THETA[:10], Y)}, "`simulations`: `theta` and `y` must have the same number of rows"),
    "prior of other parameters": ({"prior": ([0, 0], [1, 1])}, "`prior` must be of the 1 parameter of `theta`"),
    "prior of others": ({"prior": ([0.0], [0.5])}, "`theta` must lie in the support of `prior`"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG_OF_REFINE.values(), ids=WRONG_OF_REFINE)
def test_refine_says_what_is_wrong_before_it_simulates(trained, monkeypatch, changes, message):
    monkeypatch.setattr(refine_module, "simulate", None)
    arguments = {"at": [0.3], "simulator": simulator, "n": 100, "simulations": (THETA, Y), "prior": PRIOR}
    with pytest.raises((TypeError, ValueError), match=message):
        ds.refine(trained, **arguments | changes)


def test_refine_names_a_simulator_of_other_data(trained):
    def two(theta, rng):
        return np.hstack([theta, theta])

    with pytest.raises(ValueError, match="data like the observation, 1 number per row of theta; got 2"):
        ds.refine(trained, at=[0.3], simulator=two, n=100, simulations=(THETA, Y), prior=PRIOR)


@pytest.mark.parametrize("x", [[1j], [np.nan], [np.inf], [1e100], np.ma.masked_array([1.0], mask=[True])])
@pytest.mark.parametrize("method", ["at", "sample", "log_prob", "sample_batched"])
def test_a_posterior_is_not_asked_about_data_that_its_members_cannot_take(trained, x, method):
    calls = {
        "at": lambda: trained.at(x),
        "sample": lambda: trained.sample((5,), x),
        "log_prob": lambda: trained.log_prob([[0.1]], x),
        "sample_batched": lambda: trained.sample_batched((5,), np.ma.atleast_2d(x)),
    }
    with pytest.raises((TypeError, ValueError), match=r"`x` must be (finite|real numbers)"):
        calls[method]()


def test_numbers_of_draws_and_points_are_checked(trained):
    with pytest.raises(ValueError, match="`sample_shape` must be at least 0; got -5"):
        trained.sample((-5,), [0.1])
    with pytest.raises(ValueError, match="`draws` must be at least 2; got 0"):
        trained.at([0.1], draws=0)
    with pytest.raises(TypeError, match="`theta` must be real numbers; got dtype complex128"):
        trained.log_prob([[1j]], [0.1])


@pytest.mark.parametrize("name", ["members", "stacking", "fit.json", ".lock", ".new"])
def test_an_inference_writes_nothing_through_links(tmp_path, name):
    outside, home = tmp_path / "outside", tmp_path / "home"
    outside.mkdir()
    home.mkdir()
    (home / name).symlink_to(outside if "." not in name[1:] else outside / "precious")
    with pytest.raises(ds.DamagedError, match=f"{name} is a symbolic link"):
        ds.infer(THETA, Y, prior=PRIOR, directory=home, **SMALL)
    assert os.listdir(outside) == []
