"""The table: what K approximate posteriors say of N simulations. All that stacking knows of its members."""

from drystone.table.table import Statistic, Table

__all__ = ["Statistic", "Table"]
