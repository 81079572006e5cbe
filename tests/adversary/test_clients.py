"""Clients that are closed, lost or no clients, and members that misbehave on a cluster."""

import threading
import time
import warnings

import numpy as np
import pytest

import drystone as ds
from adversary.zoo import DYING, HANGING, LIMIT, RAISING, WAYS, Bad, Good

distributed = pytest.importorskip("distributed")

THETA = np.random.default_rng(3).normal(size=(120, 2))
GOOD = {"first": Good(0.1), "last": Good(-0.2)}


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as cluster:
        yield cluster


CALLS = {
    "simulate": lambda client: ds.simulate(
        lambda theta, rng: theta, ds.tasks.Uniform([0.0], [1.0]), client=client
    ),
    "train": lambda client: ds.train(THETA, THETA, members=1, client=client),
    "tabulate": lambda client: ds.tabulate(GOOD, THETA, THETA, draws=0, client=client),
    "stack": lambda client: ds.stack(ds.toy.table(30), client=client),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_address_or_anything_else_that_is_no_client_is_refused_in_words(call):
    with pytest.raises(
        TypeError, match=r"got 'tcp://10.0.0.5:8786'. Connect first: client = distributed.Client\("
    ):
        call("tcp://10.0.0.5:8786")
    with pytest.raises(TypeError, match="`client` must be a Dask client or an executor with `submit`; got 3"):
        call(3)


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_closed_client_is_refused_in_words(cluster, call):
    client = distributed.Client(cluster)
    client.close()
    with pytest.raises(ConnectionError, match="the Dask client is closed"):
        call(client)


class Slow(Good):
    def log_prob(self, theta, y):
        time.sleep(5)
        return super().log_prob(theta, y)


def test_a_client_that_is_closed_amid_the_work_is_named(cluster):
    client = distributed.Client(cluster)
    closing = threading.Timer(0.5, client.close)
    closing.start()
    with pytest.raises(ConnectionError, match="was closed, or lost its scheduler, before the work was done"):
        ds.tabulate({"slow": Slow()}, THETA, THETA, draws=0, client=client)
    closing.join()


def check(zoo, client, **options):
    members = {"first": GOOD["first"], **{name: Bad(name) for name in zoo}, "last": GOOD["last"]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = ds.tabulate(members, THETA, THETA, draws=20, client=client, **options)
    for name, (_, reason) in zoo.items():
        assert table.left_out[name].startswith(reason), name
    alone = ds.tabulate(GOOD, THETA, THETA, draws=20)
    for statistic in ("log_q", "rank", "mean", "cov"):
        np.testing.assert_array_equal(getattr(table, statistic), getattr(alone, statistic))


def test_members_that_hang_or_raise_on_a_cluster_are_left_out_by_name(cluster):
    zoo = {"hang": HANGING["hang"], "exit 0": DYING["exit 0"], "exit": RAISING["exit"]}
    with distributed.Client(cluster) as client:
        check(zoo, client, time_limit=LIMIT)


@pytest.mark.slow
@pytest.mark.parametrize("limit", [None, LIMIT], ids=["no limit", "limit"])
def test_on_a_cluster_the_others_finish_whatever_a_member_does(limit):
    lethal = ("exit 0", "segmentation fault", "killed")
    zoo = {name: DYING[name] for name in lethal} if limit is None else HANGING | DYING
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        check(zoo | RAISING, client, time_limit=limit)


class Likelihood:
    """N(θ, 1), or one that hangs or ends its process."""

    def __init__(self, way=None):
        self.way = way

    def log_likelihood(self, theta, y):
        if self.way is not None:
            WAYS[self.way](theta, y)
        return -0.5 * ((y - theta) ** 2).sum(1)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hang", "exit 0"])
def test_on_a_cluster_a_likelihood_does_not_take_those_along_that_share_its_points(cluster, way):
    def tabulate(likelihoods, **options):
        members = ds.normalize(likelihoods, prior=ds.tasks.Normal([0.0, 0.0], [1.0, 1.0]), draws=50)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ds.tabulate(members, THETA[:8], THETA[:8] + 0.3, draws=20, **options)

    good = {"first": Likelihood(), "last": Likelihood()}
    with distributed.Client(cluster) as client:
        table = tabulate(
            {"first": good["first"], "bad": Likelihood(way), "last": good["last"]}, client=client, time_limit=LIMIT
        )
    assert list(table.left_out) == ["bad"]
    np.testing.assert_array_equal(table.log_q, tabulate(good).log_q)
