"""The game against a critic."""

import warnings

import numpy as np
import pytest
import torch

import drystone as ds
from drystone.solvers import Minimax
from drystone.solvers.minimax import Game
from helpers.tables import make_table


@pytest.mark.parametrize("form", [ds.Mixture(), ds.SampleAggregation()], ids=repr)
def test_every_term_beside_the_critic_moves_the_stack(form):
    table, ends = make_table(K=3, N=60, d=2), []
    for score in (ds.JensenShannon(), ds.JensenShannon() + 1e3 * ds.RankCvM()):
        ends.append(Game(table, form, score, holdout=0.3, seed=0).play(5, 1, 0.02)[-1])
    assert not torch.allclose(*ends)


def test_a_prior_on_the_weights_holds_against_a_critic():
    table = make_table(K=3, N=60, d=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = ds.stack(table, ds.Mixture(1e6), ds.JensenShannon(), solver=Minimax(rounds=200, critic_steps=1))
    np.testing.assert_allclose(fit.weights, 1 / 3, atol=0.02)
