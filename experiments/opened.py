"""One call of :func:`drystone.infer`, opened: its members stacked in several ways, before and after refitting."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from drystone._defaults import EPOCHS
from drystone.forms import Product
from drystone.inference import Inference, infer
from drystone.posterior import StackedPosterior
from drystone.stacking import Stacking, stack
from drystone.tabulation.tabulate import tabulate
from experiments.ensembles import Plan
from experiments.stored import by_blocks

__all__ = ["METHODS", "POINTS", "call", "epochs", "held_out_posteriors", "log_densities", "stackings"]

# Points per row at which products are normalized.
POINTS = 1_000
METHODS = ("best posterior", "posteriors", "likelihoods", "both", "product", "refitted")


def call(
    theta: np.ndarray,
    y: np.ndarray,
    prior: object,
    *,
    seed: int,
    folder: Path,
    plan: Plan,
    members: tuple[int, int] = (8, 8),
    test: tuple[np.ndarray, np.ndarray] | None = None,
) -> Inference:
    """Return everything that one call gives, with so many posteriors and likelihoods; two each if quick."""
    return infer(
        theta, y, prior=prior, test=test, seed=seed, directory=folder / "inference",
        members=2 if plan.quick else members, epochs=epochs(plan), workers=1,
    )  # fmt: skip


def epochs(plan: Plan) -> int:
    """Return the most epochs of training."""
    return 5 if plan.quick else EPOCHS


def stackings(inference: Inference) -> dict[str, Stacking]:
    """Return the stackings of the members before they were trained again, by method."""
    table, frame = inference.table, inference.frame
    posteriors, likelihoods = (
        table.select(members=[name for name in table.names if frame.loc[name, "kind"] == kind])
        for kind in ("posterior", "likelihood")
    )
    best = int(posteriors.log_q.mean(1).argmax())
    return {
        "best posterior": Stacking.single(posteriors.names, best, parameters=table.parameters),
        "posteriors": stack(posteriors),
        "likelihoods": stack(likelihoods),
        "both": stack(table),
        "product": stack(table, Product(prior=inference.prior)),
    }


def held_out_posteriors(inference: Inference) -> StackedPosterior:
    """Return the posteriors alone, stacked, as they were before they were trained again."""
    return stackings(inference)["posteriors"].posterior(inference.held_out)


def log_densities(
    inference: Inference, theta: np.ndarray, y: np.ndarray, *, seed: int, folder: Path
) -> dict[str, np.ndarray]:
    """Return the log density of each method at further rows, (N,)."""
    table = tabulate(
        inference.held_out, theta, y, draws=0, points=POINTS, prior=inference.prior, seed=seed, workers=1,
        directory=folder / "held_out",
    )  # fmt: skip
    fits = stackings(inference)
    log_q = {method: fit.apply(table.select(members=list(fit.names))).log_q for method, fit in fits.items()}

    def refitted(*block: Any) -> np.ndarray:
        return inference.posterior.log_prob_batched(*block)[0]

    return log_q | {"refitted": by_blocks(folder / "refitted", refitted, theta, y)}
