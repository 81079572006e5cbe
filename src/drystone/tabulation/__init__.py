"""From members and simulations to a table."""

from drystone.tabulation.tabulate import tabulate

__all__ = ["tabulate"]
