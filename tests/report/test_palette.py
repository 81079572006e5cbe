"""Contrast of the colours, by the formula of WCAG 2.2."""

import re
from importlib.resources import files

import pytest

from drystone.report.palette import BARS, COLOURS, SERIES, SURFACES, TEXTS


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("surface", SURFACES)
def test_texts_have_contrast_with_every_surface(surface, theme):
    for name, shades in TEXTS.items():
        assert contrast(shades[theme], SURFACES[surface][theme]) >= 4.5, name


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_curves_have_contrast_with_the_page(theme):
    for name, shades in SERIES.items():
        assert contrast(shades[theme], SURFACES["paper"][theme]) >= 3, name


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_numbers_are_legible_on_their_bars(theme):
    for name, shades in BARS.items():
        assert contrast(TEXTS["ink"][theme], shades[theme]) >= 4.5, name


def test_the_style_sheet_uses_colours_of_the_palette_only():
    css = files("drystone.report").joinpath("templates", "report.css").read_text(encoding="utf-8")
    used = set(re.findall(r"var\(--([\w-]+)\)", css)) - {"tint", "length", "bar"}
    assert used <= set(COLOURS)
