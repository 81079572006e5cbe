"""Forms whose only parameters are one set of weights."""

from __future__ import annotations

import numpy as np

from drystone.forms.form import Arrays, Form, Shares
from drystone.forms.params import check_array, check_names, check_not_negative, check_simplex
from drystone.table import Table

__all__ = ["SimplexForm", "WeightedForm"]


class WeightedForm(Form):
    """A form with parameters ``weights`` (K,), w_k ≥ 0."""

    def expand_params(self, params: dict[str, np.ndarray], members: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Return the weights of all K members, 0 for the others."""
        weights = np.zeros(K)
        weights[members] = params["weights"]
        return {"weights": weights}

    def active_members(self, params: Arrays) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the members with weight."""
        members = np.flatnonzero(params["weights"])
        return members, {"weights": params["weights"][members]}

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless there are K weights ≥ 0."""
        check_names(params, ("weights",))
        check_array("weights", params["weights"], (K,))
        check_not_negative("weights", params["weights"])

    def describe_params(self, params: Arrays, names: tuple[str, ...]) -> list[str]:
        """Return the members with weight, heaviest first."""
        weights = params["weights"]
        heaviest = [int(k) for k in np.argsort(-weights, kind="stable") if weights[k] > 0]
        lines = [f"  {names[k]:<40} {weights[k]:8.4f}" for k in heaviest[:20]]
        rest = weights[heaviest[20:]]
        if len(rest):
            lines.append(f"  {f'… and {len(rest)} more':<40} {rest.sum():8.4f}")
        return lines

    def weights_at(self, params: Arrays, y: np.ndarray) -> np.ndarray:
        """Return the weights, (K,), the same for all data."""
        return params["weights"]


class SimplexForm(WeightedForm):
    """A form with parameters ``weights`` (K,), w_k ≥ 0 and Σ_k w_k = 1.

    It leaves ``gives`` and ``combine`` to define; :class:`~drystone.solvers.ProjectedGradient` fits it, unless
    ``default_solver`` returns another.

    Example:
        >>> import drystone as ds
        >>> class Means(ds.forms.SimplexForm):
        ...     gives, is_mixture = frozenset({"mean"}), True  # so that convex scores are certified
        ...     def combine(self, params, table, softness=0.0):
        ...         return ds.Mixture().combine(params, table, softness)
        >>> fit = ds.stack(ds.toy.table(200, seed=1), Means(), ds.MeanScore())
        >>> fit.status.name, round(fit.loss, 2)
        ('CERTIFIED', 0.8)
    """

    def pseudocount(self, table: Table) -> float:
        """Return c of a penalty −c Σ_k log w_k, or 0 for none."""
        return 0.0

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless there are K weights ≥ 0 that sum to one."""
        super().check_params(params, K, d)
        check_simplex("weights", params["weights"])

    def shares(self, params: Arrays, table: Table) -> Shares:
        """Return the weights."""
        return Shares("weight", params["weights"], simplex=True)
