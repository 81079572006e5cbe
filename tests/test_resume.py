"""Tests for drystone._resume: the same continues, nothing begins, something else is refused in words."""

import json

import numpy as np
import pytest

import drystone as ds
from drystone._resume import Record, check_same, continue_or_start, digest_array

NOW = Record({"draws": 9, "levels": (0.05, 0.95)}, {"theta": "1f", "row_weights": None})


def test_a_record_is_begun_and_then_continued(tmp_path):
    path = tmp_path / "table.json"
    continue_or_start(path, NOW, "the table", "Remove it.")
    written = path.read_text()
    continue_or_start(path, NOW, "the table", "Remove it.")
    assert path.read_text() == written


CHANGES = {
    "a setting": (Record({"draws": 8, "levels": [0.05, 0.95]}, NOW.inputs), "draws was 9 and is 8"),
    "a new setting": (Record({**NOW.settings, "seed": 1}, NOW.inputs), "seed was None and is 1"),
    "an input": (Record(NOW.settings, {**NOW.inputs, "theta": "2e"}), "theta changed"),
    "an input that was not there": (
        Record(NOW.settings, {**NOW.inputs, "row_weights": "3d"}),
        "row_weights changed",
    ),
}


@pytest.mark.parametrize(("now", "words"), CHANGES.values(), ids=CHANGES)
def test_something_else_is_refused_in_words(tmp_path, now, words):
    continue_or_start(tmp_path / "table.json", NOW, "the table", "Remove it.")
    with pytest.raises(ds.StaleError, match=rf"out of date: the table \({words}\)\. Remove it\."):
        continue_or_start(tmp_path / "table.json", now, "the table", "Remove it.")


def test_nothing_is_refused_where_nothing_is_recorded():
    check_same(None, NOW, "the table", "Remove it.")


def test_an_input_that_only_one_side_knows_is_no_difference():
    assert Record({}, {"y": "1f"}).differences(Record({}, {"theta": "2e"})) == []


@pytest.mark.parametrize("text", ["{", "3"], ids=["truncated", "not an object"])
def test_a_damaged_record_is_named(tmp_path, text):
    (tmp_path / "table.json").write_text(text)
    with pytest.raises(ds.DamagedError, match=r"table.json is damaged"):
        continue_or_start(tmp_path / "table.json", NOW, "the table", "Remove it.")


def test_an_edited_record_is_damaged_and_one_of_an_earlier_version_is_read(tmp_path):
    path = tmp_path / "table.json"
    continue_or_start(path, NOW, "the table", "Remove it.")
    path.write_text(path.read_text().replace('"draws": 9', '"draws": 8'))
    with pytest.raises(ds.DamagedError, match=r"table.json is damaged: its checksum differs"):
        continue_or_start(path, NOW, "the table", "Remove it.")
    path.write_text(json.dumps({"format": 2, **NOW.settings, **NOW.inputs}))
    with pytest.raises(ds.DamagedError, match=r"table.json is damaged: the checksum .* is missing"):
        continue_or_start(path, NOW, "the table", "Remove it.")
    path.write_text(json.dumps({**NOW.settings, **NOW.inputs}))
    continue_or_start(path, NOW, "the table", "Remove it.")


def test_arrays_of_other_shape_type_or_numbers_have_other_digests():
    array = np.arange(6.0)
    others = [array.reshape(2, 3), array.astype(np.float32), array + 1e-300 * (array == 0)]
    assert len({digest_array(a) for a in [array, *others]}) == 4
    assert digest_array(array[::-1][::-1]) == digest_array(array)
