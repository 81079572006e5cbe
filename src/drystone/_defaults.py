"""Defaults that functions, ``config.toml`` and the command line share."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "DRAWS",
    "EPOCHS",
    "FAMILY",
    "KEEP_DRAWS",
    "LEVELS",
    "LOG_Y",
    "LR_DROPS",
    "MEMBERS",
    "NONFINITE",
    "PATIENCE",
    "PATIENCE_ROWS",
    "PATIENCE_WITH_DROPS",
    "SEED",
    "VALIDATION",
]

SEED = 0

# ds.train
MEMBERS = 16
FAMILY: Literal["maf", "nsf"] = "nsf"
EPOCHS = 1000
LR_DROPS = 3
PATIENCE = 20  # without drops of the learning rate
PATIENCE_WITH_DROPS = 8
PATIENCE_ROWS = 15_000  # as many epochs as see so many rows, if that is more
VALIDATION = 0.1
LOG_Y: Literal["auto"] = "auto"

# ds.tabulate
DRAWS = 1000
KEEP_DRAWS = False
LEVELS = (0.05, 0.95)

# ds.stack
NONFINITE: Literal["raise", "drop"] = "raise"
