"""The settings of a run: ``config.toml``, checked when it is read, as frozen dataclasses.

An option of the command line changes the file and keeps its comments, so that it always records how the run was
made.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from drystone import _defaults as defaults
from drystone._files import read_text, replacing
from drystone._messages import require, unknown

__all__ = ["Config", "Fit", "Likelihoods", "Simulate", "Tabulate", "Train"]

VERSION = 1
FAMILIES, SWEEPS = ("maf", "nsf"), ("default", "paper")
# Most bytes in the name of a fit: a file's name has at most 255, and `drystone._files.replacing` adds a suffix.
MAX_NAME_BYTES = 200


@dataclass(frozen=True)
class Simulate:
    """Settings of the simulations: training rows come first, then stacking rows, then test rows.

    Attributes:
        task: a name of ``drystone tasks``, or ``module:object`` for a :class:`drystone.Task` of your own.
        train: number of rows that the members are trained on.
        stack: number of rows that the weights are fitted to; no member is trained on them.
        test: number of rows that nothing is fitted to.
        seed: seed of the simulations.
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
        """Raise if ``rows`` leaves no test rows."""
        if rows <= self.train + self.stack:
            raise ValueError(
                f"{where} has {rows} rows, which leaves none to test on after {self.train} to train on and "
                f"{self.stack} to stack on; lower --train or --stack, or change [simulate] in config.toml."
            )


@dataclass(frozen=True)
class Train:
    """Settings of the training: see :func:`drystone.train`.

    Attributes:
        members: number of members.
        family: "maf" or "nsf".
        sweep: ranges that the hyperparameters are drawn from, "default" or "paper".
        epochs: maximum number of epochs.
        patience: epochs without a better validation loss before the learning rate is lowered, or training stops.
        lr_drops: times that the learning rate is lowered; 0 in a file that names a patience and no drops.
        validation: share of the training rows held out for early stopping.
        log_y: take logarithms of the data: true, false, or "auto" where their tails are heavy.
        lower: lower bounds of the parameters, for simulations without a task.
        upper: upper bounds of the parameters; ``inf`` where there is none.
        seed: seed of everything random in training.
    """

    members: int = defaults.MEMBERS
    family: str = defaults.FAMILY
    sweep: str = "default"
    epochs: int = defaults.EPOCHS
    patience: int = defaults.PATIENCE_WITH_DROPS
    lr_drops: int = defaults.LR_DROPS
    validation: float = defaults.VALIDATION
    log_y: bool | Literal["auto"] = defaults.LOG_Y
    lower: tuple[float, ...] = ()
    upper: tuple[float, ...] = ()
    seed: int = defaults.SEED

    def __post_init__(self) -> None:
        for name in ("members", "epochs", "patience"):
            _at_least("train", name, getattr(self, name), 1)
        for name in ("lr_drops", "seed"):
            _at_least("train", name, getattr(self, name), 0)
        for name, known in (("family", FAMILIES), ("sweep", SWEEPS)):
            if getattr(self, name) not in known:
                raise ValueError(unknown(f"`train.{name}`", getattr(self, name), known))


@dataclass(frozen=True)
class Likelihoods:
    """Settings of the training of likelihoods: see :func:`drystone.train` with ``target="likelihood"``.

    The bounds of the parameters are those of [train].

    Attributes:
        members: number of likelihoods.
        family: "maf", "nsf", or "both" in turn.
        epochs: maximum number of epochs.
        patience: epochs without a better validation loss before the learning rate is lowered, or training stops.
        validation: share of the training rows held out for early stopping.
        log_y: take logarithms of the data: true, false, or "auto" where their tails are heavy.
        seed: seed of everything random in training.
    """

    members: int = defaults.MEMBERS
    family: str = "both"
    epochs: int = defaults.EPOCHS
    patience: int = defaults.PATIENCE_WITH_DROPS
    validation: float = defaults.VALIDATION
    log_y: bool | Literal["auto"] = defaults.LOG_Y
    seed: int = defaults.SEED

    def __post_init__(self) -> None:
        for name in ("members", "epochs", "patience"):
            _at_least("likelihoods", name, getattr(self, name), 1)
        _at_least("likelihoods", "seed", self.seed, 0)
        if self.family not in ("both", *FAMILIES):
            raise ValueError(unknown("`likelihoods.family`", self.family, ("both", *FAMILIES)))


