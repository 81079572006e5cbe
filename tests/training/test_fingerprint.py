"""Tests for drystone.training.fingerprint: every field counts, and nothing else does."""

from dataclasses import fields, replace

import numpy as np
import pytest

import drystone as ds
from drystone.simulation.support import Support
from drystone.training.engines.loop import Schedule
from drystone.training.fingerprint import fingerprint_of_data, fingerprint_of_member

THETA, Y = np.arange(6.0).reshape(3, 2), np.arange(3.0).reshape(3, 1)
SETTINGS = {
    "support": Support([-1.0, 0.0], [1.0, np.inf]),
    "validation": 0.1,
    "log_y": False,
    "clip_y": 6.0,
    "components": None,
    "schedule": Schedule(100, 20, (), 0),
    "engine": "compiled",
    "embedding": "NoneType",
}
OTHER = {
    "support": Support([-1.0, 0.0], [1.0, 9.0]),
    "validation": 0.2,
    "log_y": [0],
    "clip_y": 5.0,
    "components": 1,
    "schedule": Schedule(100, 20, (), 1),
    "engine": "torch",
    "embedding": "Net",
}


def test_the_text_is_that_of_version_0_1():
    # Digests of what repr() of the dataclasses gave in version 0.1.
    common = fingerprint_of_data(THETA, Y, **SETTINGS)
    assert common == "fbce32005802952cfbeeccc747fa350502ef8507cad1919b2929731f0c3b5c89"
    member = fingerprint_of_member(common, 5, 1, ds.Configuration("nsf", ema_decay=0.8))
    assert member == "dd522c161afba92071c8459134caaa7baf2331e01ac5b5c216464de70eff121c"


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_counts(name):
    changed = fingerprint_of_data(THETA, Y, **{**SETTINGS, name: OTHER[name]})
    assert changed != fingerprint_of_data(THETA, Y, **SETTINGS)


@pytest.mark.parametrize("field", [field.name for field in fields(ds.Configuration)])
def test_every_hyperparameter_counts(field):
    one = ds.Configuration()
    other = {"family": "maf", "activation": "tanh", "shuffle": True, "ema_decay": 0.5, "dropout": 0.5}
    other |= {"bounds": "restrict", "trend": True}
    changed = replace(one, **{field: other.get(field, getattr(one, field) * 2)})
    assert fingerprint_of_member("", 0, 0, changed) != fingerprint_of_member("", 0, 0, one)


def test_print_options_do_not_count():
    expected = fingerprint_of_data(THETA, Y, **SETTINGS)
    with np.printoptions(precision=1, floatmode="fixed", sign="+"):
        assert fingerprint_of_data(THETA, Y, **SETTINGS) == expected
