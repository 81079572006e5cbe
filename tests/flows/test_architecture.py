"""The layout of a flow: degrees, prefixes, runs, blocks."""

import numpy as np
import pytest

from drystone.flows import Architecture
from drystone.flows.architecture import Layer


def test_degrees_are_shared_out_evenly_and_sorted():
    a = Architecture("maf", features=3, context=2, units=8)
    np.testing.assert_array_equal(a.degrees, [0, 0, 0, 1, 1, 1, 2, 2])


def test_a_row_reaches_the_bias_the_context_and_the_features_before_it():
    a = Architecture("maf", features=3, context=2, units=4, layers=1)
    first, square, last = a.network
    assert first.reach == (3, 3, 4, 5)  # degrees 0, 0, 1, 2 after 1 bias and 2 context columns
    assert square.reach == (3, 3, 4, 5)  # the units of no higher degree, after the bias
    assert last.reach == (3, 3, 4, 4, 5, 5)  # shift and scale of features 0, 1, 2


def test_blocks_cover_every_allowed_entry_and_skip_what_no_row_of_them_reaches():
    layer = Architecture("nsf", features=5, context=3, units=97, bins=6).network[1]
    rows = np.concatenate([np.arange(a, b) for a, b, _ in layer.blocks])
    np.testing.assert_array_equal(rows, np.arange(layer.rows))
    assert len(layer.blocks) > 1
    for a, b, reach in layer.blocks:
        assert reach == max(layer.reach[a:b])


def test_a_small_layer_is_one_block():
    np.testing.assert_array_equal(Layer(9, (2, 3, 9)).blocks, [[0, 3, 9]])


@pytest.mark.parametrize("family", ["maf", "nsf"])
def test_runs_are_exactly_the_entries_that_initial_sets(family):
    a = Architecture(family, features=4, context=3, transforms=2, units=11, layers=2, bins=3)
    trainable = np.zeros(a.size, bool)
    for start, stop in a.runs:
        trainable[start:stop] = True
    np.testing.assert_array_equal(trainable, a.initial(np.random.default_rng(0)) != 0)


def test_matrices_are_views_that_together_are_the_vector():
    a = Architecture("nsf", features=2, context=3, transforms=3, units=7, layers=2, bins=4)
    parameters = np.arange(a.size, dtype=np.float32)
    matrices = a.matrices(parameters)
    np.testing.assert_array_equal(np.concatenate([m.ravel() for t in matrices for m in t]), parameters)
    matrices[1][0][:] = -1
    assert (parameters == -1).sum() == matrices[1][0].size


def test_sources_undo_one_order_and_make_the_next():
    orders = ((2, 0, 1), (1, 2, 0))
    plan = Architecture("maf", features=3, context=1, transforms=2, orders=orders).plan
    features = np.array(["a", "b", "c"])
    first = features[plan.sources[0]]
    second = first[plan.sources[1]]
    assert first.tolist() == ["c", "a", "b"]
    assert second.tolist() == ["b", "c", "a"]
    assert second[plan.sources[2]].tolist() == ["a", "b", "c"]


BAD = {
    "family": ({"family": "nice"}, "`family` must be 'maf' or 'nsf'; got 'nice'"),
    "activation": ({"activation": "elu"}, "`activation` must be 'tanh' or 'relu'; got 'elu'"),
    "features": ({"features": 0}, "`features` must be at least 1; got 0"),
    "context": ({"context": 0}, "`context` must be at least 1; got 0"),
    "bins": ({"bins": 1}, "`bins` must be at least 2; got 1"),
    "orders": ({"transforms": 1, "orders": ((0, 0),)}, "`orders` must be 1 permutations of 0..1"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_a_wrong_size_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Architecture(**{"family": "maf", "features": 2, "context": 3} | arguments)
