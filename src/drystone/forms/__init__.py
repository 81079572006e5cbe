"""Rows of the paper's Table 1: ways to combine K posteriors."""

from drystone.forms.form import Form, Params, View
from drystone.forms.mixture import Mixture

__all__ = ["FORMS", "Form", "Mixture", "Params", "View"]

FORMS: tuple[type[Form], ...] = (Mixture,)
