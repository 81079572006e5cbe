"""A form and a solver of your own: quantiles that are averages of the members' quantiles, fitted exactly."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy
import torch

import drystone as ds


class AveragedQuantiles(ds.forms.View):
    """The form on the rows of a table: one method per statistic it gives, torch tensors out."""

    def __init__(self, weights, table, softness):
        super().__init__(table, softness)
        self.weights = weights

    def interval(self, alpha):
        """Central 1 − alpha intervals, (N, d, 2)."""
        ends = [torch.as_tensor(self.table.quantile(level)) for level in (alpha / 2, 1 - alpha / 2)]
        return torch.stack([torch.tensordot(self.weights, end, 1) for end in ends], -1)

    def mean(self):
        """The mean is the integral of the quantile function, so it is averaged too: (N, d)."""
        return torch.tensordot(self.weights, torch.as_tensor(self.table.mean), 1)


@dataclass(frozen=True, repr=False)
class QuantileAveraging(ds.forms.SimplexForm):
    """Q*(τ) = Σ_k w_k Q_k(τ), w on the simplex: as sharp as its members, where a mixture is wider."""

    gives: ClassVar = frozenset({"interval", "mean"})

    def combine(self, params, table, softness=0.0):
        """Return the form on the rows of a table."""
        return AveragedQuantiles(params["weights"], table, softness)

    def default_solver(self):
        """Return the solver that `stack` uses."""
        return LinearProgram()


@dataclass(frozen=True, repr=False)
class LinearProgram(ds.solvers.Solver):
    """The interval score of averaged quantiles is a sum of pinball losses, hence a linear program in w."""

    solves: ClassVar = ((QuantileAveraging, ds.IntervalScore),)
    certifies: ClassVar = True

    def minimize(self, table, form, score, tol, seed):
        """Split each residual θ − Σ_k w_k Q_k into parts above and below 0, which have linear costs."""
        alpha, K = score.alpha, table.K
        X, theta, above, below = [], [], [], []
        cost = np.repeat(table.row_weights, table.d) * 2 / alpha / table.d
        for tau in (alpha / 2, 1 - alpha / 2):
            X.append(table.quantile(tau).reshape(K, -1).T)
            theta.append(table.theta.ravel())
            above.append(tau * cost)
            below.append((1 - tau) * cost)
        X, theta = np.concatenate(X), np.concatenate(theta)
        identity = scipy.sparse.identity(len(theta))
        on_simplex = scipy.sparse.csr_array(np.r_[np.ones(K), np.zeros(2 * len(theta))][None])
        residuals = scipy.sparse.hstack([X, identity, -identity])
        result = scipy.optimize.linprog(
            np.concatenate([np.zeros(K), *above, *below]),
            A_eq=scipy.sparse.vstack([residuals, on_simplex]),
            b_eq=np.append(theta, 1.0),
        )
        weights = np.maximum(result.x[:K], 0.0)
        # By duality no weights can have a loss below b · (prices of the constraints).
        gap = abs(result.fun - np.append(theta, 1.0) @ result.eqlin.marginals)
        status = ds.solvers.Status.of(gap, tol * max(1.0, result.fun), certified=True, at_limit=False)
        return ds.solvers.Solution({"weights": weights / weights.sum()}, gap, gap, status, result.nit)


if __name__ == "__main__":
    validation, test = ds.toy.table(500, seed=1, draws=500), ds.toy.table(500, seed=2, draws=500)
    fit = ds.stack(validation, QuantileAveraging(), ds.IntervalScore())
    print(fit.summary())
    generic = ds.stack(validation, QuantileAveraging(), ds.IntervalScore(), solver=ds.solvers.ProjectedGradient())
    print(f"projected gradients come within {generic.loss - fit.loss:.1e} of the linear program")
    print(ds.compare(validation, test, {"averaged": fit, "mixture": ds.stack(validation)}))
    posterior = fit.posterior(ds.toy.MEMBERS)
    print("90% interval at y = 1.3:", posterior.interval(np.array([1.3]), seed=0).round(2))
