"""Numbers with their standard errors, as printed."""

from __future__ import annotations

import numpy as np

__all__ = ["plus_minus"]


def plus_minus(value: float, se: float, sign: str = "") -> str:
    """``value ± se`` with the digits that the standard error supports.

    Args:
        value: nothing is printed for NaN.
        se: two of its digits are printed.
        sign: "+" to print the sign of positive values too.

    Example:
        >>> plus_minus(0.123456, 0.0123), plus_minus(3.2, 0.4, "+")
        ('0.123 ± 0.012', '+3.20 ± 0.40')
    """
    if np.isnan(value):
        return ""
    digits = 4 if not 1e-12 < se < np.inf else int(np.clip(1 - np.floor(np.log10(se)), 0, 8))
    return f"{value:{sign}.{digits}f} ± {se:.{digits}f}"
