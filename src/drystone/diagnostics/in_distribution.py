r"""Is the observation like the simulations at all?

Half of the reference simulations are a cloud, the others and the observation are held against it in the same way,
so that the p-value is uniform if the observation is a simulation, whatever the statistic:

- how far the data are from their nearest neighbours in the cloud (:mod:`drystone.diagnostics.neighbors`);
- the same for what members see of the data: mean and log standard deviation of each parameter by each of them;
- how far the data are from what members' means predict of them (:mod:`drystone.diagnostics.residuals`);
- the log evidence of members that are normalized likelihoods, the less the more unusual;
- how many entries are not finite, if any are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from drystone.diagnostics.null import DOUBT, Check, Verdict, check, combined_p_value, least_p_value, most_unusual
from drystone.diagnostics.reference import reference_of

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["InDistribution", "in_distribution"]


@dataclass(frozen=True, eq=False)
class InDistribution(Verdict):
    """Whether an observation is like the simulations.

    Attributes:
        p_value: of all checks together: small if the observation is unusual in any of them.
        checks: each alone.
        nonfinite: positions of the entries of y_o that are not finite, as tuples of indices.
        least: the least p-value that so many simulations can give.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(300, seed=1))
        >>> posterior = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(600, seed=2))
        >>> [posterior.at([y]).in_distribution.alarm for y in (1.5, 80.0)]
        [False, True]
    """

    p_value: float
    checks: tuple[Check, ...]
    nonfinite: tuple[tuple[int, ...], ...] = ()
    least: float = 0.0

    def __str__(self) -> str:
        most = most_unusual(self.checks)
        entries = ""
        if self.nonfinite:
            places = [", ".join(map(str, place)) for place in self.nonfinite[:5]]
            more = f" and {len(self.nonfinite) - 5} more" if len(self.nonfinite) > 5 else ""
            entries = f" Not finite: y[{'], y['.join(places)}]{more}."
        if self.too_few:
            return (
                f"The observation is beyond all {len(most.null)} simulations that it was held against, above all "
                f"in the {most.name}; p = {self.p_value:.2g} is the least that so few can give. Give a reference "
                f"of at least 200 rows.{entries}"
            )
        if self.p_value >= DOUBT:
            return f"The observation is like the simulations (p = {self.p_value:.2g}).{entries}"
        if self.alarm:
            p = f"{self.p_value:.2g}"
            return (
                f"The observation is unlike the simulations (p = {p}), above all in the {most.name}; "
                f"a posterior trained on them cannot be relied on there.{entries}"
            )
        return f"The observation is unusual (p = {self.p_value:.2g}), above all in the {most.name}.{entries}"

    __repr__ = __str__


def in_distribution(posterior: StackedPosterior, y_o: ArrayLike | None = None, *, seed: int = 0) -> InDistribution:
    """Return whether an observation is like the reference simulations of a posterior.

    Args:
        posterior: from ``fit.posterior(members, reference=table)``.
        y_o: the observation; None for the default one.
        seed: of the members' draws and of the halves of the reference.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(300, seed=1))
        >>> posterior = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(600, seed=2))
        >>> print(in_distribution(posterior, [80.0]))
        The observation is unlike the simulations (p = 0.0033), above all in the distance from data that such ...
    """
    reference = reference_of(posterior, seed)
    y = posterior.one_observation(y_o)
    views = reference.views_of(y)
    held = reference.halves[1]
    a = reference.row_weights[held]
    data = np.asarray(y, float).reshape(1, -1)
    missing, missing_o = ~np.isfinite(reference.data), ~np.isfinite(data)
    cloud, null = reference.neighbors_in_data
    checks = [check("distance from the nearest simulations", cloud.distance(data)[0], null, a)]
    if views.summaries.shape[1]:
        cloud, null = reference.neighbors_in_summaries
        name = "distance in what members see"
        checks.append(check(name, cloud.distance(views.summaries)[0], null, a))
        residuals, null = reference.residuals
        whitened = reference.neighbors_in_data[0].whitened(data)
        name = "distance from data that such parameters give"
        checks.append(check(name, residuals.distance(views.means, whitened)[0], null, a))
    for name, evidence, evidence_o in reference.log_evidence_of(y):
        checks.append(check(f"evidence by the likelihood {name}", -evidence_o, -evidence[held], a))
    if missing.any() or missing_o.any():
        checks.append(check("number of entries that are not finite", missing_o.sum(), missing[held].sum(1), a))
    places = np.argwhere(~np.isfinite(np.asarray(y[0], float)))
    # Where simulations have none, no distance with the entries filled in can make up for them.
    decisive = checks[-1:] if missing_o.any() and not missing.any() else checks
    nonfinite = tuple(tuple(int(i) for i in place) for place in places)
    return InDistribution(combined_p_value(decisive, a), tuple(checks), nonfinite, least_p_value(a))
