"""The page's colors, each for a light and for a dark page, under the names that style sheet and pictures use.

Those of curves are the ones of :mod:`drystone.plots`. Texts have a contrast of at least 4.5 with every surface
(WCAG 2.2, AA); a test computes them.
"""

from __future__ import annotations

from drystone.plots.palette import FIT_COLORS, SHADES

__all__ = ["BARS", "COLORS", "SURFACES", "TEXTS", "css"]

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
    "mixed": ("#7a5200", "#e8bd5a"),
}
# Hairlines: they carry no information of their own.
RULES = {"rule": ("#dcd8cf", "#363a42")}
# Bars behind numbers: the fits' colors, so far from the page's.
BAR = (0.25, 0.35)


def _mixed(shades: tuple[str, str]) -> tuple[str, str]:
    """Return paler shades, for a light and for a dark page."""

    def mix(shade: str, paper: str, share: float) -> str:
        pairs = ((int(shade[i : i + 2], 16), int(paper[i : i + 2], 16)) for i in (1, 3, 5))
        return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)

    light, dark = (mix(*of) for of in zip(shades, SURFACES["paper"], BAR, strict=True))
    return light, dark


BARS = {f"bar-{name}": _mixed(SHADES[name]) for name in FIT_COLORS}
COLORS = {**SURFACES, **TEXTS, **SHADES, **RULES, **BARS}


def css() -> str:
    """Return custom properties: light by default and in print, dark if the system or the reader asks for it."""
    light, dark = (
        "".join(f"--{name}:{shades[i]};" for name, shades in COLORS.items()) + f"color-scheme:{scheme}"
        for i, scheme in enumerate(("light", "dark"))
    )
    return (
        f":root{{{light}}}"
        f"@media screen{{:root[data-theme=dark]{{{dark}}}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}"
    )
