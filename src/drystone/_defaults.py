"""Defaults that functions, ``config.toml`` and the command line share."""

from __future__ import annotations

from typing import Literal

__all__ = [
    "DEFENSIVE",
    "DRAWS",
    "EPOCHS",
    "ERROR",
    "FAMILY",
    "FEWEST_NEW_SIMULATIONS",
    "KEEP_DRAWS",
    "LEVELS",
    "LOG_Y",
    "LR_DROPS",
    "MEMBERS",
    "MEMBERS_OF_A_KIND",
    "NEW_SIMULATIONS",
    "NONFINITE",
    "PATIENCE",
    "PATIENCE_ROWS",
    "PATIENCE_WITH_DROPS",
    "POINTS_OF_LIKELIHOODS",
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

# ds.normalize
POINTS_OF_LIKELIHOODS = 1000  # per row, to begin with
DEFENSIVE = 0.1
ERROR = 0.05

# ds.infer and ds.refine
MEMBERS_OF_A_KIND = 8
NEW_SIMULATIONS, FEWEST_NEW_SIMULATIONS = 2000, 100

# ds.tabulate
DRAWS = 1000
KEEP_DRAWS = False
LEVELS = (0.05, 0.95)

# ds.stack
NONFINITE: Literal["raise", "drop"] = "raise"