@dataclass(frozen=True)
class Tabulate:
    """Settings of the table: see :func:`drystone.tabulate`.

    Attributes:
        draws: draws per member and simulation; ranks, moments and quantiles are computed from them.
        keep_draws: whether the draws stay in the table; energy scores and aggregated samples need them.
        levels: levels of the quantiles.
        seed: seed of the draws.
        points: shared points per simulation, at which products are normalized; 0 for none.
    """

    draws: int = defaults.DRAWS
    keep_draws: bool = defaults.KEEP_DRAWS
    levels: tuple[float, ...] = defaults.LEVELS
    seed: int = defaults.SEED
    points: int = 0

    def __post_init__(self) -> None:
        _at_least("tabulate", "draws", self.draws, 2)
        _at_least("tabulate", "points", self.points, 0)
        _at_least("tabulate", "seed", self.seed, 0)
        if not all(0 < level < 1 for level in self.levels):
            raise ValueError(f"`tabulate.levels` must be in (0, 1); got {list(self.levels)}.")


@dataclass(frozen=True)
class Fit:
    """Settings of one fit, as written on the command line.

    Attributes:
        form: form of the stacked posterior, such as "mixture", "local", "interval(alpha=0.2)".
        score: score that the fit minimizes, such as "log", "log + 10*rank".
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
    """All settings in ``config.toml``: one section per stage, and one section ``[fits.NAME]`` per fit.

    ``likelihoods`` is None, and has no section, in a run without them.
    """

    simulate: Simulate = field(default_factory=Simulate)
    train: Train = field(default_factory=Train)
    tabulate: Tabulate = field(default_factory=Tabulate)
    fits: Mapping[str, Fit] = field(default_factory=lambda: {"log": Fit()})
    likelihoods: Likelihoods | None = None

    def __post_init__(self) -> None:
        if not self.fits:
            raise ValueError(
                "[fits] must have at least one section [fits.NAME]; got none: add one or remove [fits]."
            )
        for name in self.fits:
            _check_fit_name(name)

    @classmethod
    def read(cls, path: Path) -> Config:
        """Read a file; raise with one sentence that names the mistake, if there is one."""
        try:
            plain = tomllib.loads(read_text(path).replace("\r\n", "\n"))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValueError(f"{path} is not valid TOML: {error}.") from None
        version = plain.pop("version", VERSION)
        if version != VERSION:
            raise ValueError(f"{path} has version {version!r}; this Drystone reads version {VERSION}.")
        try:
            return cls.from_dict(plain)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Config:
        """Return the configuration with the values of nested dictionaries."""
        kinds = {"simulate": Simulate, "train": Train, "likelihoods": Likelihoods, "tabulate": Tabulate}
        for name, section in plain.items():
            if name not in (*kinds, "fits"):
                raise ValueError(unknown("section", name, (*kinds, "fits")))
            if not isinstance(section, dict):
                raise TypeError(f"`{name}` must be a section, written [{name}]; got {section!r}.")
        if "patience" in plain.get("train", {}):  # version 0.1 knew no drops
            plain = {**plain, "train": {"lr_drops": 0, **plain["train"]}}
        present = [name for name in kinds if name in plain or name != "likelihoods"]
        sections = {name: _section(kinds[name], name, plain.get(name, {})) for name in present}
        if "fits" in plain:
            sections["fits"] = {name: _section(Fit, f"fits.{name}", fit) for name, fit in plain["fits"].items()}
        return cls(**sections)

    def changed(self, section: str, **values: Any) -> Config:
        """Return the configuration with some values of a section replaced; None leaves a value unchanged."""
        changes = {name: value for name, value in values.items() if value is not None}
        old = Likelihoods() if section == "likelihoods" and self.likelihoods is None else getattr(self, section)
        return replace(self, **{section: replace(old, **changes)})

    def with_fit(self, name: str, fit: Fit) -> Config:
        """Return the configuration with a fit added, or replaced if one has this name."""
        return replace(self, fits={**self.fits, name: fit})

    def write(self, path: Path, like: Path | None = None) -> None:
        """Write the file; in an existing one, or one that is to be ``like`` it, change only what differs."""
        require("tomlkit", "cli", "a run")
        import tomlkit

        plain = {"version": VERSION, **asdict(self)}
        if self.likelihoods is None:
            del plain["likelihoods"]
        like = path if like is None else like
        old = read_text(like) if like.exists() else ""
        document = tomlkit.parse(old)
        if not self.tabulate.points and "points" not in document.get("tabulate", {}):
            del plain["tabulate"]["points"]  # few want them
        of_training = document.get("train", {})
        if not self.train.lr_drops and "patience" in of_training and "lr_drops" not in of_training:
            del plain["train"]["lr_drops"]  # as version 0.1 wrote it
        _update(document, plain)
        new = tomlkit.dumps(document)
        if new != old or like != path:
            with replacing(path) as temporary:
                temporary.write_text(new)


S = TypeVar("S")


def _section(kind: type[S], section: str, plain: Mapping[str, Any]) -> S:
    """Return a section's dataclass with the values of a dictionary, names and types checked."""
    hints = get_type_hints(kind)
    if not isinstance(plain, Mapping):
        raise TypeError(f"`{section}` must be a section, written [{section}]; got {plain!r}.")
    for name in plain:
        if name not in hints:
            raise ValueError(unknown(f"key in [{section}]", name, hints))
    return kind(**{name: _typed(f"{section}.{name}", value, hints[name]) for name, value in plain.items()})


