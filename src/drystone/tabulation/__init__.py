"""Evaluation of members on simulations, which gives a table."""

from drystone.tabulation.tabulate import tabulate

__all__ = ["tabulate"]
