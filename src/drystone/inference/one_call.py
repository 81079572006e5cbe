"""The whole way from simulations to one posterior: train, normalize, stack, refit, compare.

Some rows (a tenth, at least 200 and at most 2,000) stop the training and fit the weights; no member is trained on
them. Once the weights are known the members that carry weight are trained again on all rows, with the epochs and
learning rates of the first training: weights and certificate are those of the members before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from drystone._arrays import as_integer, as_numpy, labels_of_columns, rows_of_data, shared_rows
from drystone._defaults import EPOCHS, LOG_Y, SEED
from drystone._files import remove, working_in
from drystone._messages import counted, html_list
from drystone._parallel import Executor, cores
from drystone._resume import Record, continue_or_start, digest_array
from drystone.advice import Advice, advise
from drystone.comparison import Comparison, compare
from drystone.diagnostics import PosteriorAt
from drystone.diagnostics.reference import FEWEST_ROWS
from drystone.errors import StackingError
from drystone.estimate import Estimate, mean_over_rows
from drystone.inference.choice import better_form
from drystone.inference.inputs import Kind, check_prior, most_members, one_row
from drystone.inference.results import (
    FIT,
    NORMALIZER,
    STACKING,
    TEST,
    install,
    made_of,
    refuse_links,
    without_test,
    working_directory,
)
from drystone.posterior import StackedPosterior
from drystone.report import Observation, observe, write
from drystone.runs.normalizer import RunNormalizer
from drystone.simulation.prior import as_prior
from drystone.stacking import Stacking
from drystone.table import Table
from drystone.table.inputs import parameter_names
from drystone.tabulation import tabulate
from drystone.tasks import Task
from drystone.training import Ensemble, train
from drystone.training.augmentation import Augment
from drystone.training.inputs import further_simulations, simulations
from drystone.training.warp import LogY

if TYPE_CHECKING:
    import pandas as pd
    from torch import nn

__all__ = ["Inference", "infer"]

# Members of each kind.
MEMBERS = 8
# Share of the rows that stop the training and fit the weights, at least and at most so many of them.
SHARE, LEAST, MOST = 0.1, 200, 2000
# A likelihood describes every column of y, also those that say nothing of θ: with more it is left to posteriors.
WIDE = 100
# Shared points per row, at which products are normalized.
POINTS = 1000
# Processor time of the advice, in seconds, and test rows that a report shows.
ADVICE_SECONDS, ROWS_SHOWN = 10.0, 2
# Shares of a time budget for training: refitting takes about as long again, and the rest is for the table.
BUDGET = {"posterior": 0.15, "likelihood": 0.3}

# Files and directories of an inference.
RECORD = "inference.json"
MEMBERS_IN, LIKELIHOODS_IN, REFITTED_IN = "members", "likelihoods", "refitted"

Target = Literal["both", "posterior", "likelihood"]


def infer(
    theta: ArrayLike,
    y: ArrayLike,
    *,
    prior: object,
    test: tuple[ArrayLike, ArrayLike] | None = None,
    minutes: float | None = None,
    members: int | tuple[int, int] = MEMBERS,
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
    labelled = theta
    theta, y = simulations(theta, rows_of_data("y", y), structured=embedding is not None)
    # What is wrong with other arguments is said now rather than after the training.
    check_prior(prior, theta)
    parameters = parameter_names(parameters, labelled, theta.shape[1])
    if test is not None:
        if not isinstance(test, tuple | list) or len(test) != 2:
            raise TypeError(f"`test` must be simulations (theta, y), or None; got {type(test).__name__}.")
        if (names := labels_of_columns(test[0])) not in (None, parameters):
            raise ValueError(f"`theta` of `test` must have the columns {parameters}, in this order; got {names}.")
        test = further_simulations("test", *test, theta, y)
        if shared := shared_rows(theta, test[0]):
            raise ValueError(
                f"{shared} of {len(test[0])} rows of `test` are among the simulations that members are trained "
                "on, so that the comparison would flatter. Give further simulations, or none."
            )
    first, rows = split_rows(len(theta), seed)
    with working_in(directory, own=True):
        home = None if directory is None else Path(directory)
        if home is not None:
            refuse_links(home, (MEMBERS_IN, LIKELIHOODS_IN, REFITTED_IN))
            settings = {"seed": seed, "log_y": log_y, "epochs": epochs, "target": target}
            record = Record(settings, inputs_of(theta, y, prior))
            continue_or_start(home / RECORD, record, f"the inference in {home}", "Use another directory.")

        def within(name: str) -> Path | None:
            return None if home is None else home / name

        def trained(kind: Kind, prefix: str) -> Ensemble[Any]:
            return train(
                theta[first],
                y[first],
                target=kind,
                members=most[kind],
                minutes=None if minutes is None else minutes * _share(kind, target),
                seed=seed,
                prior=prior,
                validation=(theta[rows], y[rows]),
                log_y=log_y,
                embedding=embedding,
                augment=augment,
                engine="compiled" if embedding is None else "torch",
                epochs=epochs,
                workers=workers,
                client=client,
                directory=within(prefix),
                progress=progress,
            )

        posteriors = trained("posterior", MEMBERS_IN) if target != "likelihood" else None
        likelihoods, notes = None, []
        unsuitable = _unsuitable(y, embedding is not None) if target == "both" else ""
        if unsuitable:
            notes.append(f"No likelihoods were trained: {unsuitable}")
        elif target != "posterior":
            try:
                likelihoods = trained("likelihood", LIKELIHOODS_IN)
            except StackingError:  # files that are damaged, or of other settings
                raise
            except ValueError as error:
                if target == "likelihood":
                    raise
                notes.append(f"No likelihoods were trained: {error}")
        posteriors, likelihoods = (None if e is None or not len(e) else e for e in (posteriors, likelihoods))
        if posteriors is None and likelihoods is None:
            raise RuntimeError("every member diverged in training: look for outliers in `theta` and `y`.")

        normalizer = _normalizer(posteriors, theta[rows], y[rows], prior, seed)
        held_out = members_by_name(posteriors, likelihoods, normalizer, prior)
        # An embedding is the user's code, which may not be made for threads; on a cluster each worker has one.
        threads = (workers or cores()) if embedding is None and client is None else 1
        options = {"seed": seed, "parameters": parameters, "prior": prior, "client": client, "threads": threads}
        place = None if home is None else working_directory(home, made_of(held_out, normalizer))

        def tabulated(
            name: str, members: Mapping[str, Any], rows: tuple[np.ndarray, np.ndarray], points: int
        ) -> Table:
            directory = None if place is None else place / name
            table = tabulate(members, *rows, directory=directory, points=points, **options)
            if directory is not None:
                remove(directory / "table.parts")  # a process that was killed may have left them
            return table

        stacking = theta[rows], y[rows]
        table = tabulated(STACKING, held_out, stacking, POINTS)
        fit, crossed, choice = better_form(table, prior, seed)
        notes.append(choice)
        # Points take half of the time of a table, and not every form needs them.
        points_of_test = POINTS if fit.form.requires("log_q") == "points" else 0

        used = used_members(fit, normalizer, table)

        def again(
            ensemble: Ensemble[Any] | None, embedding: Callable[[], nn.Module] | None
        ) -> Ensemble[Any] | None:
            names = [] if ensemble is None else [name for name in ensemble.names if name in used]
            if ensemble is None or not names:
                return None
            refitted = ensemble.refit(
                theta,
                y,
                names,
                within(REFITTED_IN),
                embedding=embedding,
                augment=augment,
                workers=workers,
                client=client,
                progress=progress,
            )
            return no_worse(ensemble, refitted, theta[rows], y[rows])

        refitted = members_by_name(again(posteriors, embedding), again(likelihoods, None), normalizer, prior)
        notes.append(
            f"Weights and certificate are those of members that {len(rows):,} of the {len(theta):,} simulations "
            "were held out of; the posterior has the members with weight trained again on all of them."
        )
        after = {**held_out, **refitted}
        if test is None:
            if place is not None:
                without_test(place)
            tested, comparison = None, compare(table, table, {"stacked": crossed})
            notes.append(
                f"There was no test set: all numbers are of the {len(rows):,} rows that stopped the training, "
                "each by weights fitted to the other folds, and of the members before they were trained again. "
                "What is guaranteed at an observation holds for untouched rows; with these it is approximate."
            )
        else:
            tested = tabulated(TEST, after, test, points_of_test)
            comparison = compare(table, tested, {"stacked": fit})
        if home is not None and place is not None:
            normalizer.save(place / NORMALIZER)
            fit.save(place / FIT)
            install(home, place)
            if place != home:  # a table above some size stays on disk, and has been moved
                place = home
                table = tabulated(STACKING, held_out, stacking, POINTS)
                tested = None if test is None else tabulated(TEST, after, test, points_of_test)
        return Inference(
            posterior=fit.posterior(after, reference=_reference(tested)),
            fit=fit,
            members=after,
            simulations=(theta, y),
            prior=prior,
            comparison=comparison,
            table=table,
            test=tested,
            frame=_frame(posteriors, likelihoods),
            notes=tuple(notes),
            crossed=crossed,
            held_out=held_out,
        )


@dataclass(frozen=True, eq=False)
class Inference:
    """One posterior out of simulations, and how good it is.

    Attributes:
        posterior: the stacked posterior of the refitted members: ``posterior.sample((1000,), x=y_o)``.
        fit: the stacking, on the rows that stopped the training.
        members: all members by name; those with weight trained again on all rows, likelihoods normalized.
        simulations: (theta, y) that members were trained and stacked on.
        prior: p(θ).
        comparison: the stack against the best member and uniform weights: on ``test``, with the refitted members;
            without a test, cross-fitted on the rows that the weights were fitted to, with the members before.
        table: the members before refitting, on the rows that stopped the training and fitted the weights.
        test: the members after refitting, on the test rows; None without a test. It has shared points if the stack
            is a product.
        frame: a row per member: kind, hyperparameters and course of the training.
        notes: what the user should know.
        crossed: the fit with weights by cross-fitting, for the rows of ``table``.
        held_out: the members before refitting.

    Example:
        >>> import drystone as ds
        >>> (theta, y), prior = ds.toy.simulate(400, seed=1), ds.tasks.Normal([0.0], [10**0.5])
        >>> test, settings = ds.toy.simulate(100, seed=2), {"members": 1, "target": "posterior", "epochs": 1}
        >>> result = ds.infer(theta, y, prior=prior, test=test, workers=1, **settings)
        >>> list(result.members), result.comparison.rows, result.frame["kind"].tolist()
        (['nsf-000'], 100, ['posterior'])
        >>> print(result.notes[0])
        Stacked as a mixture: ...
    """

    posterior: StackedPosterior
    fit: Stacking
    members: Mapping[str, Any] = field(repr=False)
    simulations: tuple[np.ndarray, np.ndarray] = field(repr=False)
    prior: object = field(repr=False)
    comparison: Comparison
    table: Table = field(repr=False)
    test: Table | None = field(repr=False)
    frame: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...]
    crossed: Stacking = field(repr=False)
    held_out: Mapping[str, Any] = field(repr=False)

    @property
    def measured(self) -> Table:
        """The rows that ``comparison`` is of: the test rows, or those that the weights were fitted to."""
        return self.table if self.test is None else self.test

    @cached_property
    def advice(self) -> Advice:
        """Which members matter, whether more members or simulations would help, and what is at fault."""
        return advise(self.fit, self.table, seconds=ADVICE_SECONDS)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        at: ArrayLike | PosteriorAt | None = None,
        simulator: Any = None,
        exact: ArrayLike | None = None,
        task: Task | None = None,
        title: str = "Inference",
        command: str = "",
    ) -> Path:
        """Write a report: what was stacked, how good it is, and posteriors at two rows and at an observation.

        Args:
            path: The HTML file.
            at: An observation, or what ``posterior.at(y_o)`` gave: the page then begins with whether the posterior
                can be believed there. Its reference are the rows of ``measured``.
            simulator: To simulate data from the posterior at the observation: a task, or a function
                ``(theta, rng) -> y``; None for ``task``.
            exact: Log density of the exact posterior at the rows of ``measured``, (N,), if it is known.
            task: Gives exact draws beside the others, if it has them.
            title: Title of the page.
            command: The command line to print with the versions.
        """
        return write(
            path,
            validation=self.table,
            test=self.measured,
            fits=self.comparison.fits,
            comparison=self.comparison,
            members=self.frame,
            at=None if at is None else self._at(at, task if simulator is None else simulator),
            observations=self._observations(self.measured, task),
            exact=exact,
            advice=self._sentences(),
            title=title,
            command=command,
        )

    def gap(self, exact: ArrayLike) -> Estimate:
        """Return how far the posterior is from an exact one at the test rows, E KL in nats, with standard error.

        Args:
            exact: Log density of the exact posterior at the test rows, (N,).
        """
        if self.test is None:
            raise ValueError("there are no test rows: ds.infer(..., test=(theta, y)).")
        log_q = self.fit.apply(self.test).log_q
        return mean_over_rows(np.asarray(as_numpy(exact), float) - log_q, self.test.row_weights)

    def _sentences(self) -> list[str]:
        """Return the notes, which readers should see, before the advice."""
        try:
            return [*self.notes, *str(self.advice).splitlines()]
        except (StackingError, ValueError):  # a form that cannot be refitted
            return list(self.notes)

    def _at(self, at: ArrayLike | PosteriorAt, simulator: Any) -> PosteriorAt:
        """Return the posterior at the observation, held against the rows that everything is measured on."""
        if isinstance(at, PosteriorAt):
            return at
        # All members: the evidences of likelihoods without weight are compared, too. Without a test those before,
        # so that none was trained on the rows, which fitted the weights.
        members = self.held_out if self.test is None else self.members
        posterior = self.fit.posterior(members, reference=_reference(self.measured))
        return posterior.at(one_row("at", at, np.asarray(self.measured.y)), simulator=simulator)

    def _observations(self, measured: Table, task: Task | None) -> list[Observation]:
        """Return draws at the first rows, of members that these were held out of."""
        members = self.held_out if self.test is None else self.members
        word = "held-out simulation" if self.test is None else "test simulation"
        data = np.asarray(measured.y)
        return [
            observe(
                f"{word} {row}",
                data[row],
                members,
                {"stacked": self.fit},
                best=self.comparison.best,
                truth=measured.theta[row],
                task=task,
            )
            for row in range(min(ROWS_SHOWN, measured.N))
        ]

    def __repr__(self) -> str:
        return f"Inference({self.posterior!r}, {counted(self.table.K, 'member')}, {self.table.N} stacking rows)"

    def _repr_html_(self) -> str:
        return self.fit._repr_html_() + self.comparison._repr_html_() + html_list("Notes", self.notes)


def _share(kind: str, target: Target) -> float:
    """Return the share of a time budget for training one kind of members."""
    return BUDGET[kind] if target == "both" else sum(BUDGET.values())


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
    proposing = np.stack(
        [posteriors[posteriors.names.index(name)].log_prob(theta, y) for name in normalizer.proposal]
    )
    shares = np.array(list(normalizer.proposal.values()))
    log_q = np.log(shares @ np.exp(proposing - proposing.max(0))) + proposing.max(0)
    # Posteriors that are worse than the prior would lead the points astray.
    return normalizer if log_q.mean() > as_prior(prior).log_prob(theta).mean() else RunNormalizer({}, seed=seed)


def members_by_name(
    posteriors: Ensemble[Any] | None, likelihoods: Ensemble[Any] | None, normalizer: RunNormalizer, prior: object
) -> dict[str, Any]:
    """Return all members by name: the posteriors, and the likelihoods normalized."""
    members: dict[str, Any] = {} if posteriors is None else dict(zip(posteriors.names, posteriors, strict=True))
    if likelihoods is not None:
        members |= normalizer.members(posteriors, likelihoods, prior)
    return members


def used_members(fit: Stacking, normalizer: RunNormalizer, table: Table) -> set[str]:
    """Return the members that are trained again: with weight, proposing points, or the best on its own."""
    best = table.names[int(np.nanargmax(table.log_q.mean(1)))]
    return {*fit.member_weights, *normalizer.proposal, best}


def no_worse(before: Ensemble[Any], after: Ensemble[Any], theta: np.ndarray, y: np.ndarray) -> Ensemble[Any]:
    """Return the refitted members, but those as they were that are worse at rows which they now have seen.

    The last epoch of a training whose parameters are not averaged may be a bad one, and nothing else tells.
    """
    members = []
    for member in after:
        first = before[before.names.index(member.name)]
        log_q = [getattr(m, "log_prob", None) or m.log_likelihood for m in (first, member)]
        members.append(member if log_q[1](theta, y).mean() >= log_q[0](theta, y).mean() else first)
    return Ensemble(members)


def inputs_of(theta: np.ndarray, y: np.ndarray, prior: object) -> dict[str, str | None]:
    """Return digests of the simulations and the prior that an inference is made of."""
    log_prior = as_prior(prior).log_prob(np.asarray(theta, float))
    return {"theta": digest_array(theta), "y": digest_array(y), "prior": digest_array(log_prior)}


def _reference(rows: Table | None) -> Table | None:
    """Return rows to hold an observation against, if there are enough."""
    return None if rows is None or rows.N < FEWEST_ROWS else rows


def _frame(*ensembles: Iterable[Any] | None) -> pd.DataFrame:
    import pandas as pd

    frames = []
    for kind, ensemble in zip(("posterior", "likelihood"), ensembles, strict=True):
        if isinstance(ensemble, Ensemble):
            frames.append(ensemble.frame)
            frames[-1].insert(0, "kind", kind)
    return pd.concat(frames)
