"""The whole way from simulations to one posterior: train, normalize, stack, refit, compare.

Some rows (a tenth, at least 200 and at most 2,000) stop the training and fit the weights; no member is trained on
them. Once the weights are known the members that carry weight are trained again on all rows, with the epochs and
learning rates of the first training: weights and certificate are those of the members before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_integer, labels_of_columns, rows_of_data, shared_rows
from drystone._defaults import EPOCHS, LOG_Y, MEMBERS_OF_A_KIND, SEED
from drystone._files import remove, working_in
from drystone._parallel import Executor, cores
from drystone._resume import Record, continue_or_start
from drystone.comparison import compare
from drystone.errors import StackingError
from drystone.inference.disk import (
    FIT,
    LIKELIHOODS_IN,
    MEMBERS_IN,
    NORMALIZER,
    RECORD,
    REFITTED_IN,
    STACKING,
    TEST,
    install,
    made_of,
    refuse_links,
    without_test,
    working_directory,
)
from drystone.inference.form_choice import better_form
from drystone.inference.inputs import Kind, check_prior, inputs_of, most_members
from drystone.inference.members import Networks, no_worse, used_members
from drystone.inference.result import Inference, reference_rows
from drystone.runs.normalizer import RunNormalizer
from drystone.simulation.prior import as_prior
from drystone.table import Table
from drystone.table.inputs import parameter_names
from drystone.tabulation import tabulate
from drystone.training import Ensemble, train
from drystone.training.augmentation import Augment
from drystone.training.inputs import further_simulations, simulations
from drystone.training.warp import LogY

if TYPE_CHECKING:
    from torch import nn

__all__ = ["POINTS", "infer", "split_rows"]

# Share of the rows that stop the training and fit the weights, at least and at most so many of them.
SHARE, LEAST, MOST = 0.1, 200, 2000
# A likelihood describes every column of y, also those that say nothing of θ: with more it is left to posteriors.
WIDE = 100
# Shared points per row, at which products are normalized.
POINTS = 1000
# Shares of a time budget for training: refitting takes about as long again, and the rest is for the table.
BUDGET = {"posterior": 0.15, "likelihood": 0.3}

Target = Literal["both", "posterior", "likelihood"]


def infer(
    theta: ArrayLike,
    y: ArrayLike,
    *,
    prior: object,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    minutes: float | None = None,
    members: int | tuple[int, int] = MEMBERS_OF_A_KIND,
    target: Target = "both",
    seed: int = SEED,
    directory: str | os.PathLike[str] | None = None,
    parameters: Sequence[str] | None = None,
    log_y: LogY = LOG_Y,
    embedding: Callable[[], nn.Module] | None = None,
    augment: Augment | None = None,
    epochs: int = EPOCHS,
    workers: int | None = None,
    client: Executor | None = None,
    progress: bool | None = None,
) -> Inference:
    """Return one posterior out of simulations: many members trained, stacked, refitted and compared.

    Posteriors and likelihoods are trained on most of the rows; the others stop the training and fit the weights of
    a mixture or a product, whichever cross-validation on them prefers. Members of a kind that does not suit the
    problem get no weight. The members with weight are then trained again on all rows.

    Args:
        theta: Parameters, (N, d), drawn from the prior; at least 400 rows.
        y: Their data, (N, c); any shape (N, …) with an embedding.
        prior: p(θ): a (lower, upper) pair for a uniform one, or anything with ``log_prob`` and ``sample`` (ours,
            torch's, sbi's, SciPy's). Several threads call it, except with ``workers=1``.
        test: Further simulations (theta, y) that nothing is fitted to and no member is trained on, to compare on.
            Without them ``comparison`` is cross-fitted: each row by weights that were fitted to other rows.
        minutes: Time to aim at, for training, refitting and the rest together: as many members are trained as fit.
            Which ones finish then depends on the machine.
        members: Number of members of each kind, at most; or two numbers, of posteriors and of likelihoods.
        target: Train posteriors, likelihoods, or both. With ``"both"``, likelihoods are left out, with a note,
            where they cannot be trained: with an embedding, with more than 100 columns of y, or where a column of
            y has no density.
        seed: Seed of everything random: without ``minutes`` the same seed gives the same bits.
        directory: Where all results are written as they are finished. The same call continues; one with other
            data or settings raises :class:`~drystone.StaleError`.
        parameters: Names of θ; None for those of its columns, as in :class:`~drystone.Table`.
        log_y: As in :func:`drystone.train`.
        embedding: As in :func:`drystone.train`; posteriors only.
        augment: As in :func:`drystone.train`.
        epochs: As in :func:`drystone.train`.
        workers: As in :func:`drystone.train`.
        client: As in :func:`drystone.train`.
        progress: As in :func:`drystone.train`.

    Example:
        >>> import drystone as ds
        >>> theta, y = ds.toy.simulate(400, seed=1)
        >>> prior = ds.tasks.Normal([0.0], [10**0.5])
        >>> result = ds.infer(theta, y, prior=prior, members=1, target="posterior", epochs=1, workers=1)
        >>> result.posterior.sample((1000,), y[0], seed=1).shape
        (1000, 1)
    """
    if target not in ("both", "posterior", "likelihood"):
        raise ValueError(f"`target` must be 'both', 'posterior' or 'likelihood'; got {target!r}.")
    if minutes is not None and not minutes > 0:
        raise ValueError(f"`minutes` must be positive, or None; got {minutes}.")
    seed, most = as_integer("seed", seed, 0), most_members(members)
    # What is wrong with the data is said now rather than after the training.
    rows = _Simulations.checked(theta, y, prior, parameters, test, seed, structured=embedding is not None)
    with working_in(directory, own=True):
        call = _Call(
            rows=rows,
            prior=prior,
            target=target,
            most=most,
            minutes=minutes,
            seed=seed,
            home=None if directory is None else Path(directory),
            log_y=log_y,
            embedding=embedding,
            augment=augment,
            epochs=epochs,
            workers=workers,
            client=client,
            progress=progress,
        )
        call.begin_or_continue()
        networks, notes = call.train_networks()
        normalizer = _normalizer(networks.posteriors, *rows.stopping, prior, seed)
        held_out = networks.members(normalizer, prior)
        place = call.place_of(held_out, normalizer)

        table = call.tabulate(STACKING, held_out, rows.stopping, POINTS, place)
        fit, crossed, why = better_form(table, prior, seed)
        refitted = call.refit(networks, used_members(fit, normalizer, table))
        after = {**held_out, **refitted.members(normalizer, prior)}
        notes += [why, rows.note_on_weights]

        # Points take half of the time of a table, and not every form needs them.
        points = POINTS if fit.form.requires("log_q") == "points" else 0
        if rows.test is None:
            if place is not None:
                without_test(place)
            tested, comparison = None, compare(table, table, {"stacked": crossed})
            notes.append(rows.note_without_test)
        else:
            tested = call.tabulate(TEST, after, rows.test, points, place)
            comparison = compare(table, tested, {"stacked": fit})

        if call.home is not None and place is not None:
            normalizer.save(place / NORMALIZER)
            fit.save(place / FIT)
            install(call.home, place)
            if place != call.home:  # a table above some size stays on disk, and has been moved
                table = call.tabulate(STACKING, held_out, rows.stopping, POINTS, call.home)
                if rows.test is not None:
                    tested = call.tabulate(TEST, after, rows.test, points, call.home)
        return Inference(
            posterior=fit.posterior(after, reference=reference_rows(tested)),
            fit=fit,
            members=after,
            simulations=(rows.theta, rows.y),
            prior=prior,
            comparison=comparison,
            table=table,
            test=tested,
            frame=networks.frame,
            notes=tuple(notes),
            crossed=crossed,
            held_out=held_out,
        )


class _Simulations(NamedTuple):
    """The simulations of a call, and what each row is for.

    Attributes:
        theta: (N, d).
        y: (N, ...).
        parameters: names of θ.
        first: rows that are trained on before the weights are known.
        last: rows that stop the training and fit the weights.
        test: further simulations (theta, y), or None.
    """

    theta: np.ndarray
    y: np.ndarray
    parameters: tuple[str, ...]
    first: np.ndarray
    last: np.ndarray
    test: tuple[np.ndarray, np.ndarray] | None

    @classmethod
    def checked(
        cls,
        theta: ArrayLike,
        y: ArrayLike,
        prior: object,
        parameters: Sequence[str] | None,
        test: tuple[ArrayLike, ArrayLike] | None,
        seed: int,
        *,
        structured: bool,
    ) -> _Simulations:
        """Return the arrays, or raise what is wrong with them."""
        labelled = theta
        theta, y = simulations(theta, rows_of_data("y", y), structured=structured)
        check_prior(prior, theta)
        parameters = parameter_names(parameters, labelled, theta.shape[1])
        if test is not None:
            test = _checked_test(test, theta, y, parameters)
        return cls(theta, y, parameters, *split_rows(len(theta), seed), test)

    @property
    def training(self) -> tuple[np.ndarray, np.ndarray]:
        """(theta, y) of the rows that are trained on first."""
        return self.theta[self.first], self.y[self.first]

    @property
    def stopping(self) -> tuple[np.ndarray, np.ndarray]:
        """(theta, y) of the rows that stop the training and fit the weights."""
        return self.theta[self.last], self.y[self.last]

    @property
    def note_on_weights(self) -> str:
        """Which members the weights are of."""
        return (
            f"Weights and certificate are those of members that {len(self.last):,} of the {len(self.theta):,} "
            "simulations were held out of; the posterior has the members with weight trained again on all of them."
        )

    @property
    def note_without_test(self) -> str:
        """Which rows the numbers are of."""
        return (
            f"There was no test set: all numbers are of the {len(self.last):,} rows that stopped the training, "
            "each by weights fitted to the other folds, and of the members before they were trained again. "
            "What is guaranteed at an observation holds for untouched rows; with these it is approximate."
        )


@dataclass(frozen=True, kw_only=True)
class _Call:
    """The stages of a call, and the settings that they share."""

    rows: _Simulations
    prior: object
    target: Target
    most: Mapping[Kind, int]
    minutes: float | None
    seed: int
    home: Path | None
    log_y: LogY
    embedding: Callable[[], nn.Module] | None
    augment: Augment | None
    epochs: int
    workers: int | None
    client: Executor | None
    progress: bool | None

    def begin_or_continue(self) -> None:
        """Record in the directory what the inference is made of; raise if it was begun with something else."""
        if self.home is None:
            return
        refuse_links(self.home, (MEMBERS_IN, LIKELIHOODS_IN, REFITTED_IN))
        settings = {"seed": self.seed, "log_y": self.log_y, "epochs": self.epochs, "target": self.target}
        record = Record(settings, inputs_of(self.rows.theta, self.rows.y, self.prior))
        continue_or_start(self.home / RECORD, record, f"the inference in {self.home}", "Use another directory.")

    def train_networks(self) -> tuple[Networks, list[str]]:
        """Train both kinds, or the one that is asked for or possible; a note says what was left out."""
        posteriors = self._train("posterior", MEMBERS_IN) if self.target != "likelihood" else None
        likelihoods, notes = None, []
        unsuitable = _unsuitable(self.rows.y, self.embedding is not None) if self.target == "both" else ""
        if unsuitable:
            notes.append(f"No likelihoods were trained: {unsuitable}")
        elif self.target != "posterior":
            try:
                likelihoods = self._train("likelihood", LIKELIHOODS_IN)
            except StackingError:  # files that are damaged, or of other settings
                raise
            except ValueError as error:
                if self.target == "likelihood":
                    raise
                notes.append(f"No likelihoods were trained: {error}")
        # An ensemble all of whose members diverged is empty.
        networks = Networks(posteriors or None, likelihoods or None)
        if networks == (None, None):
            raise RuntimeError("every member diverged in training: look for outliers in `theta` and `y`.")
        return networks, notes

    def _train(self, kind: Kind, name: str) -> Ensemble[Any]:
        share = BUDGET[kind] if self.target == "both" else sum(BUDGET.values())
        return train(
            *self.rows.training,
            target=kind,
            members=self.most[kind],
            minutes=None if self.minutes is None else self.minutes * share,
            seed=self.seed,
            prior=self.prior,
            validation=self.rows.stopping,
            log_y=self.log_y,
            embedding=self.embedding,
            augment=self.augment,
            engine="compiled" if self.embedding is None else "torch",
            epochs=self.epochs,
            workers=self.workers,
            client=self.client,
            directory=self._within(name),
            progress=self.progress,
        )

    def place_of(self, members: Mapping[str, Any], normalizer: RunNormalizer) -> Path | None:
        """Return the directory for the tables and the fit of these members; None without one."""
        return None if self.home is None else working_directory(self.home, made_of(members, normalizer))

    def tabulate(
        self,
        name: str,
        members: Mapping[str, Any],
        simulations: tuple[np.ndarray, np.ndarray],
        points: int,
        place: Path | None,
    ) -> Table:
        """Return the table of members on some simulations, in the directory ``place`` if there is one."""
        directory = None if place is None else place / name
        table = tabulate(
            members,
            *simulations,
            directory=directory,
            points=points,
            prior=self.prior,
            parameters=self.rows.parameters,
            seed=self.seed,
            client=self.client,
            # An embedding is the user's code, which may not be made for threads; on a cluster each worker has one.
            threads=(self.workers or cores()) if self.embedding is None and self.client is None else 1,
        )
        if directory is not None:
            remove(directory / "table.parts")  # a process that was killed may have left them
        return table

    def refit(self, networks: Networks, used: set[str]) -> Networks:
        """Train the members in use again, on all rows."""
        posteriors = self._refit(networks.posteriors, used, self.embedding)
        return Networks(posteriors, self._refit(networks.likelihoods, used, None))

    def _refit(
        self, ensemble: Ensemble[Any] | None, used: set[str], embedding: Callable[[], nn.Module] | None
    ) -> Ensemble[Any] | None:
        names = [] if ensemble is None else [name for name in ensemble.names if name in used]
        if ensemble is None or not names:
            return None
        refitted = ensemble.refit(
            self.rows.theta,
            self.rows.y,
            names,
            self._within(REFITTED_IN),
            embedding=embedding,
            augment=self.augment,
            workers=self.workers,
            client=self.client,
            progress=self.progress,
        )
        return no_worse(ensemble, refitted, *self.rows.stopping)

    def _within(self, name: str) -> Path | None:
        return None if self.home is None else self.home / name


def _checked_test(
    test: tuple[ArrayLike, ArrayLike], theta: np.ndarray, y: np.ndarray, parameters: tuple[str, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return further simulations, or raise if they are no pair like (theta, y), or among these."""
    if not isinstance(test, tuple | list) or len(test) != 2:
        raise TypeError(f"`test` must be simulations (theta, y), or None; got {type(test).__name__}.")
    if (names := labels_of_columns(test[0])) not in (None, parameters):
        raise ValueError(f"`theta` of `test` must have the columns {parameters}, in this order; got {names}.")
    checked = further_simulations("test", *test, theta, y)
    if shared := shared_rows(theta, checked[0]):
        raise ValueError(
            f"{shared} of {len(checked[0])} rows of `test` are among the simulations that members are trained "
            "on, so that the comparison would flatter. Give further simulations, or none."
        )
    return checked


def split_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that are trained on, and those that stop the training and fit the weights."""
    held_out = int(np.clip(round(SHARE * n), LEAST, MOST))
    if n < 2 * held_out:
        raise ValueError(
            f"`theta` has {n} rows; at least {2 * LEAST} are needed: {LEAST} stop the training and fit the "
            "weights, and as many must be left to train on. Simulate more, or train single members with ds.train."
        )
    order = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(5,))).permutation(n)
    return np.sort(order[held_out:]), np.sort(order[:held_out])


def _unsuitable(y: np.ndarray, embedding: bool) -> str:
    """Return why likelihoods of y should not be trained; nothing if they should."""
    if embedding:
        return "an embedding reduces y, which a likelihood is a density of."
    if y.ndim != 2:
        return f"a likelihood needs y of shape (N, c); got {y.shape}."
    if y.shape[1] > WIDE:
        return f"a likelihood describes every column of y, of which there are {y.shape[1]}."
    return ""


def _normalizer(
    posteriors: Ensemble[Any] | None, theta: np.ndarray, y: np.ndarray, prior: object, seed: int
) -> RunNormalizer:
    """Return how likelihoods are normalized: at points that stacked posteriors propose, if these are any good."""
    if posteriors is None:
        return RunNormalizer({}, seed=seed)
    normalizer = RunNormalizer.fit(posteriors, theta, y, seed)
    proposing = np.stack([posteriors[name].log_prob(theta, y) for name in normalizer.proposal])
    shares = np.array(list(normalizer.proposal.values()))
    log_q = np.log(shares @ np.exp(proposing - proposing.max(0))) + proposing.max(0)
    # Posteriors that are worse than the prior would lead the points astray.
    return normalizer if log_q.mean() > as_prior(prior).log_prob(theta).mean() else RunNormalizer({}, seed=seed)
