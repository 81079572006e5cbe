"""The settings of a run: ``config.toml``, checked when it is read, as frozen dataclasses.

A flag of the command line changes the file (comments stay), so that it always says how the run was made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from drystone import _defaults as defaults
from drystone._files import replacing
from drystone._messages import require, unknown

__all__ = ["Config", "Fit", "Simulate", "Tabulate", "Train"]

VERSION = 1
FAMILIES, SWEEPS = ("maf", "nsf"), ("default", "paper")
# Bytes of the name of a fit: with what `drystone._files.replacing` adds, a file's name has at most 255.
LONGEST = 200


@dataclass(frozen=True)
class Simulate:
    """Which simulations: the rows to train on come first, then those to stack on, then those to judge by.

    Attributes:
        task: a name of ``drystone tasks``, or ``module:object`` for a :class:`drystone.Task` of your own.
        train: rows that the members are trained on.
        stack: rows that the weights are fitted to, which no member has seen.
        test: rows that nothing is fitted to.
        seed: of the simulations.
    """

    task: str = ""
    train: int = 10_000
    stack: int = 1_000
    test: int = 2_000
    seed: int = defaults.SEED

    def __post_init__(self) -> None:
        for name in ("train", "stack", "test"):
            _at_least("simulate", name, getattr(self, name), 1)
        _at_least("simulate", "seed", self.seed, 0)

    def check_enough(self, rows: int, where: Path) -> None:
        """Raise if so many rows leave none to test on."""
        if rows <= self.train + self.stack:
            raise ValueError(
                f"{where} has {rows} rows, which leaves none to test on after {self.train} to train on and "
                f"{self.stack} to stack on; divide them otherwise: --train, --stack, or [simulate] in config.toml."
            )


@dataclass(frozen=True)
class Train:
    """Which members: see :func:`drystone.train`.

    Attributes:
        members: how many.
        family: "maf" or "nsf".
        sweep: the hyperparameters are drawn from the "default" sweep or that of the "paper".
        epochs: the most epochs.
        patience: epochs without a better validation loss before training stops.
        validation: share of the training rows held out to stop by.
        log_y: take logarithms of the data.
        lower: lower bounds of the parameters, if the simulations have no task that knows them.
        upper: upper bounds, likewise; ``inf`` where there is none.
        seed: of everything random in training.
    """

    members: int = defaults.MEMBERS
    family: str = defaults.FAMILY
    sweep: str = "default"
    epochs: int = defaults.EPOCHS
    patience: int = defaults.PATIENCE
    validation: float = defaults.VALIDATION
    log_y: bool = defaults.LOG_Y
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    seed: int = defaults.SEED

    def __post_init__(self) -> None:
        for name in ("members", "epochs", "patience"):
            _at_least("train", name, getattr(self, name), 1)
        _at_least("train", "seed", self.seed, 0)
        for name, known in (("family", FAMILIES), ("sweep", SWEEPS)):
            if getattr(self, name) not in known:
                raise ValueError(unknown(f"`train.{name}`", getattr(self, name), known))


@dataclass(frozen=True)
class Tabulate:
    """What the table holds of each member and simulation: see :func:`drystone.tabulate`.

    Attributes:
        draws: draws per member and simulation; ranks, moments and quantiles come from them.
        keep_draws: whether the draws stay in the table; energy scores and aggregated samples need them.
        levels: of the quantiles.
        seed: of the draws.
    """

    draws: int = defaults.DRAWS
    keep_draws: bool = defaults.KEEP_DRAWS
    levels: tuple[float, ...] = defaults.LEVELS
    seed: int = defaults.SEED

    def __post_init__(self) -> None:
        _at_least("tabulate", "draws", self.draws, 2)
        _at_least("tabulate", "seed", self.seed, 0)
        if not all(0 < level < 1 for level in self.levels):
            raise ValueError(f"`tabulate.levels` must be in (0, 1); got {list(self.levels)}.")


@dataclass(frozen=True)
class Fit:
    """One way to stack, as it is written on the command line.

    Attributes:
        form: such as "mixture", "local", "interval(alpha=0.2)".
        score: such as "log", "log + 10*rank".
        nonfinite: "raise" if a member's statistics are not finite, or "drop" the member.
    """

    form: str = "mixture"
    score: str = "log"
    nonfinite: str = defaults.NONFINITE

    def __post_init__(self) -> None:
        if self.nonfinite not in ("raise", "drop"):
            raise ValueError(unknown("`nonfinite`", self.nonfinite, ("raise", "drop")))


@dataclass(frozen=True)
class Config:
    """The whole of ``config.toml``: one section per stage, and one section ``[fits.NAME]`` per fit."""

    simulate: Simulate = field(default_factory=Simulate)
    train: Train = field(default_factory=Train)
    tabulate: Tabulate = field(default_factory=Tabulate)
    fits: Mapping[str, Fit] = field(default_factory=lambda: {"log": Fit()})

    def __post_init__(self) -> None:
        if not self.fits:
            raise ValueError(
                "[fits] must have at least one section [fits.NAME]; got none: add one or remove [fits]."
            )
        for name in self.fits:
            _check_fit_name(name)

    @classmethod
    def read(cls, path: Path) -> Config:
        """Read a file; every mistake in it is one sentence that names it."""
        try:
            plain = tomllib.loads(path.read_text())
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not valid TOML: {error}.") from None
        version = plain.pop("version", VERSION)
        if version != VERSION:
            raise ValueError(f"{path} has version {version!r}; this Drystone reads version {VERSION}.")
        try:
            return cls.of(plain)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{path}: {error}") from None

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Config:
        """Return the configuration that nested dictionaries hold."""
        kinds = {"simulate": Simulate, "train": Train, "tabulate": Tabulate}
        for name, section in plain.items():
            if name not in (*kinds, "fits"):
                raise ValueError(unknown("section", name, (*kinds, "fits")))
            if not isinstance(section, dict):
                raise TypeError(f"`{name}` must be a section, written [{name}]; got {section!r}.")
        sections = {name: _section(kind, name, plain.get(name, {})) for name, kind in kinds.items()}
        if "fits" in plain:
            sections["fits"] = {name: _section(Fit, f"fits.{name}", fit) for name, fit in plain["fits"].items()}
        return cls(**sections)

    def changed(self, section: str, **values: Any) -> Config:
        """Return the configuration with some values of a section replaced; None leaves a value as it is."""
        changes = {name: value for name, value in values.items() if value is not None}
        return replace(self, **{section: replace(getattr(self, section), **changes)})

    def with_fit(self, name: str, fit: Fit) -> Config:
        """Return the configuration with a fit more, or another one of this name."""
        return replace(self, fits={**self.fits, name: fit})

    def write(self, path: Path) -> None:
        """Write the file, or change what has changed in it."""
        require("tomlkit", "cli", "a run")
        import tomlkit

        plain = {"version": VERSION, **asdict(self)}
        old = path.read_text() if path.exists() else ""
        document = tomlkit.parse(old)
        _update(document, plain)
        new = tomlkit.dumps(document)
        if new != old:
            with replacing(path) as temporary:
                temporary.write_text(new)


S = TypeVar("S")


def _section(kind: type[S], section: str, plain: Mapping[str, Any]) -> S:
    """Return a dataclass made of a dictionary, with names and types checked."""
    hints = get_type_hints(kind)
    if not isinstance(plain, Mapping):
        raise TypeError(f"`{section}` must be a section, written [{section}]; got {plain!r}.")
    for name in plain:
        if name not in hints:
            raise ValueError(unknown(f"key in [{section}]", name, hints))
    return kind(**{name: _typed(f"{section}.{name}", value, hints[name]) for name, value in plain.items()})


WORDS = {int: "an integer", float: "a number", str: "a text in quotes", bool: "true or false"}


def _typed(name: str, value: Any, hint: Any) -> Any:
    if get_origin(hint) is tuple:
        if isinstance(value, list):
            return tuple(_typed(name, item, get_args(hint)[0]) for item in value)
        raise TypeError(f"`{name}` must be a list; got {value!r}.")
    accepted = (int, float) if hint is float else (hint,)
    # In Python True is an int; in a configuration it is a mistake.
    if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
        raise TypeError(f"`{name}` must be {WORDS[hint]}; got {value!r}.")
    return float(value) if hint is float else value


def _at_least(section: str, name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"`{section}.{name}` must be at least {least}; got {value}.")


def _check_fit_name(name: str) -> None:
    from drystone.comparison import BASELINES  # not above: a configuration is read without torch

    if name in BASELINES:
        raise ValueError(
            f"{name!r} cannot be the name of a fit: comparisons call something else so; give another."
        )
    fits = name and name.isprintable() and len(name.encode()) <= LONGEST
    if not fits or name.startswith(".") or "/" in name or "\\" in name:
        raise ValueError(
            f"{name!r} cannot be the name of a fit: it becomes the name of a file in fits/, so give one of 1 to "
            f"{LONGEST} bytes without slashes that does not begin with a dot."
        )


def _update(document: Any, plain: Mapping[str, Any]) -> None:
    """Make a TOML document say what a dictionary says, touching only what differs."""
    for name in [name for name in document if name not in plain]:
        del document[name]
    for name, value in plain.items():
        if isinstance(value, Mapping):
            if name not in document:
                document[name] = {}
            _update(document[name], value)
        else:
            value = list(value) if isinstance(value, tuple) else value
            if name not in document or document[name] != value:
                document[name] = value
