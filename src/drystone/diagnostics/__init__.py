"""Diagnostics: calibration of members, uniform weights and stacks, and distances between samples."""

from drystone.diagnostics.band import Band, ecdf_band
from drystone.diagnostics.c2st import C2ST, c2st
from drystone.diagnostics.calibration import Calibration, coverage, rank_ecdf
from drystone.diagnostics.faults import Fault, Faults, faults
from drystone.diagnostics.lc2st import LC2ST, lc2st
from drystone.diagnostics.ranks import Ranks, ranks
from drystone.diagnostics.tarp import tarp

__all__ = [
    "C2ST",
    "LC2ST",
    "Band",
    "Calibration",
    "Fault",
    "Faults",
    "Ranks",
    "c2st",
    "coverage",
    "ecdf_band",
    "faults",
    "lc2st",
    "rank_ecdf",
    "ranks",
    "tarp",
]
