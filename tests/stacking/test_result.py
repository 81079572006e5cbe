"""Fits in files."""

import json
from typing import Any

import numpy as np
import pytest

import drystone as ds
from helpers.tables import make_table


def test_a_fit_with_code_in_it_says_so_when_loaded(tmp_path, table):
    def norm(theta, y):
        return np.linalg.norm(theta, axis=-1)

    score = ds.LogScore() + ds.RankCvM(norm)
    fit = ds.stack(table, score=score)
    fit.save(tmp_path / "fit.json")
    with pytest.raises(ValueError, match=r"`statistic` of RankCvM is code, which is not stored"):
        ds.Stacking.load(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json", score=score).evaluate(table) == fit.evaluate(table)


@pytest.mark.parametrize("structure", ["scalar", "diagonal", "full"])
def test_fits_by_least_squares_can_be_saved(tmp_path, structure):
    fit = ds.stack(make_table(), ds.SampleAggregation(structure), ds.MeanScore())
    fit.save(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json").gap == fit.gap


def test_fits_with_numpy_numbers_in_them_can_be_saved(tmp_path, table):
    numbers: Any = (np.float32(1.5), np.int64(10))
    ds.stack(table, ds.Mixture(numbers[0]), ds.EnergyScore(draws=numbers[1])).save(tmp_path / "fit.json")
    assert ds.Stacking.load(tmp_path / "fit.json").form == ds.Mixture(1.5)


@pytest.mark.parametrize(
    ("form", "score"),
    [(ds.SampleAggregation(), ds.EnergyScore()), (ds.IntervalAggregation(), ds.IntervalScore())],
    ids=repr,
)
def test_what_was_chosen_is_said_and_kept_in_files(form, score, tmp_path):
    fit = ds.stack(make_table(K=4, N=120, d=2, seed=1), form, score)
    assert fit.choice
    assert fit.choice in fit.notes[0]
    assert fit.choice in repr(fit)
    fit.save(tmp_path / "fit.json")
    loaded = ds.Stacking.load(tmp_path / "fit.json")
    assert (loaded.choice, loaded.form) == (fit.choice, fit.form)


# ── files that were changed ──────────────────────────────────────────────────────────────────────────────────


def fit_of(form):
    score = {ds.SampleAggregation: ds.MomentScore(), ds.IntervalAggregation: ds.IntervalScore()}.get(
        type(form), ds.LogScore()
    )
    return ds.stack(ds.toy.table(60, seed=3, draws=20), form, score)


@pytest.mark.parametrize(
    "form", [ds.Mixture(), ds.SampleAggregation("full"), ds.IntervalAggregation(weights="free")], ids=repr
)
def test_a_changed_byte_of_a_file_is_damage_and_names_it(form, tmp_path):
    path = tmp_path / "fit.json"
    fit_of(form).save(path)
    whole = path.read_bytes()
    assert ds.Stacking.load(path).form == form
    rng = np.random.default_rng(0)
    for position in rng.integers(len(whole), size=60):
        changed = bytearray(whole)
        changed[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(changed)
        with pytest.raises(ValueError, match=r"fit\.json"):
            ds.Stacking.load(path)
    for truncated in (whole[:-1], whole[: len(whole) // 2], b"", b"[]", b"[" * 10**5, b"\xff"):
        path.write_bytes(truncated)
        with pytest.raises(ds.DamagedError, match=r"fit\.json"):
            ds.Stacking.load(path)
    path.write_bytes(whole.replace(b"\n", b"\r\n"))
    with pytest.raises(ds.DamagedError, match=r"fit\.json"):
        ds.Stacking.load(path)


@pytest.mark.parametrize(
    ("weights", "match"),
    [
        ([7.0, 0, 0, 0], "`weights` must sum to 1; got 7"),
        ([np.nan] * 4, "`weights` must be finite; got nan"),
        ([2.0, -1, 0, 0], "`weights` must be ≥ 0; got -1"),
        ([0.5, 0.5], r"`weights` must have shape \(4,\); got \(2,\)"),
        ([0.2] * 5, r"`weights` must have shape \(4,\); got \(5,\)"),
        (["a", "b", "c", "d"], "fit.json is damaged"),
    ],
)
def test_weights_that_cannot_be_are_refused_whether_made_or_read(weights, match, tmp_path):
    fit = fit_of(ds.Mixture())
    if not isinstance(weights[0], str):
        with pytest.raises(ValueError, match=match):
            ds.Stacking(**{**vars(fit), "params": {"weights": np.array(weights)}})
    # As version 0.1 wrote it, without a checksum.
    path = tmp_path / "fit.json"
    fit.save(path)
    plain = json.loads(path.read_text())
    del plain["checksum"]
    plain |= {"version": 1, "converged": True}
    path.write_text(json.dumps(plain))
    np.testing.assert_array_equal(ds.Stacking.load(path).weights, fit.weights)
    plain["params"]["weights"] = {"shape": [len(weights)], "dtype": "float64", "values": weights}
    path.write_text(json.dumps(plain))
    with pytest.raises(ds.DamagedError, match=match) as caught:
        ds.Stacking.load(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("form", "name", "change", "match"),
    [
        (ds.SampleAggregation("full"), "matrix", lambda a: a[:-1], r"`matrix` must have shape \(4, 1, 1\)"),
        (ds.SampleAggregation("full"), "offset", lambda a: a * np.nan, "`offset` must be finite"),
        (ds.IntervalAggregation(), "lower", lambda a: a.T, r"`lower` must have shape \(1, 4\)"),
        (ds.IntervalAggregation(), "upper_intercept", lambda a: a + np.inf, "`upper_intercept` must be finite"),
        (ds.IntervalAggregation(weights="convex"), "upper", lambda a: 2 * a, "`upper` must sum to 1; got 2"),
    ],
)
def test_parameters_of_other_forms_are_checked(form, name, change, match):
    fit = fit_of(form)
    with pytest.raises(ValueError, match=match):
        ds.Stacking(**{**vars(fit), "params": {**fit.params, name: change(fit.params[name])}})
    missing = {key: array for key, array in fit.params.items() if key != name}
    with pytest.raises(ValueError, match=rf"the parameters must be .*{name}"):
        ds.Stacking(**{**vars(fit), "params": missing})


def test_the_network_of_a_local_mixture_is_checked():
    form = ds.LocalMixture(hidden=(3,))
    shapes = {"y_mean": 2, "y_scale": 2, "layer_0": (2, 3), "bias_0": 3, "layer_1": (3, 4), "bias_1": 4}
    params = {name: np.ones(shape) for name, shape in shapes.items()}
    form.check_params(params, 4, 1)
    form.check_params({**params, "bias_1": np.array([0.0, -np.inf, -np.inf, 1.0])}, 4, 1)
    for name, array, match in (
        ("bias_1", np.full(4, -np.inf), "finite for one member"),
        ("bias_1", np.array([0.0, np.inf, 0, 0]), "infinite only downwards"),
        ("y_scale", np.array([1.0, 0.0]), "`y_scale` must be positive"),
        ("layer_0", np.ones((3, 2)), r"`layer_0` must have shape \(2, 3\)"),
        ("layer_1", np.full((3, 4), np.nan), "`layer_1` must be finite"),
    ):
        with pytest.raises(ValueError, match=match):
            form.check_params({**params, name: array}, 4, 1)
