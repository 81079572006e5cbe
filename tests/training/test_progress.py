"""The bar of a training moves with the epochs of its members."""

import numpy as np

import drystone as ds
from drystone.training import progress


def test_epochs_are_shown_while_members_train(monkeypatch, capsys):
    monkeypatch.setattr(progress, "INTERVAL", -1.0)
    theta = np.random.default_rng(0).normal(size=(100, 1))
    ds.train(theta, theta, members=1, epochs=3, progress=True)
    shown = capsys.readouterr().err
    assert "3 epochs" in shown
    assert "1/1" in shown


def test_nothing_is_shown_where_it_is_not_wanted(capsys):
    theta = np.random.default_rng(0).normal(size=(100, 1))
    ds.train(theta, theta, members=1, epochs=1, progress=False)
    assert capsys.readouterr().err == ""
