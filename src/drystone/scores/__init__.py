"""Columns of the paper's Table 1: what a stacked posterior is asked to be good at."""

from drystone.scores.energy import EnergyScore
from drystone.scores.interval import IntervalScore
from drystone.scores.jensen_shannon import JensenShannon
from drystone.scores.log import LogScore
from drystone.scores.moment import MeanScore, MomentScore
from drystone.scores.rank import RankCvM, RankMoments
from drystone.scores.score import RowScore, Score, Sum

__all__ = [
    "SCORES",
    "EnergyScore",
    "IntervalScore",
    "JensenShannon",
    "LogScore",
    "MeanScore",
    "MomentScore",
    "RankCvM",
    "RankMoments",
    "RowScore",
    "Score",
    "Sum",
]

SCORES: tuple[type[Score], ...] = (
    LogScore,
    RankCvM,
    RankMoments,
    JensenShannon,
    IntervalScore,
    MomentScore,
    MeanScore,
    EnergyScore,
)
