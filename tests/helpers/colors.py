"""How colors look: their contrast, and their distance to the eyes of all readers."""

import numpy as np

# What the three kinds of color-blind readers see of linear RGB (Machado, Oliveira & Fernandes 2009).
VISIONS = {
    "all colors": np.eye(3),
    "no red": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "no green": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "no blue": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(color):
    """Linear RGB of "#rrggbb"."""
    rgb = np.array([int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    """By the formula of WCAG 2.2: from 1 to 21."""
    dark, light = sorted(float(TO_XYZ[1] @ linear(color)) for color in (one, other))
    return (light + 0.05) / (dark + 0.05)


def distance(one, other, vision):
    """Distance in CIELAB, of which 2 can just be seen, to readers with one of VISIONS."""
    return np.linalg.norm(_lab(VISIONS[vision] @ linear(one)) - _lab(VISIONS[vision] @ linear(other)))


def _lab(rgb):
    x = TO_XYZ @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(x > 0.008856, np.cbrt(x), 7.787 * x + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
