"""Drawing hyperparameters."""

from dataclasses import replace

import numpy as np
import pytest

from drystone import Configuration, Sweep


@pytest.mark.parametrize(
    "sweep", [Sweep(), Sweep.paper(), Sweep.paper("simbig")], ids=["default", "sbibm", "simbig"]
)
def test_draws_stay_in_their_ranges_and_reach_the_ends(sweep):
    rng = np.random.default_rng(0)
    draws = [sweep.draw("nsf", rng) for _ in range(2000)]
    for name in ("transforms", "layers", "bins", "batch_size", "units", "dropout", "learning_rate"):
        low, high = getattr(sweep, name)
        values = np.array([getattr(draw, name) for draw in draws])
        assert values.min() >= low
        assert values.max() <= high
        if name in ("transforms", "layers", "bins"):
            assert set(values) == set(range(low, high + 1))


def test_units_and_learning_rates_are_uniform_in_their_logarithm():
    rng = np.random.default_rng(1)
    draws = [Sweep.paper().draw("maf", rng) for _ in range(4000)]
    # Half the draws lie below the geometric mean of the range.
    assert np.mean([d.learning_rate < 1e-4 for d in draws]) == pytest.approx(0.5, abs=0.03)
    assert np.mean([d.units < np.sqrt(32 * 256) for d in draws]) == pytest.approx(0.5, abs=0.03)


def test_the_papers_ranges_are_those_of_its_table():
    sbibm, simbig = Sweep.paper(), Sweep.paper("simbig")
    assert sbibm == Sweep.paper("sbibm")
    assert (sbibm.transforms, sbibm.units, sbibm.layers) == ((3, 8), (32, 256), (2, 4))
    assert (sbibm.dropout, sbibm.batch_size, sbibm.learning_rate) == ((0, 0.2), (20, 100), (1e-5, 1e-3))
    assert (simbig.transforms, simbig.units, simbig.layers) == ((5, 11), (256, 1024), (2, 4))
    assert (simbig.dropout, simbig.batch_size, simbig.learning_rate) == ((0.1, 0.2), (20, 100), (5e-6, 5e-5))


def test_a_sweep_is_edited_by_replacing_a_range():
    assert replace(Sweep(), units=(7, 7)).draw("maf", np.random.default_rng(0)).units == 7


def test_shuffled_orders_come_with_their_reverse():
    rng = np.random.default_rng(2)
    a, b, c, d, e = Configuration(transforms=5, shuffle=True).architecture(6, 3, rng).permutations
    assert (b, d) == (a[::-1], c[::-1])
    assert len({a, c, e}) == 3
    straight, back = Configuration(transforms=2).architecture(3, 3, rng).permutations
    assert (straight, back) == ((0, 1, 2), (2, 1, 0))


BAD = {
    "range": (
        lambda: Sweep(units=(9, 3)),
        r"`units` must be a range \(low, high\) with low ≤ high; got \(9, 3\)",
    ),
    "benchmark": (
        lambda: Sweep.paper("simbg"),  # pyright: ignore[reportArgumentType]
        "unknown benchmark of the paper 'simbg'; known: sbibm, simbig. Did you mean 'simbig'",
    ),
    "dropout": (lambda: Configuration(dropout=1.0), r"`dropout` must be in \[0, 1\); got 1.0"),
    "batch": (lambda: Configuration(batch_size=0), "`batch_size` must be at least 1; got 0"),
    "rate": (lambda: Configuration(learning_rate=0.0), "`learning_rate` must be positive; got 0.0"),
}


@pytest.mark.parametrize(("make", "message"), BAD.values(), ids=BAD)
def test_a_bad_value_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
