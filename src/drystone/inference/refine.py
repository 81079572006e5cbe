r"""Targeted refinement: further simulations where the posterior at one observation is, to train members on.

New pairs come from a proposal with a share of the prior, which bounds all importance weights:

.. math::
    \theta \sim r(\theta) = (1 - \delta)\, q(\theta \mid y_o) + \delta\, p(\theta), \qquad
    y \sim p(y \mid \theta)

- Likelihoods :math:`q(y \mid \theta)` are trained again on old and new pairs: they need no correction.
- Posteriors are trained again on old and new pairs, drawn in each epoch by the weights

  .. math:: a(\theta)\, g(y), \qquad a = \frac{p(\theta)}{r_N(\theta)}, \quad
      g(y) = E_{q(\theta \mid y)} \frac{r_N(\theta)}{p(\theta)}, \quad r_N = \frac{N p + n r}{N + n}

  a corrects for the proposal; g is a function of y alone, which changes which data count and not what is right at
  them. Without it the new pairs would next to not count.
- The stacking weights are fitted again, with the same weights a g for the proposal r, on new pairs that no member
  was trained on, and are taken if cross-validation on these prefers them.

Further pairs, which nothing was trained on or chosen by, tell the local log score and posterior SBC, before and
after (:mod:`drystone.diagnostics.local_calibration`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_integer, rows_not_in_range, rows_of_data, seed_of
from drystone._defaults import FEWEST_NEW_SIMULATIONS, NEW_SIMULATIONS, SEED
from drystone._files import working_in
from drystone._messages import counted, first_few
from drystone._parallel import Executor
from drystone._resume import Record, continue_or_start, digest_array
from drystone.adapters.member import CheckedMember
from drystone.diagnostics import PosteriorAt
from drystone.diagnostics.local_calibration import Change, LocalCalibration, local_calibration
from drystone.estimate import Estimate, effective_rows, mean_over_rows, split_folds
from drystone.forms.points import PointForm
from drystone.inference.disk import refuse_links
from drystone.inference.form_choice import FOLDS
from drystone.inference.infer import POINTS
from drystone.inference.inputs import check_prior
from drystone.inference.local_proposal import LocalProposal, capped_weights, training_weights
from drystone.inference.members import better_of
from drystone.inference.result import Inference
from drystone.likelihood import normalize
from drystone.likelihood.normalize import NormalizedMember
from drystone.posterior import DRAWS, StackedPosterior
from drystone.simulation import simulate
from drystone.simulation.block import Simulator, SimulatorWithPrior
from drystone.simulation.prior import Prior, as_prior
from drystone.stacking import Stacking, stack
from drystone.table import Table
from drystone.tabulation import tabulate
from drystone.training import Ensemble
from drystone.training.augmentation import Augment
from drystone.training.inputs import simulations as checked_simulations
from drystone.training.likelihood import TrainedLikelihood
from drystone.training.member import TrainedMember

if TYPE_CHECKING:
    from torch import nn

__all__ = ["Refinement", "refine"]

# Share of the new simulations that no member is trained on, and the most: half of them choose members and weights,
# the others tell what was gained. Likelihoods are normalized at each of them, which takes tenths of a second.
HELD_OUT, MOST_HELD_OUT = 0.2, 200
# Draws per row behind ranks.
DRAWS_OF_RANKS = 50
# Weights are fitted to the held-out rows only if these carry as much as so many equal ones per member.
ROWS_PER_MEMBER = 10
# Said of a credible set without test rows.
SEEN = (
    "The set rests on simulations that the refined members were trained on, so its probability is not guaranteed: "
    "give ds.infer test=(theta, y)."
)


def refine(
    inference: Inference | StackedPosterior,
    *,
    at: ArrayLike,
    simulator: SimulatorWithPrior | Simulator,
    n: int = NEW_SIMULATIONS,
    simulations: tuple[ArrayLike, ArrayLike] | None = None,
    prior: object = None,
    seed: int = SEED,
    directory: str | os.PathLike[str] | None = None,
    embedding: Callable[[], nn.Module] | None = None,
    augment: Augment | None = None,
    workers: int | None = None,
    client: Executor | None = None,
    progress: bool | None = None,
) -> Refinement:
    """Return a posterior that is better at one observation: simulate where it is, train and stack again.

    Likelihoods and posteriors with weight that Drystone trained are trained again, with the epochs and learning
    rates of their first training; other members stay as they are, which a note says. A member that is worse after
    the second training, on new simulations that were held out, stays as it was. The result is for this
    observation; at data far from it the first posterior is the one to ask.

    Args:
        inference: From :func:`drystone.infer`; or a stacked posterior with a density, with ``simulations`` and
            ``prior``.
        at: The observation y_o.
        simulator: A task, or a function ``(theta (N, d), rng) -> y``.
        n: New simulations, at least 100. A fifth of them, at most 200, is held out of the training: half of these
            choose members and weights, the other half tells the gain.
        simulations: (theta, y) from the prior that the members were trained on, without those of an earlier
            refinement; None for those of the inference.
        prior: p(θ); None for that of the inference, of the members, or of the task.
        seed: Seed of everything random: the same seed gives the same bits.
        directory: Where simulations, members and the fit are written as they are finished. The same call
            continues; one with other arguments raises :class:`~drystone.StaleError`.
        embedding: As in :func:`drystone.infer`, for members that were trained with one.
        augment: As in :func:`drystone.infer`, for members that were trained with it.
        workers: Processes to simulate in (None for one), and members trained at once (None for one per core).
        client: As in :func:`drystone.train`.
        progress: As in :func:`drystone.train`.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(400, seed=1)
        >>> prior = ds.tasks.Normal([0.0], [10**0.5])
        >>> first = ds.infer(theta, y, prior=prior, members=1, target="posterior", epochs=1, workers=1)
        >>> def simulator(theta, rng): return rng.normal(0.9 * theta, 0.9**0.5)
        >>> refined = ds.refine(first, at=[1.5], simulator=simulator, n=200, workers=1)
        >>> refined.posterior.sample((1000,), seed=1).shape  # at y_o, the default observation now
        (1000, 1)
    """
    if not isinstance(inference, Inference | StackedPosterior):
        raise TypeError(
            f"`inference` must be an inference or a stacked posterior; got {type(inference).__name__}. To refine "
            "once more, give `refined.posterior`, with the `simulations` and the `prior` that the first one had."
        )
    before, old, p = _beginning(inference, simulator, simulations, prior)
    before.fit.form.check_gives("log_q")
    before.fit.form.check_gives("draws")
    y_o = before.one_observation(at)
    if rows_not_in_range(y_o).size:
        raise ValueError("`at` must be finite: a posterior at NaN or infinite data is nothing to simulate from.")
    n, seed = as_integer("n", n), as_integer("seed", seed, 0)
    if n < FEWEST_NEW_SIMULATIONS:
        raise ValueError(f"`n` must be at least {FEWEST_NEW_SIMULATIONS}, a fifth of which is held out; got {n}.")
    proposal = LocalProposal(before, y_o, p)
    with working_in(directory, own=True):
        home = None if directory is None else Path(directory)
        if home is not None:
            refuse_links(home, ("refitted", "simulations.zarr", "simulations.blocks"))
            theta_old, y_old = old
            inputs = {
                "theta": digest_array(theta_old),
                "y": digest_array(y_old),
                "at": digest_array(np.asarray(y_o, float)),
                "weights": digest_array(before.fit.weights),
                "prior": digest_array(p.log_prob(theta_old)),
            }
            record = Record({"n": n, "seed": seed, "members": list(before.fit.names)}, inputs)
            what, remedy = f"the refinement in {home}", "Use another directory."
            continue_or_start(home / "refinement.json", record, what, remedy)
        made = simulate(
            simulator,
            proposal,
            n=n,
            seed=_child(seed, 0),
            workers=workers or 1,
            directory=home,
            client=client,
        )
        if made.y[0].size != y_o.size:
            sizes = f"{counted(y_o.size, 'number')} per row of theta; got {made.y[0].size}"
            raise ValueError(f"`simulator` must return data like the observation, {sizes}.")
        new = made.theta, made.y.reshape(len(made.y), *y_o.shape[1:])
        held_out = min(round(HELD_OUT * len(new[0])), MOST_HELD_OUT)
        ends = [len(new[0]) - held_out, len(new[0]) - held_out // 2]
        training, choosing, telling = (
            (new[0][rows], new[1][rows]) for rows in (slice(ends[0]), slice(*ends), slice(ends[1], None))
        )

        def calibration_of(posterior: StackedPosterior, rows: tuple[np.ndarray, np.ndarray]) -> LocalCalibration:
            return local_calibration(
                posterior, *rows, proposal.log_ratio, draws=DRAWS_OF_RANKS, seed=_child(seed, 1)
            )

        log_normalizer = calibration_of(before, choosing).log_normalizer
        a = capped_weights(log_normalizer - proposal.log_ratio(choosing[0]))
        members, notes = _trained_again(
            before, old, training, choosing, proposal, seed=seed, embedding=embedding, augment=augment,
            directory=None if home is None else home / "refitted", workers=workers, client=client,
            progress=progress,
        )  # fmt: skip
        points = POINTS if isinstance(before.fit.form, PointForm) else 0
        table = tabulate(
            members, *choosing, draws=0, seed=seed, parameters=before.fit.parameters, row_weights=a, points=points,
            prior=p if points else None, client=client,
        )  # fmt: skip
        fit, on_weights = _weights(before.fit, table, seed)
        posterior = fit.posterior(members, before.reference)
        posterior.set_default_x(y_o)
        calibration_before, calibration = (calibration_of(each, telling) for each in (before, posterior))
        difference = calibration.log_score - calibration_before.log_score
        if home is not None:
            fit.save(home / "fit.json")
        return Refinement(
            posterior=posterior,
            fit=fit,
            members=members,
            before=before,
            y=y_o[0],
            simulations=new,
            held_out=len(telling[0]),
            gain=mean_over_rows(difference, np.full(len(difference), 1 / len(difference))),
            calibration_before=calibration_before,
            calibration=calibration,
            notes=(*notes, on_weights),
            inference=inference if isinstance(inference, Inference) else None,
        )


@dataclass(frozen=True, eq=False)
class Refinement:
    """A posterior refined at one observation, and what that gained.

    Attributes:
        posterior: the refined stacked posterior, with the observation as its default.
        fit: its stacking.
        members: its members by name, likelihoods normalized.
        before: the stacked posterior that it began with.
        y: the observation.
        simulations: the new pairs (theta, y), from the proposal, not from the prior.
        held_out: how many of them, the last ones, had no part in the training or in the choice of members and
            weights.
        gain: log score near the observation, after less before, in nats per held-out pair, with standard error.
        calibration_before: posterior SBC of ``before`` on the held-out pairs.
        calibration: posterior SBC of ``posterior`` on the same.
        notes: what was trained again, and how the weights were found.
        inference: that it began with; None if it was a stacked posterior.

    Example:
        >>> import drystone as ds
        >>> (theta, y), prior = ds.toy.simulate(400, seed=1), ds.tasks.Normal([0.0], [10**0.5])
        >>> first = ds.infer(theta, y, prior=prior, members=1, target="posterior", epochs=1, workers=1)
        >>> def simulator(theta, rng): return rng.normal(0.9 * theta, 0.9**0.5)
        >>> print(ds.refine(first, at=[1.5], simulator=simulator, n=200, workers=1))
        Refined with 200 simulations near the observation: log score there ... nats on 20 held out.
        ...
    """

    posterior: StackedPosterior
    fit: Stacking
    members: Mapping[str, Any] = field(repr=False)
    before: StackedPosterior = field(repr=False)
    y: np.ndarray
    simulations: tuple[np.ndarray, np.ndarray] = field(repr=False)
    held_out: int
    gain: Estimate
    calibration_before: LocalCalibration
    calibration: LocalCalibration
    notes: tuple[str, ...]
    inference: Inference | None = field(default=None, repr=False)

    def at(self, *, alpha: float = 0.1, simulator: Any = None, draws: int = DRAWS, seed: int = 0) -> PosteriorAt:
        """Return the refined posterior at the observation, with the checks and what the refinement changed.

        Args:
            alpha: miscoverage of the credible set.
            simulator: to simulate data from the posterior, as in :meth:`drystone.StackedPosterior.at`.
            draws: of the posterior.
            seed: same seed, same result.
        """
        posterior, seen = self.posterior, False
        if self.inference is not None and posterior.reference is None:
            posterior = replace(posterior, reference=_of_members(self.inference.measured, posterior.fit))
            seen = self.inference.test is None
        here = posterior.at(self.y, alpha=alpha, simulator=simulator, draws=draws, seed=seed)
        if seen and here.credible_set is not None:
            here = replace(here, missing=(*here.missing, SEEN))
        before = np.asarray(self.before.sample((draws,), self.y, seed=seed))
        n = len(self.simulations[0])
        return replace(here, change=Change(before, n, self.gain, self.calibration_before, self.calibration))

    def report(self, path: str | os.PathLike[str], *, simulator: Any = None, title: str = "Refinement") -> Path:
        """Write the report of the inference, beginning with the refined posterior at the observation.

        Args:
            path: The HTML file.
            simulator: To simulate data from the refined posterior.
            title: Title of the page.
        """
        if self.inference is None:
            raise ValueError(
                "a report needs the tables of an inference, and this refinement began with a stacked posterior: "
                "ds.report.write(path, validation=..., test=..., fits=..., at=refinement.at())."
            )
        return self.inference.report(path, at=self.at(simulator=simulator), title=title)

    def __str__(self) -> str:
        return "\n".join(
            [
                f"Refined with {len(self.simulations[0]):,} simulations near the observation: log score there "
                f"{self.gain.value:+.3f} ± {self.gain.se:.3f} nats on {self.held_out} held out.",
                f"Posterior SBC before: {self.calibration_before}.",
                f"Posterior SBC after: {self.calibration}.",
                *self.notes,
            ]
        )

    __repr__ = __str__


def _of_members(table: Table, fit: Stacking) -> Table:
    """Return a table of the members of a fit."""
    return table.select(members=list(fit.names))


def _beginning(
    inference: Inference | StackedPosterior,
    simulator: SimulatorWithPrior | Simulator,
    simulations: tuple[ArrayLike, ArrayLike] | None,
    prior: object,
) -> tuple[StackedPosterior, tuple[np.ndarray, np.ndarray], Prior]:
    """Return the posterior to begin with, the simulations behind it, and the prior."""
    posterior = _of_members_with_weight(inference) if isinstance(inference, Inference) else inference
    if isinstance(inference, Inference):
        simulations = inference.simulations if simulations is None else simulations
        prior = inference.prior if prior is None else prior
    if simulations is None:
        raise ValueError(
            "`simulations` must be (theta, y) that the members were trained on; got None. An inference has them: "
            "ds.refine(ds.infer(...), ...)."
        )
    if prior is None:
        owners = [*(member.posterior for member in posterior.members), simulator]
        prior = next((found for owner in owners if (found := getattr(owner, "prior", None)) is not None), None)
    if prior is None:
        raise ValueError("`prior` must be p(θ): neither the members nor the simulator have one; got None.")
    try:
        theta, y = checked_simulations(simulations[0], rows_of_data("y", simulations[1]), structured=True)
    except (TypeError, ValueError) as error:
        raise type(error)(f"`simulations`: {error}") from None
    check_prior(prior, theta)
    return posterior, (np.asarray(theta, float), y), as_prior(prior)


def _of_members_with_weight(inference: Inference) -> StackedPosterior:
    """Return the posterior without the other members, which would be evaluated at every new simulation."""
    carrying = {name: inference.members[name] for name in inference.fit.member_weights}
    return inference.fit.posterior(carrying, inference.posterior.reference)


def _trained_again(
    before: StackedPosterior,
    old: tuple[np.ndarray, np.ndarray],
    training: tuple[np.ndarray, np.ndarray],
    choosing: tuple[np.ndarray, np.ndarray],
    proposal: LocalProposal,
    *,
    seed: int,
    embedding: Callable[[], nn.Module] | None,
    augment: Augment | None,
    directory: Path | None,
    workers: int | None,
    client: Executor | None,
    progress: bool | None,
) -> tuple[dict[str, Any], list[str]]:
    """Return all members by name, those that can be trained again after it, and notes on them."""
    theta, y = (np.concatenate(pair) for pair in zip(old, training, strict=True))
    carrying = {name for name, w in before.member_weights.items() if w > 0}
    chosen = [member for member in before.members if member.name in carrying]
    likelihoods = [m for m in map(_likelihood, chosen) if m is not None and m.recipe is not None]
    posteriors = [m for m in map(_posterior, chosen) if m is not None and m.recipe is not None]
    trained: dict[str, Any] = {}

    def refitted(
        members: list[Any], embedding: Callable[[], nn.Module] | None, row_weights: np.ndarray | None
    ) -> Ensemble[Any]:
        return Ensemble(members).refit(
            theta, y, directory=directory, embedding=embedding, augment=augment, row_weights=row_weights,
            workers=workers, client=client, progress=progress,
        )  # fmt: skip

    if likelihoods:
        again = refitted(likelihoods, None, None)
        trained |= better_of(likelihoods, again, lambda member: float(member.log_likelihood(*choosing).mean()))
    if posteriors:
        row_weights = training_weights(before, posteriors, theta, y, len(old[0]), proposal, _child(seed, 2))
        again = refitted(posteriors, embedding, row_weights)

        def local_score(member: TrainedMember) -> float:
            alone = Stacking.uniform([member.name], parameters=before.fit.parameters).posterior([member])
            found = local_calibration(alone, *choosing, proposal.log_ratio, draws=DRAWS_OF_RANKS, seed=seed)
            return float(found.log_score.mean())

        trained |= better_of(posteriors, again, local_score)
    same = [m.name for m in [*likelihoods, *posteriors] if trained[m.name] is m]
    rows = f"{len(old[0]):,} old and {len(training[0]):,} new simulations"
    notes = []
    if len(same) < len(trained):
        changed = [name for name in trained if name not in same]
        notes.append(f"Trained again on {rows}: {first_few(changed)}.")
    if same:
        notes.append(f"No better on held-out new simulations, so as they were: {first_few(same)}.")
    others = [member.name for member in chosen if member.name not in trained]
    if others:
        notes.append(f"Not trained by Drystone, so as they were: {first_few(others)}.")
    return _members(before, trained), notes


def _likelihood(member: CheckedMember) -> TrainedLikelihood | None:
    """Return the network behind a normalized likelihood, if there is one."""
    if not isinstance(member.posterior, NormalizedMember):
        return None
    likelihood = member.posterior.normalizer.likelihoods[member.posterior.k].member
    return likelihood if isinstance(likelihood, TrainedLikelihood) else None


def _posterior(member: CheckedMember) -> TrainedMember | None:
    """Return the network that is a member, if it is one."""
    return member.posterior if isinstance(member.posterior, TrainedMember) else None


def _members(before: StackedPosterior, trained: Mapping[str, Any]) -> dict[str, Any]:
    """Return all members by name; likelihoods that share points share them again."""
    members = {member.name: trained.get(member.name, member.posterior) for member in before.members}
    normalizers = {
        id(m.posterior.normalizer): m.posterior.normalizer
        for m in before.members
        if isinstance(m.posterior, NormalizedMember)
    }
    for normalizer in normalizers.values():
        sharing = {each.name: trained.get(each.name, each.member) for each in normalizer.likelihoods}
        normalized = normalize(
            {name: likelihood for name, likelihood in sharing.items() if name in members},
            prior=normalizer.prior,
            proposal=normalizer.proposal,
            draws=normalizer.draws,
            defensive=normalizer.defensive,
            error=normalizer.error,
            seed=normalizer.seed,
        )
        members |= normalized
    return members


def _weights(fit: Stacking, table: Table, seed: int) -> tuple[Stacking, str]:
    """Return the fit with weights of these rows, if cross-validation prefers them; and why."""
    effective = effective_rows(table.row_weights)
    if effective < ROWS_PER_MEMBER * table.K or table.N < FOLDS:
        return (
            fit,
            f"Weights as they were: the held-out simulations count as {effective:.0f} for {table.K} members.",
        )
    log_q = np.empty(table.N)
    for fitted, left_out in split_folds(table.N, FOLDS, seed):
        refitted = stack(table.select(rows=fitted), fit.form, fit.score)
        log_q[left_out] = refitted.apply(table.select(rows=left_out)).log_q
    gain = mean_over_rows(log_q - fit.apply(table).log_q, table.row_weights)
    gained = f"they gain {gain.value:+.3f} ± {gain.se:.3f} nats in cross-validation"
    if not gain.value > gain.se:
        return fit, f"Weights as they were: of weights fitted near the observation, {gained}."
    return stack(table, fit.form, fit.score), f"Weights fitted near the observation: {gained}."


def _child(seed: int, stage: int) -> int:
    """Return the seed of a stage."""
    return seed_of(np.random.SeedSequence(seed, spawn_key=(11, stage)))
