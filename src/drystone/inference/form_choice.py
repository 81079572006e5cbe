"""Mixture or product: the form that cross-validation on the stacking rows prefers."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np

from drystone._arrays import frozen
from drystone.errors import ConvergenceWarning
from drystone.estimate import mean_over_rows, split_folds
from drystone.forms import Form, Mixture, Product
from drystone.forms.cross_fitted import CrossFitted
from drystone.stacking import Stacking, stack
from drystone.table import Table

__all__ = ["FOLDS", "better_form"]

# Of the cross-validation.
FOLDS = 5
# Sum of the powers of a product above which its members are so wide that the user should know.
SHARP = 3.0


def better_form(table: Table, prior: object, seed: int) -> tuple[Stacking, Stacking, str]:
    """Return the better form by cross-validation, fitted to all rows; the same cross-fitted; and why."""
    forms: dict[str, Form] = {"mixture": Mixture(), "product": Product(prior=prior)}
    fold = np.empty(table.N, int)
    log_q = {name: np.empty(table.N) for name in forms}
    weights: dict[str, list[np.ndarray]] = {name: [] for name in forms}
    with warnings.catch_warnings():
        # A product that does not converge is not taken; it is nothing to warn of.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for f, (fitted, left_out) in enumerate(split_folds(table.N, FOLDS, seed)):
            fold[left_out] = f
            for name, form in forms.items():
                fit = stack(table.select(rows=fitted), form)
                weights[name].append(fit.weights)
                log_q[name][left_out] = fit.apply(table.select(rows=left_out)).log_q
        product = stack(table, forms["product"])
    gain = mean_over_rows(log_q["product"] - log_q["mixture"], table.row_weights)
    # A mixture is simpler to draw from: a product has to be better by more than its standard error.
    name = "product" if product.converged and gain.value > gain.se else "mixture"
    fit = product if name == "product" else stack(table, forms[name])
    fit = replace(fit, seconds=math.nan)  # so that reports of equal calls are equal
    params = {"weights": fit.weights, "fold_weights": frozen(np.stack(weights[name])), "fold": frozen(fold)}
    crossed = replace(fit, form=CrossFitted(fit.form), params=params)
    verb, preposition = ("gains", "over") if gain.value > 0 else ("loses", "against")
    difference = f"{verb} {abs(gain.value):.3f} ± {gain.se:.3f} nats {preposition}"
    why = f"Stacked as a {name}: a product {difference} a mixture in cross-validation."
    return fit, crossed, why + (_on_powers(float(fit.weights.sum())) if name == "product" else "")


def _on_powers(total: float) -> str:
    """Return what a user should know of a product whose powers are large."""
    if total <= SHARP:
        return ""
    return (
        f" Its powers sum to {total:.3g}: all members are far too wide, as where data have hardly any noise. What "
        "training again changes of a member moves such a product by much; give `test` to see whether its "
        "intervals still cover."
    )
