"""Contrast of the page's colors, by the formula of WCAG 2.2."""

import re
from importlib.resources import files

import pytest

from drystone.plots.palette import SHADES
from drystone.report.theme import BARS, COLORS, SURFACES, TEXTS
from helpers.colors import contrast

THEMES = pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])


@THEMES
@pytest.mark.parametrize("surface", SURFACES)
def test_texts_have_contrast_with_every_surface(surface, theme):
    for name, shades in TEXTS.items():
        assert contrast(shades[theme], SURFACES[surface][theme]) >= 4.5, name


@THEMES
def test_curves_have_contrast_with_the_page(theme):
    for name, shades in SHADES.items():
        if name != "band":
            assert contrast(shades[theme], SURFACES["paper"][theme]) >= 3, name


@THEMES
def test_numbers_are_legible_on_their_bars(theme):
    for name, shades in BARS.items():
        assert contrast(TEXTS["ink"][theme], shades[theme]) >= 4.5, name


def test_no_two_colors_have_the_same_light_shade_by_which_pictures_name_them():
    assert len({light for light, _ in COLORS.values()}) == len(COLORS)


def test_the_style_sheet_uses_colors_of_the_palette_only():
    css = files("drystone.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    used = set(re.findall(r"var\(--([\w-]+)\)", css)) - {"tint", "length", "bar"}
    assert used <= set(COLORS)