TYPE_NAMES = {int: "an integer", float: "a number", str: "a string in quotes", bool: "true or false"}


def _typed(name: str, value: Any, hint: Any) -> Any:
    if get_origin(hint) is tuple:
        if isinstance(value, list):
            return tuple(_typed(name, item, get_args(hint)[0]) for item in value)
        raise TypeError(f"`{name}` must be a list; got {value!r}.")
    if get_origin(hint) is Union:  # true, false or "auto"
        if isinstance(value, bool) or value == "auto":
            return value
        raise TypeError(f'`{name}` must be true, false or "auto"; got {value!r}.')
    accepted = (int, float) if hint is float else (hint,)
    # In Python True is an int; in a configuration it is a mistake.
    if not isinstance(value, accepted) or (isinstance(value, bool) and hint is not bool):
        raise TypeError(f"`{name}` must be {TYPE_NAMES[hint]}; got {value!r}.")
    return float(value) if hint is float else value


def _at_least(section: str, name: str, value: int, least: int) -> None:
    if value < least:
        raise ValueError(f"`{section}.{name}` must be at least {least}; got {value}.")


def _check_fit_name(name: str) -> None:
    from drystone.comparison import BASELINES  # not above: a configuration is read without torch

    if name in BASELINES:
        raise ValueError(
            f"{name!r} cannot be the name of a fit: comparisons use it for a baseline; choose another name."
        )
    if name == "exact":
        raise ValueError(
            "'exact' cannot be the name of a fit: reports use it for the exact posterior; choose another name."
        )
    valid = name and name.isprintable() and len(name.encode()) <= MAX_NAME_BYTES
    if not valid or name.startswith(".") or "/" in name or "\\" in name:
        raise ValueError(
            f"{name!r} cannot be the name of a fit: it becomes the name of a file in fits/. Choose a name of 1 to "
            f"{MAX_NAME_BYTES} bytes without slashes that does not begin with a dot."
        )


def _update(document: Any, plain: Mapping[str, Any]) -> None:
    """Bring the values of a TOML document up to those of a dictionary, changing only those that differ."""
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
