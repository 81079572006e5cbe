"""Members from lampe: estimators that hold a flow."""

from __future__ import annotations

from torch import nn

from drystone.adapters.member import Member
from drystone.adapters.restrict import restrict
from drystone.adapters.zuko import FlowMember

__all__ = ["from_lampe"]


def from_lampe(estimator: nn.Module, *, prior: object = None, error: float = 0.05) -> Member:
    """Return a member from lampe's ``NPE`` or ``FMPE``, for which ``estimator.flow(y)`` is a distribution over θ.

    Args:
        estimator: The trained estimator; it is put into evaluation mode.
        prior: Restrict the member to the support of this prior; see :func:`drystone.adapters.restrict`.
        error: See :func:`drystone.adapters.restrict`.

    Example:
        >>> import drystone as ds
        >>> import lampe  # doctest: +SKIP
        >>> estimator = lampe.inference.NPE(theta_dim=2, x_dim=3)  # doctest: +SKIP
        >>> member = ds.adapters.from_lampe(estimator, prior=([-1, -1], [1, 1]))  # doctest: +SKIP
        >>> table = ds.tabulate({"lampe": member}, theta, y)  # doctest: +SKIP
    """
    flow = getattr(estimator, "flow", None)
    if not isinstance(estimator, nn.Module) or not callable(flow):
        raise TypeError(
            f"`estimator` must have a `flow`, as lampe's NPE and FMPE do; got {type(estimator).__name__}. "
            "For ratio estimators draw with MCMC and use `from_functions(sample=...)`."
        )
    return restrict(FlowMember(estimator, flow), prior, error=error)
