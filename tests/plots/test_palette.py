"""Colors, dashes and markers of methods."""

import itertools

import pytest

from drystone.plots.palette import FIT_COLORS, SHADES, method_styles
from helpers.colors import VISIONS, contrast, distance

REFERENCES = ("best", "uniform", "reference")


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_colors_can_be_told_apart_by_all_readers(vision, theme):
    lines = [SHADES[name][theme] for name in (*FIT_COLORS, *REFERENCES)]
    assert min(distance(a, b, vision) for a, b in itertools.combinations(lines, 2)) > 17
    # Members are thin and faint besides.
    assert min(distance(SHADES["member"][theme], line, vision) for line in lines) > 11


def test_colors_have_contrast_with_a_white_page():
    for name in (*FIT_COLORS, *REFERENCES, "member"):
        assert contrast(SHADES[name][0], "#ffffff") >= 3, name


def test_twenty_fits_look_different_as_lines_and_as_points():
    fits = [f"fit {i}" for i in range(20)]
    styles = method_styles(fits)
    looks = [styles[name] for name in (*fits, *REFERENCES)]
    assert len({(style.name, style.dashes) for style in looks}) == 23
    assert len({(style.name, style.marker) for style in looks}) == 23
    assert len({style.color for style in looks}) == len(FIT_COLORS) + 3


def test_a_fit_keeps_its_look_when_others_are_added_after_it():
    assert method_styles(["a", "b"])["b"] == method_styles(["a", "b", "c"])["b"]


def test_a_fit_of_a_reference_name_looks_as_a_fit():
    assert method_styles(["exact"])["exact"].name == "fit-0"
