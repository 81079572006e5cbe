"""Diagnostics: calibration of members, uniform weights and stacks, and distances between samples."""

from drystone.diagnostics.band import Band, ecdf_band
from drystone.diagnostics.c2st import C2ST, c2st
from drystone.diagnostics.calibration import Calibration, coverage, rank_ecdf
from drystone.diagnostics.credible_sets import CredibleSet, credible_set
from drystone.diagnostics.disagreement import Disagreement, disagreement
from drystone.diagnostics.faults import Fault, Faults, faults
from drystone.diagnostics.in_distribution import InDistribution, in_distribution
from drystone.diagnostics.lc2st import LC2ST, lc2st
from drystone.diagnostics.local_calibration import Change, LocalCalibration, local_calibration
from drystone.diagnostics.null import Check
from drystone.diagnostics.observation import PosteriorAt
from drystone.diagnostics.predictive import Predictive, predictive
from drystone.diagnostics.ranks import Ranks, ranks
from drystone.diagnostics.recalibration import Recalibration, recalibration
from drystone.diagnostics.tarp import tarp

__all__ = [
    "C2ST",
    "LC2ST",
    "Band",
    "Calibration",
    "Change",
    "Check",
    "CredibleSet",
    "Disagreement",
    "Fault",
    "Faults",
    "InDistribution",
    "LocalCalibration",
    "PosteriorAt",
    "Predictive",
    "Ranks",
    "Recalibration",
    "c2st",
    "coverage",
    "credible_set",
    "disagreement",
    "ecdf_band",
    "faults",
    "in_distribution",
    "lc2st",
    "local_calibration",
    "predictive",
    "rank_ecdf",
    "ranks",
    "recalibration",
    "tarp",
]
