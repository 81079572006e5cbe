"""Matplotlib figures as SVG of the page: in its colors and its fonts, compact, the same bytes every time.

Colors become the custom properties of the style sheet, so that pictures follow the theme; texts stay texts, in the
size and color that the style sheet gives them. There are no ids, no clip paths and no metadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from markupsafe import Markup, escape
from matplotlib.backend_bases import GraphicsContextBase, RendererBase
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Transform
from matplotlib.typing import ColorType

from drystone.report.theme import COLORS

__all__ = ["UNIT", "svg"]

# Dots per inch: a point is a unit of the picture.
UNIT = 72.0
# Shares of the font's size: width of a letter on average, height of a capital, and the depth of a "g".
LETTER, CAPITAL, DEPTH = 0.58, 0.73, 0.2
ANCHORS = {"left": ("start", 0.0), "center": ("middle", 0.5), "right": ("end", 1.0)}
VARIABLES = {shades[0]: name for name, shades in COLORS.items()}


def svg(figure: Figure, description: str, methods: Mapping[str, str]) -> Markup:
    """Return a figure as an SVG element.

    Args:
        figure: drawn in light shades of the page's colors; the page shows through where nothing is drawn.
        description: the text alternative.
        methods: artists' labels with the methods they belong to, by which a legend switches them on and off.
    """
    for axes in figure.axes:
        for artist in (*axes.lines, *axes.collections):
            artist.set_gid(methods.get(str(artist.get_label())))
    width, height = figure.get_size_inches() * UNIT
    renderer = _Renderer(height)
    figure.draw(renderer)
    return Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}"><title>{}</title>{}</svg>').format(
        _decimal(width), _decimal(height), description, description, Markup("\n".join(renderer.elements))
    )


class _Renderer(RendererBase):
    """What matplotlib calls with each path and text of a figure."""

    def __init__(self, height: float) -> None:
        super().__init__()
        self.height = height
        self.elements: list[str] = []
        self.groups: list[str] = []

    def open_group(self, s: str, gid: str | None = None) -> None:
        """Begin the marks of an artist; those that belong to a method tell its name to script and pointer."""
        self.groups.append("</g>" if gid else "")
        if gid:
            name = escape(gid)
            self.elements.append(f'<g data-method="{name}"><title>{name}</title>')

    def close_group(self, s: str) -> None:
        """End the marks of an artist."""
        end = self.groups.pop()
        if end:
            self.elements.append(end)

    def draw_path(
        self, gc: GraphicsContextBase, path: Path, transform: Transform, rgbFace: ColorType | None = None
    ) -> None:
        """Write a line or an area."""
        filled = rgbFace is not None
        stroked = gc.get_linewidth() > 0 and gc.get_rgb()[3] > 0
        d = self._outline(gc, path, transform, filled)
        if not d or not (filled or stroked):
            return
        style = [f"fill:{_variable(rgbFace)}"] if rgbFace is not None else []
        style += _strokes(gc) if stroked else ["stroke:none"]
        self.elements.append(f'<path style="{";".join(style)}" d="{d}"/>')

    def draw_text(
        self,
        gc: GraphicsContextBase,
        x: float,
        y: float,
        s: str,
        prop: FontProperties,
        angle: float,
        ismath: bool | Literal["TeX"] = False,
        mtext: Text | None = None,
    ) -> None:
        """Write a text, placed by its own anchor, because the reader's font has other widths."""
        along = "center" if angle or mtext is None else str(mtext.get_horizontalalignment())
        anchor, share = ANCHORS[along]
        width, _, _ = self.get_text_width_height_descent(s, prop, ismath)
        turn = np.radians(angle)
        # Here y points down.
        x, y = x + share * width * np.cos(turn), y - share * width * np.sin(turn)
        place = f'x="{_decimal(x)}" y="{_decimal(y)}"'
        if angle:
            place = f'transform="translate({_decimal(x)} {_decimal(y)}) rotate({_decimal(-angle)})"'
        title = ' class="title"' if prop.get_weight() == "bold" else ""
        self.elements.append(f'<text{title} {place} text-anchor="{anchor}">{escape(s)}</text>')

    def get_text_width_height_descent(
        self, s: str, prop: FontProperties, ismath: bool | Literal["TeX"]
    ) -> tuple[float, float, float]:
        """Return about how large a text is: which font the reader has is not known."""
        size = float(prop.get_size_in_points())
        return LETTER * size * len(s), (CAPITAL + DEPTH) * size, DEPTH * size

    def flipy(self) -> bool:
        """Return that y of texts points down."""
        return True

    def get_canvas_width_height(self) -> tuple[float, float]:
        """Return the size of the picture; matplotlib uses the height to turn y of texts around."""
        return 1.0, self.height

    def _outline(self, gc: GraphicsContextBase, path: Path, transform: Transform, filled: bool) -> str:
        box = gc.get_clip_rectangle()
        clip = None if box is None or filled else (box.x0, box.y0, box.x1, box.y1)
        curves: list[list[np.ndarray]] = []
        for vertices, code in path.iter_segments(transform, clip=clip, curves=False):
            if code == Path.MOVETO:
                curves.append([vertices])
            elif code == Path.LINETO:
                curves[-1].append(vertices)
            elif code == Path.CLOSEPOLY:
                curves[-1].append(curves[-1][0])
        lines = [np.array(curve) for curve in curves if len(curve) > 1]
        return "".join(_curve(line[:, 0], self.height - line[:, 1]) for line in lines)


def _variable(color: ColorType) -> str:
    return f"var(--{VARIABLES[to_hex(color)]})"


def _strokes(gc: GraphicsContextBase) -> list[str]:
    """Return the properties of a line; the style sheet has the usual width."""
    style = [f"stroke:{_variable(gc.get_rgb())}", f"stroke-width:{_decimal(gc.get_linewidth())}"]
    _, dashes = gc.get_dashes()
    if dashes is not None:
        style.append(f"stroke-dasharray:{' '.join(map(_decimal, np.asarray(dashes).tolist()))}")
    if gc.get_rgb()[3] < 1:
        style.append(f"stroke-opacity:{gc.get_rgb()[3]:.2g}")
    return style


def _curve(x: np.ndarray, y: np.ndarray) -> str:
    """Return a curve as a path in tenths of a unit, each point relative to the one before."""
    # Rounded before differences are taken, so that errors do not add up along the curve.
    points = np.rint(10 * np.column_stack([x, y])).astype(int)
    steps = np.diff(points, axis=0)
    steps = steps[steps.any(1)]
    first = " ".join(map(_tenths, points[0].tolist()))
    rest = "".join(_joined(_tenths(dx), _tenths(dy), i > 0) for i, (dx, dy) in enumerate(steps.tolist()))
    return f"M{first}l{rest or '0 0'}"


def _joined(dx: str, dy: str, after: bool) -> str:
    """Return two numbers after others, with a space only where a sign does not part them."""
    return (" " if after and dx[0] != "-" else "") + dx + (" " if dy[0] != "-" else "") + dy


def _tenths(value: int) -> str:
    """Return a number of tenths: 15 → 1.5, −3 → -.3, 20 → 2."""
    whole, tenth = divmod(abs(value), 10)
    digits = (str(whole) if whole or not tenth else "") + (f".{tenth}" if tenth else "")
    return f"-{digits}" if value < 0 else digits


def _decimal(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
