"""The report's colours, each for a light and for a dark page, under the names that style sheet and pictures use.

Texts have a contrast of at least 4.5 with every surface, lines and marks of at least 3 (WCAG 2.2, AA); a test
computes them.
"""

from __future__ import annotations

__all__ = ["BARS", "COLOURS", "SERIES", "SURFACES", "TEXTS", "css"]

# Name: (light, dark).
SURFACES = {
    "paper": ("#fdfcf9", "#15171b"),
    "panel": ("#f5f2eb", "#1d2026"),
}
TEXTS = {
    "ink": ("#1b1c1f", "#e9e6e0"),
    "soft": ("#595c63", "#a9adb6"),
    "link": ("#1c548a", "#8cc1f0"),
    "better": ("#17633d", "#74d3a0"),
    "worse": ("#9b2226", "#ff9a91"),
}
# Methods in pictures: the fits in their order, what they are held against, and the truth. Hues as in ``ds.plots``.
SERIES = {
    "fit-0": ("#b8432c", "#f28f78"),
    "fit-1": ("#7b4fa3", "#c4a1e6"),
    "fit-2": ("#1c8074", "#58c7ba"),
    "fit-3": ("#8c5a2b", "#d6a26f"),
    "fit-4": ("#b04d8a", "#e59acb"),
    "best": ("#a87400", "#e5b04a"),
    "uniform": ("#3b6ea5", "#7db2ea"),
    "member": ("#8b8e93", "#737881"),
    "reference": ("#222222", "#dddad4"),
}
# Hairlines and fills behind text: they carry no information of their own.
QUIET = {
    "rule": ("#dcd8cf", "#363a42"),
    "band": ("#e4e1d8", "#2e3239"),
}
# Bars behind numbers: the fits' colours, so far from the page's.
BAR = (0.25, 0.35)


def _mixed(shades: tuple[str, str]) -> tuple[str, str]:
    """Paler, for a light and for a dark page."""

    def mix(shade: str, paper: str, share: float) -> str:
        pairs = ((int(shade[i : i + 2], 16), int(paper[i : i + 2], 16)) for i in (1, 3, 5))
        return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)

    light, dark = (mix(*of) for of in zip(shades, SURFACES["paper"], BAR, strict=True))
    return light, dark


BARS = {f"bar-{name}": _mixed(shades) for name, shades in SERIES.items() if name.startswith("fit-")}
COLOURS = {**SURFACES, **TEXTS, **SERIES, **QUIET, **BARS}


def css() -> str:
    """Custom properties: light by default and in print, dark if the system or the reader asks for it."""
    light, dark = (
        "".join(f"--{name}:{shades[i]};" for name, shades in COLOURS.items()) + f"color-scheme:{scheme}"
        for i, scheme in enumerate(("light", "dark"))
    )
    return (
        f":root{{{light}}}"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
    )
