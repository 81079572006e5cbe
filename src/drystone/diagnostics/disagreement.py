r"""Do the members disagree at the observation more than they do at simulations?

Networks that were trained alike agree where simulations taught them, and differ where they extrapolate: an alarm
that needs no truth (cf. arXiv 2507.13495). The statistic is the Jensen–Shannon distance
:math:`\sqrt{\mathrm{JS}(y)}` among the members with weight and, where both have weight, between posteriors and
likelihoods.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from drystone.diagnostics.null import ALARM, DOUBT, Check, check, combined_p_value
from drystone.diagnostics.reference import reference_of
from drystone.errors import IntractableError
from drystone.estimate import Estimate

if TYPE_CHECKING:
    from drystone.posterior import StackedPosterior

__all__ = ["Disagreement", "disagreement"]


@dataclass(frozen=True, eq=False)
class Disagreement:
    """How far the members are apart at an observation.

    Attributes:
        p_value: of all checks together: small if members disagree more than at simulations.
        checks: Jensen–Shannon distances among members and, where both have weight, between posteriors and
            likelihoods.
        divergence: Jensen–Shannon divergence among members, in nats.
        members: names of those that were compared: the heaviest that have draws and a density.

    Example:
        >>> import drystone as ds
        >>> fit = ds.stack(ds.toy.table(300, seed=1))
        >>> posterior = fit.posterior(ds.toy.MEMBERS, reference=ds.toy.table(600, seed=2))
        >>> found = posterior.at([1.5]).disagreement
        >>> found.alarm, [each.name for each in found.checks]
        (False, ['distance among members'])
    """

    p_value: float
    checks: tuple[Check, ...]
    divergence: Estimate
    members: tuple[str, ...]

    @property
    def alarm(self) -> bool:
        """Whether the p-value is below 0.01."""
        return self.p_value < ALARM

    def __str__(self) -> str:
        first = self.checks[0]
        more = float((first.null > first.statistic).mean())
        if self.p_value >= DOUBT:
            return (
                f"The members disagree as they do at simulations (p = {self.p_value:.2g}): at {more:.0%} of these "
                "they disagree more."
            )
        strength = "far more" if self.alarm else "more"
        then = " At least some of them are wrong there." if self.alarm else ""
        return f"The members disagree {strength} than at simulations (p = {self.p_value:.2g}).{then}"


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
    here, there = reference.views_of(posterior.one_observation(y_o)), reference.views
    if here.divergence is None or there.divergence is None:
        raise IntractableError(
            "disagreement needs at least two members with weight that have both draws and a density; got "
            f"{', '.join(here.names) or 'none'}."
        )
    a = reference.row_weights
    checks = [_check("distance among members", here.divergence, there.divergence, a)]
    if here.between_kinds is not None and there.between_kinds is not None:
        name = "distance between posteriors and likelihoods"
        checks.append(_check(name, here.between_kinds, there.between_kinds, a))
    return Disagreement(combined_p_value(checks, a), tuple(checks), here.estimate(), here.names)


def _check(name: str, here: np.ndarray, there: np.ndarray, a: np.ndarray) -> Check:
    """Return the check of Jensen–Shannon distances; an estimate below 0 is kept apart from others by its sign."""
    at_y, null = (np.sign(value) * np.sqrt(np.abs(value)) for value in (here, there))
    return check(name, float(at_y[0]), null, a)
