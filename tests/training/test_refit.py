"""Rows of their own that stop the training, and members trained again on all rows."""

import json

import numpy as np
import pytest
import torch

import drystone as ds

SMALL = ds.Sweep(
    transforms=(2, 2), units=(8, 12), layers=(0, 1), bins=(4, 4), batch_size=(40, 60), learning_rate=(0.02, 0.03)
)
BOX = ([0.0, -1.0], [2.0, 3.0])


def simulate(n, seed):
    """θ uniform on a box, y = θ + noise, and a column of counts."""
    rng = np.random.default_rng(seed)
    theta = rng.uniform(*BOX, (n, 2))
    counts = rng.poisson(3 * theta[:, :1])
    return theta, np.column_stack([theta + 0.2 * rng.normal(size=(n, 2)), counts])


@pytest.fixture(scope="module")
def rows():
    return simulate(300, 0)


@pytest.fixture(scope="module")
def others():
    return simulate(100, 1)


def trained(rows, others, target, **options):
    settings = {"members": 2, "sweep": SMALL, "prior": BOX, "epochs": 60, "patience": 2, "lr_drops": 2}
    return ds.train(*rows, target=target, validation=others, **{**settings, **options})


def assert_same(first, second):
    assert first.names == second.names
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.flow.parameters, b.flow.parameters)


@pytest.fixture(scope="module")
def ensembles(rows, others):
    return {target: trained(rows, others, target) for target in ("posterior", "likelihood")}


TARGETS = pytest.mark.parametrize("target", ["posterior", "likelihood"])


def test_all_rows_are_trained_on_if_others_stop_the_training(ensembles, rows):
    scaling = ensembles["posterior"][0].data_transform.scaling
    np.testing.assert_allclose(scaling.shift, rows[1].mean(axis=0))


@TARGETS
def test_the_validation_loss_is_that_of_the_rows_given(ensembles, others, target):
    member = ensembles[target][0]
    theta, y = others
    if target == "posterior":
        _, log_det = member.support.to_real(theta)
        standardized = member.log_prob(theta, y) - log_det - member.scaling.log_det
        assert min(member.history.validation) == pytest.approx(-standardized.mean(), abs=1e-5)
    assert len(member.history.validation) == len(member.history.losses)


def test_a_change_of_the_rows_that_stop_the_training_is_noticed(rows, others, tmp_path):
    options = {"members": 1, "epochs": 1, "directory": tmp_path}
    trained(rows, others, "posterior", **options)
    trained(rows, others, "posterior", **options)
    theta, y = others
    for changed in ((theta, y + 1e-9), (theta[:-1], y[:-1]), 0.1):
        with pytest.raises(ds.StaleError, match="its data or settings changed"):
            trained(rows, changed, "posterior", **options)


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ((np.ones((5, 3)), np.ones((5, 3))), r"`theta` of `validation` must have shape \(N, 2\)"),
        ((np.ones((5, 2)), np.ones((4, 3))), "`validation`: .* same number of rows"),
        ((np.ones((0, 2)), np.ones((0, 3))), "`validation`: .* at least one row"),
        ((np.ones((5, 2)),), "a share of the rows or"),
        ((np.full((5, 2), 9.0), np.ones((5, 3))), "must lie in the support"),
    ],
)
def test_rows_of_other_shapes_are_refused(rows, validation, message):
    with pytest.raises(ValueError, match=message):
        trained(rows, validation, "posterior")


@TARGETS
def test_a_refit_on_the_same_rows_is_the_same_member_to_the_bit(ensembles, rows, target):
    ensemble = ensembles[target]
    assert any(member.recipe.lr_drop_epochs for member in ensemble)
    assert any(member.history.best_epoch < len(member.history.losses) for member in ensemble)
    assert_same(ensemble, ensemble.refit(*rows))


@TARGETS
def test_a_refit_keeps_names_scaling_and_epochs(ensembles, rows, others, target):
    ensemble = ensembles[target]
    together = [np.concatenate(pair) for pair in zip(rows, others, strict=True)]
    refitted = ensemble.refit(*together, members=ensemble.names[1:])
    assert refitted.names == ensemble.names[1:]
    again, member = refitted[0], ensemble[1]
    assert len(again.history.losses) == again.history.best_epoch == member.history.best_epoch
    assert not np.array_equal(again.flow.parameters, member.flow.parameters)
    name = "scaling" if target == "posterior" else "features"
    assert getattr(again, name) is getattr(member, name)
    assert np.isnan(refitted.frame["validation_loss"]).all()


