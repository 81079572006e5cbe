"""Figures of matplotlib as pictures of the page."""

import re

import numpy as np
import pytest
from matplotlib.figure import Figure

from drystone.plots.palette import COLOURS
from drystone.report.svg import UNIT, svg

RED = COLOURS["stacked"]


def axes(width=200.0, height=100.0):
    """Axes that fill a picture and show nothing but what is drawn, from 0 to its size."""
    figure = Figure(figsize=(width / UNIT, height / UNIT), dpi=UNIT, facecolor="none")
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    ax.set(xlim=(0, width), ylim=(0, height))
    return ax


def drawn(ax, methods=None):
    return str(svg(ax.figure, "what it shows", methods or {}))


def points(html):
    """What a browser makes of the paths: positions of each curve."""
    curves = []
    for d in re.findall(r' d="([^"]*)"', html):
        for curve in re.findall(r"M([^M]*)", d):
            numbers = [float(x) for x in re.findall(r"-?(?:\d+\.?\d*|\.\d+)", curve)]
            curves.append(np.cumsum(np.array(numbers).reshape(-1, 2), 0))
    return curves


def test_curves_read_back_to_a_tenth_of_a_unit_however_long_they_are():
    rng = np.random.default_rng(0)
    x, y = np.linspace(3, 190, 300), 50 + np.clip(rng.normal(size=300).cumsum(), -40, 40)
    ax = axes()
    (line,) = ax.plot(x, y, color=RED)
    line.get_path().should_simplify = False
    (found,) = points(drawn(ax))
    kept = np.r_[True, np.abs(np.diff(np.rint(10 * np.column_stack([x, 100 - y])), axis=0)).sum(1) > 0]
    np.testing.assert_allclose(found, np.column_stack([x, 100 - y])[kept], atol=0.0501)  # errors do not add up


def test_a_line_with_gaps_is_one_path_of_several_curves():
    ax = axes()
    ax.plot([10, 20, np.nan, 30, 40], [10, 12, np.nan, 10, 17], color=RED)
    html = drawn(ax)
    assert html.count("<path") == 1
    np.testing.assert_allclose(points(html), [[[10, 90], [20, 88]], [[30, 90], [40, 83]]])


def test_lines_end_at_the_frame():
    ax = axes()
    ax.set_position((0.25, 0.2, 0.5, 0.6))
    ax.plot([-500, 700], [50, 50], color=RED)
    (found,) = points(drawn(ax))
    assert found[:, 0].min() >= 50 - 2  # the line's width is not clipped
    assert found[:, 0].max() <= 150 + 2


def test_colors_dashes_and_opacity_are_properties_of_the_page():
    ax = axes()
    ax.plot([0, 9], [0, 9], color=RED, linewidth=2, linestyle=(0, (3, 1.5)), alpha=0.4)
    ax.fill_between([0, 9], 0, 5, color=COLOURS["band"], linewidth=0)
    html = drawn(ax)
    assert 'style="stroke:var(--fit-0);stroke-width:2;stroke-dasharray:6 3;stroke-opacity:0.4"' in html
    assert 'style="fill:var(--band);stroke:none"' in html


def test_a_color_that_the_page_does_not_have_is_an_error():
    ax = axes()
    ax.plot([0, 9], [0, 9], color="#123456")
    with pytest.raises(KeyError, match="#123456"):
        drawn(ax)


def test_artists_of_a_method_are_marked_and_tell_its_name():
    ax = axes()
    ax.plot([0, 9], [0, 9], color=RED, label='a<b>"')
    ax.plot([0, 9], [9, 9], color=RED, label="other")
    html = drawn(ax, {'a<b>"': 'a<b>"'})
    assert html.count("data-method") == 1
    assert '<g data-method="a&lt;b&gt;&#34;"><title>a&lt;b&gt;&#34;</title>' in html


def test_texts_are_placed_by_their_own_anchor_and_escaped():
    ax = axes()
    ax.text(100, 40, "<middle>", ha="center", va="baseline")
    ax.text(190, 10, "end", ha="right", va="baseline", weight="bold")
    ax.text(20, 50, "up", rotation=90, rotation_mode="anchor", ha="center", va="baseline")
    html = drawn(ax)
    assert '<text x="100" y="60" text-anchor="middle">&lt;middle&gt;</text>' in html
    assert '<text class="title" x="190" y="90" text-anchor="end">end</text>' in html
    assert '<text transform="translate(20 50) rotate(-90)" text-anchor="middle">up</text>' in html


def test_the_picture_has_its_size_and_a_text_alternative():
    html = drawn(axes(200, 100))
    assert html.startswith('<svg viewBox="0 0 200 100" role="img" aria-label="what it shows"><title>what it shows')
    assert " id=" not in html
