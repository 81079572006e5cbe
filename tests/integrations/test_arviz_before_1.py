"""The stacked posterior in an ArviZ older than 1.0, for real. Run with ``make test-integrations``."""

import warnings

import numpy as np
import pytest

import drystone as ds

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ announces its next version when it is imported
    arviz = pytest.importorskip("arviz")

pytestmark = pytest.mark.skipif(int(arviz.__version__.split(".")[0]) >= 1, reason="an ArviZ of the new kind")


@pytest.fixture
def fit(monkeypatch):
    # The new kind's arviz-base is installed for the other tests.
    monkeypatch.setattr("drystone.adapters.to_arviz.find_spec", lambda name: None if name == "arviz_base" else 1)
    return ds.stack(ds.toy.table(200, seed=1))


def test_a_posterior_is_summarised(fit):
    data = fit.posterior(ds.toy.MEMBERS).to_arviz([0.7], draws=500, seed=0)
    assert isinstance(data, arviz.InferenceData)
    assert set(data.groups()) == {"posterior", "sample_stats", "observed_data"}
    summary = arviz.summary(data, kind="stats")
    assert summary.loc["theta", "mean"] == pytest.approx(float(data["posterior"]["theta"].mean()), abs=1e-3)


def test_ranks_are_a_group(fit):
    data = fit.apply(ds.toy.table(60, seed=2)).to_arviz()
    assert data.groups() == ["prior_sbc"]
    assert np.isfinite(data["prior_sbc"]["theta"]).all()
