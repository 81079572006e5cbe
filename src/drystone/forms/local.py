r"""Mixture with weights that depend on the data (Sec. 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import silu

from drystone.forms.form import Arrays, Form, MemberLike, Shares
from drystone.forms.mixture import Mixture, MixtureView, draw_mixture, mixture_log_prob
from drystone.forms.params import check_array, check_names
from drystone.forms.screening import hopeless_members
from drystone.forms.view import Params, as_tensors
from drystone.table import Table
from drystone.table.inputs import flat_data

__all__ = ["LocalMixture"]


@dataclass(frozen=True, repr=False)
class LocalMixture(Form):
    r"""q*(θ|y) = Σ_k w_k(y) q_k(θ|y), the weights a network's answer to y.

    .. math::
        w(y) = \mathrm{softmax}(\alpha(y)), \qquad \alpha \text{ a network on standardized } y

    It starts at the global solution exactly, is stopped early on rows kept aside, and must beat the global weights
    there by more than two standard errors; otherwise the fit *is* the global :class:`Mixture`, and says so.
    (A member without global weight enters the first step with a twentieth of an equal share.)

    Args:
        hidden: units of the hidden layers.
        embedding: a torch module that turns y into features, used as it is (not trained further).
        holdout: the share of rows kept aside, half of them to stop by and half to be judged by.
        epochs: at most so many steps over all rows.
        patience: stop after so many steps without gain on the rows kept aside.
        learning_rate: of the Adam optimiser.
        weight_decay: pulls the network towards weights that do not depend on y.

    Example:
        >>> import drystone as ds, numpy as np
        >>> theta, y = ds.toy.simulate(400, seed=1)
        >>> error, above = (theta - y)[:, 0], y[:, 0] > 0
        >>> log_q = [-((error - 2 * biased) ** 2) / 2 for biased in (above, ~above)]  # each is right on one side
        >>> fit = ds.stack(ds.Table(theta, y=y, log_q=log_q), ds.LocalMixture(hidden=(8,), epochs=100))
        >>> fit.form.weights_at(fit.params, np.array([[-4.0], [4.0]])).round()
        array([[1., 0.],
               [0., 1.]])
    """

    gives: ClassVar = Mixture.gives
    hidden: tuple[int, ...] = (64, 64)
    embedding: torch.nn.Module | None = None
    holdout: float = 0.25
    epochs: int = 500
    patience: int = 50
    learning_rate: float = 3e-3
    weight_decay: float = 1e-3

    def __post_init__(self) -> None:
        if not 0 < self.holdout < 1:
            raise ValueError(f"`holdout` must be in (0, 1); got {self.holdout}.")

    def hopeless_members(self, table: Table) -> np.ndarray:
        """Return the members far out of the parameters' range."""
        return hopeless_members(table)

    def combine(self, params: Params, table: Table, softness: Tensor | float = 0.0) -> MixtureView:
        """Return the mixture on the rows of ``table``, with a set of weights for each."""
        flat_data(table, "weights that depend on the data need")
        return MixtureView(self.gate(params, np.asarray(table.y)), table, softness)

    def gate(self, params: Params, y: np.ndarray) -> Tensor:
        """Return w(y), (N, K), differentiable in the parameters."""
        x = (self.features(y) - params["y_mean"]) / params["y_scale"]
        depth = len(self.hidden)
        for i in range(depth):
            x = silu(x @ params[f"layer_{i}"] + params[f"bias_{i}"])
        return torch.softmax(x @ params[f"layer_{depth}"] + params[f"bias_{depth}"], -1)

    def features(self, y: np.ndarray) -> Tensor:
        """Return y flattened, or as the embedding sees it, (N, ·)."""
        data = torch.tensor(np.asarray(y, float))
        if self.embedding is None:
            return data.reshape(len(data), -1)
        dtype = next((p.dtype for p in self.embedding.parameters()), torch.get_default_dtype())
        with torch.no_grad():
            return self.embedding(data.to(dtype)).double().flatten(1)

    def expand_params(self, params: dict[str, np.ndarray], members: np.ndarray, K: int) -> dict[str, np.ndarray]:
        """Return the network for all K members; the others have logit −∞."""
        last = len(self.hidden)
        layer = np.zeros((params[f"layer_{last}"].shape[0], K))
        bias = np.full(K, -np.inf)
        layer[:, members], bias[members] = params[f"layer_{last}"], params[f"bias_{last}"]
        return {**params, f"layer_{last}": layer, f"bias_{last}": bias}

    def active_members(self, params: Arrays) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return all members with a finite logit."""
        last = len(self.hidden)
        members = np.flatnonzero(np.isfinite(params[f"bias_{last}"]))
        part = {name: params[name][..., members] for name in (f"layer_{last}", f"bias_{last}")}
        return members, {**params, **part}

    def check_params(self, params: Arrays, K: int, d: int) -> None:
        """Raise ``ValueError`` unless there is a network with the hidden layers of the form and K logits."""
        layers = [f"{kind}_{i}" for i in range(len(self.hidden) + 1) for kind in ("layer", "bias")]
        check_names(params, ("y_mean", "y_scale", *layers))
        features = params["y_mean"].size
        check_array("y_mean", params["y_mean"], (features,))
        check_array("y_scale", params["y_scale"], (features,))
        if not (params["y_scale"] > 0).all():
            raise ValueError("`y_scale` must be positive.")
        sizes, last = (features, *self.hidden, K), len(self.hidden)
        for i in range(last + 1):
            check_array(f"layer_{i}", params[f"layer_{i}"], sizes[i : i + 2])
            # A member that takes no part has the logit −∞.
            check_array(f"bias_{i}", params[f"bias_{i}"], sizes[i + 1 : i + 2], infinite=i == last)
        if not np.isfinite(params[f"bias_{last}"]).any() or (params[f"bias_{last}"] == np.inf).any():
            raise ValueError(f"`bias_{last}` must be finite for one member at least, and infinite only downwards.")

    def describe_params(self, params: Arrays, names: tuple[str, ...]) -> list[str]:
        """Return the size of the network."""
        sizes = [params["y_mean"].size, *self.hidden, len(names)]
        return [f"  weights by a network {' → '.join(map(str, sizes))}"]

    def shares(self, params: Arrays, table: Table) -> Shares:
        """Return the weights, averaged over the rows of ``table``."""
        average = table.row_weights @ self.weights_at(params, np.asarray(table.y))
        return Shares("weight w(y), averaged over the test rows", average, simplex=True)

    def weights_at(self, params: Arrays, y: np.ndarray) -> np.ndarray:
        """Return w(y), (N, K)."""
        return self.gate(as_tensors(params), y).numpy()

    def draw(
        self,
        params: Arrays,
        members: Sequence[MemberLike],
        n: int,
        y: np.ndarray,
        rng: np.random.Generator,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return stratified draws with the weights of each row, and the member each came from."""
        return draw_mixture(self.weights_at(params, y), members, n, y, rng)

    def log_prob(
        self, params: Arrays, members: Sequence[MemberLike], theta: np.ndarray, y: np.ndarray
    ) -> np.ndarray:
        """Return log Σ_k w_k(y_n) q_k(θ_n | y_n), (N,)."""
        return mixture_log_prob(self.weights_at(params, y), members, theta, y)
