"""The report: one HTML file with everything a reader needs to judge a stacking, and nothing to load."""

from drystone._messages import require

for _module in ("matplotlib", "jinja2"):
    require(_module, "report", "a report")

from drystone.report.posteriors import Observation, observe, observe_row
from drystone.report.write import write

__all__ = ["Observation", "observe", "observe_row", "write"]
