"""Whether what sbi trained is made for one observation: inference in several rounds (SNPE, TSNPE, SNLE, SNRE).

Stacking asks a member about simulations from the whole prior. From the second round on simulations come from a
proposal around one observation, and the posterior may be wrong elsewhere. How that can be told:

| given | known by |
|---|---|
| sbi's trainer | the rounds and the proposals of its simulations |
| ``NPE_A_Posterior`` | its correction for the proposal |
| any other posterior | nothing; a default observation, which a proposal must have, is a hint |
"""

from __future__ import annotations

import warnings
from typing import Any

__all__ = ["several_rounds", "warn_of_rounds"]

WHAT_TO_DO = (
    "Stacking asks members about simulations from the whole prior, where it may be wrong. Stack near the "
    "observation with `ds.stack(table, at=y_o)`, best on simulations from its last proposal with `row_weights` "
    "proportional to prior / proposal: see 'Stack posteriors trained in several rounds' in the documentation."
)
# Level of the caller of `from_sbi`, which calls `warn_of_rounds`.
CALLER = 3


def several_rounds(trainer: Any) -> bool:
    """Return whether a trainer of sbi has simulations from anything but its prior.

    Likelihoods and ratios are told the round by ``append_simulations(..., from_round=)``, which may be left out.
    """
    from sbi.utils import RestrictedPrior

    # Truncated proposals (TSNPE) count as the first round for sbi, since they need no correction.
    truncated = any(
        isinstance(proposal, RestrictedPrior) for proposal in getattr(trainer, "_proposal_roundwise", ())
    )
    return truncated or max(trainer._data_round_index, default=0) > 0


def warn_of_rounds(trainer: Any, posterior: Any) -> None:
    """Warn if a posterior was trained in several rounds, or may have been.

    Args:
        trainer: sbi's trainer; None if only the posterior is known.
        posterior: one of sbi's.
    """
    if trainer is not None:
        if several_rounds(trainer):
            message = (
                f"this {type(trainer).__name__} was trained in several rounds, for one observation. {WHAT_TO_DO}"
            )
            warnings.warn(message, stacklevel=CALLER)
    elif getattr(posterior, "_proposal_mog", None) is not None:
        message = (
            f"this {type(posterior).__name__} was trained in several rounds, for one observation. {WHAT_TO_DO}"
        )
        warnings.warn(message, stacklevel=CALLER)
    elif getattr(posterior, "default_x", None) is not None:
        warnings.warn(
            "this posterior has a default observation (`set_default_x`), as the proposals of several rounds have. "
            "sbi's posteriors do not record their rounds; give the trainer, `from_sbi(inference)`, which does."
            f" If there was one round, all is well; if there were several: {WHAT_TO_DO}",
            stacklevel=CALLER,
        )