def test_counts_are_spread_as_in_the_first_training(ensembles, rows):
    # Else a refit on the same rows would train on other data.
    assert (ensembles["likelihood"][0].features.step > 0).tolist() == [False, False, True]


@TARGETS
def test_members_on_disk_are_refitted_and_continued(ensembles, rows, others, target, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    ensemble = trained(rows, others, target, directory=first)
    assert_same(ensemble, ensembles[target])
    written = json.loads((first / f"{ensemble.names[0]}.json").read_text())["recipe"]
    assert written["seed"] == 0
    assert written["key"] == [1, 0]
    assert written["schedule"]["lr_drops"] == 2
    loaded = ds.Ensemble.load(first)
    refitted = loaded.refit(*others, directory=second)
    assert_same(refitted, ensemble.refit(*others))
    # What is finished is not trained again, and what is missing is.
    (second / f"{ensemble.names[1]}.json").unlink()
    before = (second / f"{ensemble.names[0]}.json").stat().st_mtime_ns
    assert_same(refitted, loaded.refit(*others, directory=second))
    assert (second / f"{ensemble.names[0]}.json").stat().st_mtime_ns == before
    assert_same(refitted, ds.Ensemble.load(second))
    for directory in (first, second):
        with pytest.raises(ds.StaleError, match="its rows or its first training changed"):
            loaded.refit(*rows, directory=directory)


def test_a_restarted_member_is_refitted_from_its_second_start(rows, others):
    # Steps of 1000 overflow, and those of 100 do not.
    wild = ds.Configuration("maf", transforms=2, units=8, layers=1, learning_rate=1e3)
    ensemble = ds.train(*rows, validation=others, epochs=2, patience=None, sweep=[wild])
    assert ensemble[0].history.restarts == 1
    assert_same(ensemble, ensemble.refit(*rows))


def test_members_of_an_earlier_version_say_that_they_cannot_be_refitted(ensembles, rows, tmp_path):
    from dataclasses import replace

    old = ds.Ensemble([replace(ensembles["posterior"][0], recipe=None)])
    old.save(tmp_path)
    with pytest.raises(ValueError, match=r"'nsf-000' cannot be refitted: its file is of an earlier version"):
        ds.Ensemble.load(tmp_path).refit(*rows)


def test_unknown_members_are_refused(ensembles, rows):
    with pytest.raises(ValueError, match="nsf-009"):
        ensembles["posterior"].refit(*rows, members=["nsf-009"])


def test_members_with_an_embedding_are_refitted_with_it(rows, others):
    def embedding():
        return torch.nn.Linear(3, 2)

    ensemble = ds.train(
        *rows, validation=others, engine="torch", embedding=embedding, epochs=2, patience=None, prior=BOX,
        sweep=[ds.Configuration("maf", transforms=1, units=8, layers=0)],
    )  # fmt: skip
    with pytest.raises(ValueError, match="trained with an embedding"):
        ensemble.refit(*rows)
    again = ensemble.refit(*rows, embedding=embedding)
    theta, y = others
    np.testing.assert_allclose(again.log_prob(theta, y), ensemble.log_prob(theta, y), rtol=1e-6)


def test_weights_are_kept_for_refitted_members(ensembles, rows, others):
    ensemble = ensembles["posterior"]
    theta, y = others
    fit = ds.Stacking.single(ensemble.names, 1, parameters=("a", "b"))
    refitted = ensemble.refit(*rows, members=list(fit.member_weights))
    posterior = fit.posterior(refitted)
    assert posterior.member_weights == {ensemble.names[1]: 1.0}
    expected = refitted[0].log_prob(theta[:1], y[:1])
    np.testing.assert_array_equal(posterior.log_prob(theta[:1], y[0]), expected)
    with pytest.raises(ValueError, match="lacks"):
        fit.posterior(dict(zip(ensemble.names[:1], ensemble[:1], strict=True)))
