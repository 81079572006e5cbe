"""Stacked posteriors in ArviZ's layout."""

import sys
from types import SimpleNamespace

import arviz_base
import numpy as np
import pytest
import xarray
from scipy.stats import kstest

import drystone as ds

FIT = ds.stack(ds.toy.table(200, seed=1))
POSTERIOR = FIT.posterior(ds.toy.MEMBERS)


def test_draws_log_density_and_member_of_each():
    tree = POSTERIOR.to_arviz([0.7], draws=400, seed=3)
    assert xarray.DataTree in type(tree).mro()
    draws = tree["posterior"]["theta"]
    assert draws.dims == ("chain", "draw")
    assert draws.shape == (1, 400)
    np.testing.assert_array_equal(draws[0], POSTERIOR.sample((400,), [0.7], seed=3)[:, 0])
    np.testing.assert_allclose(tree["sample_stats"]["lp"][0], POSTERIOR.log_prob(draws.values[0, :, None], [0.7]))
    np.testing.assert_array_equal(tree["observed_data"]["y"], [0.7])
    assert tree["posterior"].attrs["inference_library"] == "drystone"
    assert arviz_base.extract(tree, num_samples=10).sizes["sample"] == 10


def test_the_member_of_each_draw_is_right():
    tree = POSTERIOR.to_arviz([0.0], draws=3000, seed=4)
    member = tree["sample_stats"]["member"]
    assert member.attrs["names"] == list(ds.toy.MEMBERS)
    share = np.bincount(member.values[0], minlength=4) / 3000
    np.testing.assert_allclose(share, FIT.weights, atol=1 / 3000)
    from_right = tree["posterior"]["theta"].values[member.values == 0]
    assert kstest(from_right, "norm", (1.0, 1.0)).pvalue > 1e-3


def test_it_can_be_written(tmp_path):
    POSTERIOR.to_arviz([0.7], draws=5, seed=0).to_netcdf(tmp_path / "posterior.nc", engine="h5netcdf")
    with xarray.open_datatree(tmp_path / "posterior.nc", engine="h5netcdf") as tree:
        assert set(tree.children) == {"posterior", "sample_stats", "observed_data"}


def test_what_has_no_density_has_draws_only():
    fit = ds.stack(ds.toy.table(50), ds.SampleAggregation("diagonal"), ds.MeanScore())
    tree = fit.posterior(ds.toy.MEMBERS).to_arviz([0.7], draws=5)
    assert set(tree.children) == {"posterior", "observed_data"}
    members = {name: ds.adapters.from_functions(sample=m.sample) for name, m in ds.toy.MEMBERS.items()}
    mixture = ds.stack(ds.toy.table(50), score=ds.EnergyScore()).posterior(members)
    assert "lp" not in mixture.to_arviz([0.7], draws=5)["sample_stats"]


def test_ranks_are_where_arviz_looks_for_calibration():
    table = ds.toy.table(60, seed=2)
    group = FIT.apply(table).to_arviz()["prior_sbc"]
    assert group["theta"].dims == ("chain", "draw")
    np.testing.assert_array_equal(group["theta"][0], FIT.apply(table).rank[:, 0])
    assert group["theta"].min() >= 0
    assert group["theta"].max() <= 1


@pytest.mark.parametrize("name", ["chain", "draw"])
def test_a_parameter_with_the_name_of_a_dimension_is_refused(name):
    toy = ds.toy.table(50)
    table = ds.Table(toy.theta, draws=toy.draws, log_q=toy.log_q, names=toy.names, parameters=[name])
    fit = ds.stack(table)
    with pytest.raises(ValueError, match=f"a parameter has the name '{name}' of a dimension of ArviZ"):
        fit.posterior(ds.toy.MEMBERS).to_arviz([0.7], draws=5)
    with pytest.raises(ValueError, match=f"a parameter has the name '{name}' of a dimension of ArviZ"):
        fit.apply(table).to_arviz()


def test_an_old_arviz_gets_its_own_kind(monkeypatch):
    monkeypatch.setattr(
        "drystone.adapters.to_arviz.find_spec", lambda name: None if name == "arviz_base" else object()
    )
    monkeypatch.setitem(sys.modules, "arviz", SimpleNamespace(InferenceData=dict))
    data = POSTERIOR.to_arviz([0.7], draws=5)
    assert set(data) == {"posterior", "sample_stats", "observed_data"}


def test_weights_by_name_leave_out_who_has_none():
    assert POSTERIOR.member_weights == FIT.member_weights
    assert list(FIT.member_weights) == [n for n, w in zip(FIT.names, FIT.weights, strict=True) if w > 0]
    assert sum(FIT.member_weights.values()) == pytest.approx(1)
    intervals = ds.stack(ds.toy.table(50), ds.IntervalAggregation(), ds.IntervalScore())
    with pytest.raises(ds.IntractableError, match="no single set of weights"):
        _ = intervals.member_weights
