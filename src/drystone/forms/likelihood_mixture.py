r"""Mixture of likelihoods, times the prior."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from drystone._messages import first_few
from drystone.adapters.points import Values
from drystone.errors import IntractableError
from drystone.forms.form import Arrays
from drystone.forms.params import check_simplex
from drystone.forms.points import PointForm
from drystone.table import Table

__all__ = ["LikelihoodMixture"]


@dataclass(frozen=True, repr=False)
class LikelihoodMixture(PointForm):
    r"""q*(θ|y) ∝ p(θ) Σ_k w_k q_k(y|θ), w on the simplex.

    All members must be normalized densities of the same y. The weights are those of the best mixture of densities
    of y, :math:`\max_w \sum_n a_n \log \sum_k w_k q_k(y_n \mid \theta_n)`, solved exactly with no normalization
    at all; the normalizing constant of the posterior is needed once, at the end. The certificate is of that
    problem; the loss of the fit is its log score as a posterior, as of any form.

    Args:
        prior: p(θ) at new data, as for :func:`drystone.normalize`; None for that of the members. Uniform, normal
            and log-normal priors are stored with the fit, others are code.

    Example:
        >>> import drystone as ds, scipy.stats
        >>> theta, y = ds.toy.simulate(10, seed=1)
        >>> def noise(sd): return ds.adapters.from_likelihood(
        ...     lambda theta, y: scipy.stats.norm.logpdf(y, 0.9 * theta, sd)[:, 0], normalized_in_y=True)
        >>> members = ds.normalize([noise(0.5), noise(1.5)], prior=ds.tasks.Normal([0.0], [3.2]), error=0.5)
        >>> fit = ds.stack(ds.tabulate(members, theta, y, draws=0, points=100), ds.LikelihoodMixture())
        >>> fit.gap < 1e-8, round(float(fit.weights.sum()), 6)
        (True, 1.0)
    """

    def log_target(self, weights: np.ndarray, values: Values, likelihood: np.ndarray) -> np.ndarray:
        """Return log p + log Σ_k w_k q_k(y|θ)."""
        assert values.log_prior is not None
        active = weights > 0
        shape = (-1, *(1 for _ in values.log_prior.shape))
        mixed = np.asarray(logsumexp(values.log_f[active], axis=0, b=weights[active].reshape(shape)))
        return np.where(values.log_prior == -np.inf, -np.inf, values.log_prior + mixed)

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless there are K weights ≥ 0 that sum to one."""
        super().check_params(params, K, d)
        check_simplex("weights", params["weights"])

    def check_table(self, table: Table) -> None:
        """Raise if a member is not a normalized density of y."""
        refused = [name for name in table.names if not table.likelihoods.get(name, False)]
        if refused:
            raise IntractableError(
                f"a mixture of likelihoods is of normalized densities of y; {first_few(refused)} are not "
                "(posteriors, ratios, likelihoods up to a term in y). Leave them out with "
                "table.select(members=...), say normalized_in_y=True if they are, or use Product() or Mixture()."
            )
