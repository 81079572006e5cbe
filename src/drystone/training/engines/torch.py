"""Training with torch: zuko flows, any embedding of y, any device. One plain loop.

The result has the same type as the compiled engine's: the flow's parameters are converted to Drystone's layout, so
that densities and draws are computed by the compiled kernels; only the embedding stays a torch module.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.optim.swa_utils import update_bn

from drystone.flows.flow import Flow
from drystone.flows.zuko import parameters_of, to_zuko
from drystone.training.engines.loop import Data, State
from drystone.training.sweep import Configuration, ema_share

__all__ = ["TorchLearner", "embed", "embedding_state", "with_state"]

# The gradient norm is held to this, as by the compiled engine.
CLIP = 5.0
# Rows evaluated together outside training.
CHUNK = 4096


class TorchLearner:
    """A zuko flow with its embedding and Adam.

    ``averaged_flow`` and ``averaged_embedding`` are evaluated and returned: the flow and the embedding themselves,
    unless they are averaged over epochs.
    """

    def __init__(
        self,
        configuration: Configuration,
        data: Data,
        embedding: Callable[[], nn.Module] | None,
        device: str,
        rng: np.random.Generator,
    ) -> None:
        self.configuration = configuration
        self.data = data
        self.x = torch.from_numpy(data.x).to(device)
        self.y = torch.from_numpy(data.y).to(device)
        self.embedding = None if embedding is None else embedding().to(device)
        context = self._probe(self.y[:2])
        if context.ndim != 2:
            shape = tuple(context.shape)
            raise ValueError(f"`embedding` must return one vector per row, (N, c); got shape {shape}.")
        self.architecture = configuration.architecture(data.x.shape[1], context.shape[1], rng)
        self.flow = to_zuko(Flow.initial(self.architecture, rng), configuration.dropout).to(device)
        self.parts = nn.ModuleList([self.flow] if self.embedding is None else [self.flow, self.embedding])
        self.averaged = configuration.ema_decay > 0
        self.epochs = 0
        self.averaged_flow = copy.deepcopy(self.flow) if self.averaged else self.flow
        self.averaged_embedding = copy.deepcopy(self.embedding) if self.averaged else self.embedding
        self.adam = torch.optim.Adam(self.parts.parameters(), lr=configuration.learning_rate)

    @torch.no_grad()
    def _probe(self, y: torch.Tensor) -> torch.Tensor:
        """Return the context of some rows; running statistics of the embedding stay as they are."""
        if self.embedding is None:
            return y
        context = self.embedding.eval()(y)
        self.embedding.train()
        return context

    def epoch(self, rows: NDArray[np.int64]) -> float:
        """Train on the rows in this order and return the mean loss; a short last batch is left out."""
        self.parts.train()
        size = min(self.configuration.batch_size, rows.size)
        batches = torch.from_numpy(rows)[: rows.size // size * size].view(-1, size).to(self.x.device)
        total = 0.0
        for batch in batches:
            loss = -self.flow(self._context(self.y[batch], self.embedding)).log_prob(self.x[batch]).mean()
            self.adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.parts.parameters(), CLIP)
            self.adam.step()
            total += loss.item()
        self.epochs += 1
        if self.averaged:
            self._average(self.averaged_flow, self.flow)
            if self.embedding is not None and self.averaged_embedding is not None:
                self._average(self.averaged_embedding, self.embedding)
                # Averaged parameters have batch statistics of their own; without batch norm this does nothing.
                update_bn((self.y[batch] for batch in batches), self.averaged_embedding)
        return total / len(batches)

    def take(self, data: Data) -> None:
        """Train on other data from now on; the validation rows are the same."""
        self.x, self.y = (torch.from_numpy(a).to(self.x.device) for a in (data.x, data.y))

    @torch.no_grad()
    def _average(self, averaged: nn.Module, current: nn.Module) -> None:
        for average, new in zip(averaged.parameters(), current.parameters(), strict=True):
            average.lerp_(new, 1 - ema_share(self.configuration.ema_decay, self.epochs))
        for average, new in zip(averaged.buffers(), current.buffers(), strict=True):
            average.copy_(new)

    @torch.no_grad()
    def validation_loss(self) -> float:
        """Return the mean negative log density on the validation rows."""
        self.averaged_flow.eval()
        if self.averaged_embedding is not None:
            self.averaged_embedding.eval()
        total = 0.0
        for rows in torch.from_numpy(self.data.validation).to(self.x.device).split(CHUNK):
            context = self._context(self.y[rows], self.averaged_embedding)
            total -= self.averaged_flow(context).log_prob(self.x[rows]).sum().item()
        return total / len(self.data.validation)

    def scale_learning_rate(self, factor: float) -> None:
        """Multiply the learning rate by a factor."""
        for group in self.adam.param_groups:
            group["lr"] *= factor

    def state(self) -> State:
        """Return a copy of the flow's parameters and the embedding's."""
        state = {"flow": parameters_of(self.averaged_flow, self.architecture)}
        return state if self.averaged_embedding is None else state | embedding_state(self.averaged_embedding)

    @staticmethod
    def _context(y: torch.Tensor, embedding: nn.Module | None) -> torch.Tensor:
        return y if embedding is None else embedding(y)


def embedding_state(embedding: nn.Module) -> State:
    """Return a copy of a module's parameters and buffers."""
    return {f"embedding.{key}": value.cpu().numpy().copy() for key, value in embedding.state_dict().items()}


def with_state(embedding: nn.Module, state: State) -> nn.Module:
    """Return a copy of the module with this state, on the CPU and in evaluation mode."""
    module = copy.deepcopy(embedding).cpu().eval()
    prefix = "embedding."
    module.load_state_dict(
        {key.removeprefix(prefix): torch.from_numpy(v) for key, v in state.items() if key.startswith(prefix)}
    )
    return module


@torch.no_grad()
def embed(embedding: nn.Module, y: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the embedding of rows y, (N, c)."""
    return torch.cat([embedding(chunk) for chunk in torch.from_numpy(y).split(CHUNK)]).numpy()
