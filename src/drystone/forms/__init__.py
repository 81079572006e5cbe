"""Rows of the paper's Table 1: ways to combine K posteriors."""

from drystone.forms.form import Form, Shares
from drystone.forms.interval import IntervalAggregation
from drystone.forms.likelihood_mixture import LikelihoodMixture
from drystone.forms.local import LocalMixture
from drystone.forms.mixture import Mixture
from drystone.forms.points import PointForm
from drystone.forms.product import Product
from drystone.forms.sample import SampleAggregation
from drystone.forms.simplex import SimplexForm
from drystone.forms.view import Params, View

__all__ = [
    "FORMS",
    "Form",
    "IntervalAggregation",
    "LikelihoodMixture",
    "LocalMixture",
    "Mixture",
    "Params",
    "PointForm",
    "Product",
    "SampleAggregation",
    "Shares",
    "SimplexForm",
    "View",
]

FORMS: tuple[type[Form], ...] = (
    Mixture,
    LocalMixture,
    SampleAggregation,
    IntervalAggregation,
    Product,
    LikelihoodMixture,
)
