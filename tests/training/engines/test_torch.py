"""The torch engine: the same members from the same interface, and embeddings of structured y."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import drystone as ds

CONFIGURATION = ds.Configuration("maf", transforms=2, units=16, layers=1, batch_size=50, learning_rate=5e-3)


def embedding():
    """Sum of squares over time, by a network: (N, 2, 7) → (N, 3)."""
    return nn.Sequential(nn.Flatten(), nn.Linear(14, 16), nn.ReLU(), nn.Linear(16, 3))


@pytest.fixture(scope="module")
def simulations():
    rng = np.random.default_rng(0)
    theta = rng.normal(size=(600, 2))
    return theta, theta[:, :, None] + rng.normal(size=(600, 2, 7))


@pytest.fixture(scope="module")
def trained(simulations, tmp_path_factory):
    directory = tmp_path_factory.mktemp("members")
    ensemble = ds.train(
        *simulations, sweep=[CONFIGURATION], engine="torch", embedding=embedding, epochs=12, patience=None,
        snapshots=(1,), directory=directory,
    )  # fmt: skip
    return ensemble, directory


def test_it_learns_from_structured_data(simulations, trained):
    theta, y = simulations
    # The posterior is N(7 ȳ / 8, 1 / 8) for each parameter.
    exact = -0.5 * 8 * ((theta - 7 / 8 * y.mean(axis=2)) ** 2) - 0.5 * np.log(2 * np.pi / 8)
    prior = -0.5 * theta**2 - 0.5 * np.log(2 * np.pi)
    learnt = trained[0][0].log_prob(theta, y).mean()
    assert prior.sum(axis=1).mean() + 1.0 < learnt < exact.sum(axis=1).mean() + 0.1


def test_averaged_embeddings_have_batch_statistics_of_their_own(simulations):
    def normed():
        return nn.Sequential(nn.Flatten(), nn.Linear(14, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))

    theta, y = simulations
    configuration = replace(CONFIGURATION, batch_size=540, ema_decay=0.9)  # one batch of all training rows
    member = ds.train(
        theta, y, sweep=[configuration], engine="torch", embedding=normed, epochs=5, patience=None, log_y=False,
        validation=(theta[540:], y[540:]),
    )[0]  # fmt: skip
    flatten, linear, norm = member.embedding[:3]
    with torch.no_grad():
        before = linear(flatten(torch.from_numpy(member.data_transform(y)).float()))
    # Of 540 of the 600 rows that are trained on, whichever these are.
    np.testing.assert_allclose(norm.running_mean, before.mean(0), atol=0.1 * float(before.std(0).min()))


def test_members_with_an_embedding_are_read_back(simulations, trained):
    theta, y = simulations
    ensemble, directory = trained
    again = ds.Ensemble.load(directory, embedding=embedding)
    np.testing.assert_array_equal(again[0].log_prob(theta, y), ensemble[0].log_prob(theta, y))
    np.testing.assert_array_equal(
        again.snapshot(1)[0].log_prob(theta, y), ensemble.snapshot(1)[0].log_prob(theta, y)
    )
    with pytest.raises(ValueError, match="'maf-000' was trained with an embedding; pass the function"):
        ds.Ensemble.load(directory)[0]


def test_a_seed_decides_everything_and_torchs_own_is_left_alone(simulations):
    theta, y = simulations
    options = {"sweep": [CONFIGURATION], "engine": "torch", "epochs": 2, "log_y": False}
    torch.manual_seed(1)
    first = ds.train(theta, y[:, :, 0], **options)
    drawn = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(drawn, torch.rand(1))
    second = ds.train(theta, y[:, :, 0], **options)
    np.testing.assert_array_equal(first[0].flow.parameters, second[0].flow.parameters)


def test_both_engines_learn_the_same_posterior(simulations):
    theta, y = simulations
    summary = y.mean(axis=2)
    options = {"sweep": [CONFIGURATION], "epochs": 30, "patience": None}
    scores = [
        ds.train(theta, summary, engine=engine, **options)[0].log_prob(theta, summary).mean()
        for engine in ("compiled", "torch")
    ]
    exact = -0.5 * 8 * ((theta - 7 / 8 * summary) ** 2) - 0.5 * np.log(2 * np.pi / 8)
    np.testing.assert_allclose(scores, exact.sum(axis=1).mean(), atol=0.1)


def test_an_embedding_must_give_vectors(simulations):
    with pytest.raises(ValueError, match=r"`embedding` must return one vector per row, \(N, c\); got shape"):
        ds.train(*simulations, sweep=[CONFIGURATION], engine="torch", embedding=nn.Identity)
