"""Rows of the paper's Table 1: ways to combine K posteriors."""

from drystone.forms.form import Form, Shares
from drystone.forms.interval import IntervalAggregation
from drystone.forms.local import LocalMixture
from drystone.forms.mixture import Mixture
from drystone.forms.sample import SampleAggregation
from drystone.forms.simplex import SimplexForm
from drystone.forms.view import Params, View

__all__ = [
    "FORMS",
    "Form",
    "IntervalAggregation",
    "LocalMixture",
    "Mixture",
    "Params",
    "SampleAggregation",
    "Shares",
    "SimplexForm",
    "View",
]

FORMS: tuple[type[Form], ...] = (Mixture, LocalMixture, SampleAggregation, IntervalAggregation)
