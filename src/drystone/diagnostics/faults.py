r"""Too narrow, too wide, or biased: how far, parameter by parameter, as the ranks of the truth show it.

With a rank u in (0, 1), :math:`z = \Phi^{-1}(u)` is where the truth lies in a posterior, in its standard
deviations if that is Gaussian, and a standard normal variable if it is exact, whatever its shape:

.. math::
    \text{bias} = -\bar z, \qquad \text{width} = \operatorname{sd}(z) / \operatorname{sd}_0(z)

with sd₀ that of an exact posterior's S draws. Truths with twice the spread that the posterior gives them have
width 2: it is too narrow by a factor of 2. Few draws say less of that: a truth beyond all of them counts as just
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy  # and not its parts, which it imports when they are used

from drystone.comparison import Fits
from drystone.diagnostics.ranks import ranks
from drystone.estimate import Estimate, mean_over_rows
from drystone.table import Table

__all__ = ["Fault", "Faults", "faults", "faults_of_ranks"]

# A bias below this many standard deviations, or a width within this of 1, does no harm, however well it is known.
HARMLESS = 0.05
# Draws behind a rank, if the table does not say.
UNKNOWN_DRAWS = 1000

Kind = Literal["biased upwards", "biased downwards", "too narrow", "too wide"]


@dataclass(frozen=True)
class Fault:
    """A fault of a posterior in one parameter.

    Attributes:
        parameter: its name.
        kind: what is wrong.
        size: of a bias, posterior standard deviations; of a width, the factor by which it is off, above 1.

    Example:
        >>> import drystone as ds
        >>> faults = ds.diagnostics.faults(ds.toy.table(500, seed=1))
        >>> for fault in faults["narrow"].clear:
        ...     print(fault.parameter, fault.kind, fault.size, sep=", ")
        theta, too narrow, 1.672 ± 0.037
    """

    parameter: str
    kind: Kind
    size: Estimate

    def __str__(self) -> str:
        by = f"{self.size} of its standard deviations" if "biased" in self.kind else f"a factor of {self.size}"
        return f"{self.parameter} is {self.kind}, by {by}"

    __repr__ = __str__


@dataclass(frozen=True, eq=False)
class Faults:
    """Bias and width of a posterior in each parameter.

    Attributes:
        parameters: the names of θ.
        bias: posterior standard deviations, + if the posterior lies too high; one estimate per parameter.
        width: spread of the truths over that of the posterior: above 1 if it is too narrow.
        level: probability that an exact posterior is found without fault, in all parameters together.

    Example:
        >>> import drystone as ds
        >>> faults = ds.diagnostics.faults(ds.toy.table(500, seed=1))["right"]
        >>> print(faults.bias[0], faults.width[0], sep=", ")
        1.044 ± 0.045, 1.003 ± 0.031
        >>> len(faults.clear)
        1
    """

    parameters: tuple[str, ...]
    bias: tuple[Estimate, ...]
    width: tuple[Estimate, ...]
    level: float = 0.95

    @property
    def clear(self) -> tuple[Fault, ...]:
        """The faults that are neither harmless nor chance (Bonferroni over both of all parameters)."""
        errors = float(scipy.special.ndtri(1 - (1 - self.level) / (4 * len(self.parameters))))
        found = []
        for parameter, bias, width in zip(self.parameters, self.bias, self.width, strict=True):
            if abs(bias.value) > max(errors * bias.se, HARMLESS):
                kind = "biased upwards" if bias.value > 0 else "biased downwards"
                found.append(Fault(parameter, kind, Estimate(abs(bias.value), bias.se)))
            if abs(width.value - 1) > max(errors * width.se, HARMLESS):
                wide = Estimate(1 / width.value, width.se / width.value**2) if width.value > 0 else width
                narrow = width.value > 1
                found.append(Fault(parameter, *(("too narrow", width) if narrow else ("too wide", wide))))
        return tuple(found)

    def __str__(self) -> str:
        return "; ".join(map(str, self.clear)) or "no clear fault"

    __repr__ = __str__


def faults(table: Table, fits: Fits = None, *, level: float = 0.95) -> dict[str, Faults]:
    r"""Return bias and width of each member, of uniform weights and of each fit that has ranks, by name.

    Args:
        table: rows that neither members nor fits have seen.
        fits: a stacking, or several by name.
        level: probability that an exact posterior is found without fault.

    Example:
        >>> import drystone as ds
        >>> found = faults(ds.toy.table(2000, seed=1))
        >>> print(found["narrow"], found["right"], sep="\n")
        theta is too narrow, by a factor of 1.590 ± 0.019
        theta is biased upwards, by 0.983 ± 0.022 of its standard deviations
    """
    r = ranks(table, fits)
    of_members = dict(zip(r.names, r.members, strict=True))
    return {
        name: faults_of_ranks(u, r.draws, r.row_weights, r.parameters, level)
        for name, u in {**of_members, **r.methods}.items()
    }


def faults_of_ranks(
    u: np.ndarray, S: int | None, a: np.ndarray, parameters: tuple[str, ...], level: float = 0.95
) -> Faults:
    """Return bias and width as ranks show them.

    Args:
        u: ranks in (0, 1), (N, d).
        S: draws behind each; None if it is not known.
        a: row weights, (N,).
        parameters: the names of θ.
        level: probability that an exact posterior is found without fault.
    """
    S = UNKNOWN_DRAWS if S is None else S
    z = scipy.special.ndtri(np.clip(u, 0.5 / (S + 1), 1 - 0.5 / (S + 1)))
    exact = scipy.special.ndtri((np.arange(S + 1) + 0.5) / (S + 1))  # the z of an exact posterior
    variance, concentration = (exact**2).mean(), (a**2).sum()
    # No error is below that of an exact posterior: a few rows, or weights of a few, happen to be alike.
    least_of_bias = np.sqrt(variance * concentration)
    least_of_width = np.sqrt((exact**2 / variance).var() * concentration) / 2
    own_mean = 1 - concentration if concentration < 1 else 1.0  # the share of the variance about it
    bias, width = [], []
    for of_parameter in z.T:
        mean = mean_over_rows(of_parameter, a)
        square = mean_over_rows((of_parameter - mean.value) ** 2 / (variance * own_mean), a)
        root = float(np.sqrt(square.value))
        bias.append(Estimate(-mean.value, float(np.fmax(mean.se, least_of_bias))))
        of_root = square.se / (2 * root) if root > 0 else 0.0
        width.append(Estimate(root, float(np.fmax(of_root, least_of_width))))
    return Faults(parameters, tuple(bias), tuple(width), level)
