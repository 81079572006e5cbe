"""Numbers printed in the paper (Yao, Régaldo-Saint Blancard & Domke 2024), to stand beside ours.

They are shown in tables, labelled as the paper's, and never enter a result. The authors' protocol is not quite
ours: each of their members is trained on 10,000 simulations of its own, all of ours on the same 10,000; "best" is
their member with the best validation log density throughout, ours the best on the stacking simulations in the
metric of the row.
"""

from __future__ import annotations

__all__ = ["published"]

# family: task: metric: method.
PRINTED: dict[str, dict[str, dict[str, dict[str, float]]]] = {
    "maf": {
        "two_moons": {"log density": {"best": 2.84, "stacked": 2.88}, "moment error": {"stacked": -1.73}},
        "slcp": {
            "log density": {"best": -5.60, "uniform": -6.15, "stacked": -5.24},
            "moment error": {"stacked": 0.93},
        },
        "sir": {"log density": {"best": 7.57, "stacked": 7.65}, "moment error": {"stacked": -8.92}},
    },
    "nsf": {
        "two_moons": {"log density": {"best": 3.57, "stacked": 3.66}, "moment error": {"stacked": -1.73}},
        "slcp": {
            "log density": {"best": -4.44, "uniform": -4.38, "stacked": -4.06},
            "moment error": {"stacked": 0.75},
        },
        "sir": {"log density": {"best": 7.78, "stacked": 7.88}, "moment error": {"stacked": -8.49}},
        "gaussian_mixture": {"log density": {"best": -1.24, "stacked": -1.13}, "moment error": {"stacked": 0.26}},
        "lotka_volterra": {"log density": {"best": 12.94, "stacked": 13.47}, "moment error": {"stacked": -6.91}},
    },
}


def published(family: str, task: str, metric: str, method: str) -> float | None:
    """Return a number the paper prints, or None if we do not have it."""
    return PRINTED.get(family, {}).get(task, {}).get(metric, {}).get(method)
