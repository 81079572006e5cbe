r"""Do the members disagree at the observation more than they do at simulations?

Networks that were trained alike agree where simulations taught them, and differ where they extrapolate: an alarm
that needs no truth (cf. arXiv 2507.13495). The statistics are

- the Jensen–Shannon distance :math:`\sqrt{\mathrm{JS}(y)}` among the members with weight;
- where both have weight, that between posteriors and likelihoods;
- how unusual the pattern of their differences is: each member's mean, in units of the spread, and log spread, less
  their average over members; regressed on the means and whitened over simulations
  (:mod:`drystone.diagnostics.residuals`). A small difference where there is none at simulations counts as much as
  a large one where members always differ;
- with two likelihoods or more, how unusual their differences in log evidence are,

  .. math::
      e_l(y) = \log p_l(y) - \operatorname{median}_m \log p_m(y),
      \qquad p_l(y) = \int p(\theta) q_l(y|\theta) d\theta,

  regressed and whitened in the same way. Posteriors that agree on θ can differ by many nats in how probable the
  data are. Likelihoods without weight count here too: they lost to others on average, but learned from the same
  simulations.

As in :mod:`drystone.diagnostics.in_distribution`, half of the simulations teach what is usual, and the observation
is held against the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from drystone.diagnostics.null import DOUBT, Check, Verdict, check, combined_p_value, least_p_value
from drystone.diagnostics.reference import reference_of
from drystone.errors import IntractableError
from drystone.estimate import Estimate

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Disagreement", "disagreement"]

PATTERN = "pattern of differences, for such parameters"
EVIDENCE = "differences in evidence among likelihoods"


@dataclass(frozen=True, eq=False)
class Disagreement(Verdict):
    """How far the members are apart at an observation.

    Attributes:
        p_value: of all checks together: small if members disagree more than at simulations.
        checks: Jensen–Shannon distances among members and, where both have weight, between posteriors and
            likelihoods; how unusual the pattern of their differences is and, with two likelihoods or more, that of
            their log evidences.
        divergence: Jensen–Shannon divergence among members, in nats.
        members: names of those that were compared: the heaviest that have draws and a density.
        least: the least p-value that so many simulations can give.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(300, seed=1))
        >>> posterior = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(600, seed=2))
        >>> found = posterior.at([1.5]).disagreement
        >>> found.alarm, [each.name for each in found.checks]
        (False, ['distance among members', 'pattern of differences, for such parameters'])
    """

    p_value: float
    checks: tuple[Check, ...]
    divergence: Estimate
    members: tuple[str, ...]
    least: float = 0.0

    def __str__(self) -> str:
        first = self.checks[0]
        more = float((first.null > first.statistic).mean())
        if self.too_few:
            return (
                f"The members disagree as at none of the {len(first.null)} simulations; p = {self.p_value:.2g} is "
                "the least that so few can give. Give a reference of at least 200 rows."
            )
        if self.p_value >= DOUBT:
            return (
                f"The members disagree as they do at simulations (p = {self.p_value:.2g}): at {100 * more:.0f} % "
                "of these they disagree more."
            )
        then = " At least some of them are wrong there." if self.alarm else ""
        # Of several that are beyond all simulations, the first: a distance is the easiest to understand.
        most = min(self.checks, key=lambda each: each.p_value).name
        if most == EVIDENCE:
            way = "far more than" if self.alarm else "more than"
            return (
                f"The likelihoods disagree {way} at simulations on how probable the data are "
                f"(p = {self.p_value:.2g}).{then}"
            )
        if most == PATTERN:
            way = "in a way that they do not" if self.alarm else "in a way that they rarely do"
            return f"The members disagree {way} at simulations (p = {self.p_value:.2g}).{then}"
        strength = "far more" if self.alarm else "more"
        return f"The members disagree {strength} than at simulations (p = {self.p_value:.2g}).{then}"

    __repr__ = __str__


def disagreement(posterior: StackedPosterior, y_o: ArrayLike | None = None, *, seed: int = 0) -> Disagreement:
    """Return how far the members with weight are apart at an observation, against the reference simulations.

    Args:
        posterior: from ``fit.posterior(members, reference=table)``.
        y_o: the observation; None for the default one.
        seed: of the members' draws.

    Raises:
        IntractableError: if fewer than two members with weight have both draws and a density.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(300, seed=1))
        >>> posterior = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(600, seed=2))
        >>> print(disagreement(posterior, [1.5]))
        The members disagree as they do at simulations (p = ...
    """
    reference = reference_of(posterior, seed)
    y = posterior.one_observation(y_o)
    here, there = reference.views_of(y), reference.views
    if here.divergence is None or there.divergence is None:
        raise IntractableError(
            "disagreement needs at least two members with weight that have both draws and a density; got "
            f"{', '.join(here.names) or 'none'}."
        )
    held = reference.halves[1]
    a = reference.row_weights[held]
    checks = [_check("distance among members", here.divergence, there.divergence[held], a)]
    if here.between_kinds is not None and there.between_kinds is not None:
        name = "distance between posteriors and likelihoods"
        checks.append(_check(name, here.between_kinds, there.between_kinds[held], a))
    checks.append(check(PATTERN, reference.unusual_pattern(here), reference.patterns[2], a))
    if len(reference.with_evidence) > 1:
        null = reference.evidence_differences[1]
        checks.append(check(EVIDENCE, reference.unusual_evidence(y, here), null, a))
    return Disagreement(combined_p_value(checks, a), tuple(checks), here.estimate(), here.names, least_p_value(a))


def _check(name: str, here: np.ndarray, there: np.ndarray, a: np.ndarray) -> Check:
    """Return the check of Jensen–Shannon distances; an estimate below 0 is kept apart from others by its sign."""
    at_y, null = (np.sign(value) * np.sqrt(np.abs(value)) for value in (here, there))
    return check(name, float(at_y[0]), null, a)
