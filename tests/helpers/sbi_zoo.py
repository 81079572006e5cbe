"""Small real sbi posteriors of one bounded problem, trained when they are first asked for.

θ is uniform on [−1, 1]², x is θ with noise of standard deviation 0.3; barely trained estimators leak.
"""

import tempfile
import warnings
from functools import cache
from typing import Any

import torch
from sbi.inference import FMPE, NLE, NPE, NRE
from sbi.inference.potentials.base_potential import BasePotential
from sbi.utils import BoxUniform
from torch.distributions import Normal

SD = 0.3


@cache
def prior():
    return BoxUniform(torch.tensor([-1.0, -1.0]), torch.tensor([1.0, 1.0]))


def simulate(n, seed):
    generator = torch.Generator().manual_seed(seed)
    theta = 2 * torch.rand(n, 2, generator=generator) - 1
    return theta, theta + SD * torch.randn(n, 2, generator=generator)


class Quiet:
    """A tracker that writes nothing: by default sbi logs to the working directory."""

    log_dir = tempfile.gettempdir()

    def log_metric(self, *_, **__):
        pass

    log_metrics = log_params = add_figure = flush = log_metric


def fit(trainer, n=400, epochs=12, **training):
    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Maximum number of epochs")
        torch.manual_seed(0)
        inference = trainer(prior=prior(), show_progress_bars=False, tracker=Quiet())
        inference.append_simulations(*simulate(n, seed=1)).train(max_num_epochs=epochs, **training)
    return inference


@cache
def npe(kind) -> Any:
    return fit(lambda **options: NPE(density_estimator=kind, **options)).build_posterior()


@cache
def fmpe() -> Any:
    return fit(FMPE, epochs=30).build_posterior()


@cache
def nle() -> Any:
    return fit(NLE, epochs=30)


@cache
def nre() -> Any:
    return fit(NRE, epochs=30)


class Exact(BasePotential):
    """log p(x | θ) p(θ), what NLE and NRE estimate; without the prior if unbounded."""

    bounded = True

    def __call__(self, theta, track_gradients=True):
        with torch.set_grad_enabled(track_gradients):
            log_likelihood = Normal(theta, SD).log_prob(self.x_o).sum(-1)
            if not self.bounded:
                return log_likelihood
            return torch.where(prior().support.check(theta), log_likelihood + prior().log_prob(theta), -torch.inf)
