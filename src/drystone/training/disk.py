"""Members on disk: ``<name>.safetensors`` holds the arrays, ``<name>.json`` the rest. Nothing is pickled.

The JSON is written last, so that it exists only for complete members, and it holds the checksum of the arrays. A
member that diverged twice has only a JSON. Equal trainings write equal files, byte for byte: their durations are
in ``timings.jsonl`` instead.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from drystone._files import (
    append_text,
    check,
    digest,
    naming,
    open_regular,
    read_sealed_json,
    read_text,
    replacing,
    without_seal,
    write_sealed_json,
)
from drystone._resume import Record, check_same
from drystone.errors import DamagedError
from drystone.flows.architecture import Architecture
from drystone.flows.flow import Flow
from drystone.simulation.support import Support
from drystone.training.engines.loop import State
from drystone.training.features import Features
from drystone.training.likelihood import Condition, TrainedLikelihood
from drystone.training.member import History, TrainedMember
from drystone.training.preprocessing import DataTransform, Scaling
from drystone.training.recipe import Recipe
from drystone.training.sweep import Configuration
from drystone.training.trend import Trend
from drystone.training.warp import Warp

if TYPE_CHECKING:
    from torch import nn

    from drystone.training.engines.job import Job

__all__ = ["Stored", "finished", "save", "save_diverged", "scan"]

# Format 1 had no checksum of the description.
FORMAT, UNSEALED = 2, 1
# Fields of an architecture that decide how many parameters it has.
SIZES = ("family", "features", "context", "transforms", "units", "layers", "bins")
TIMINGS = "timings.jsonl"
# Fields of a configuration that version 0.1 wrote under another name.
RENAMED = {"averaging": "ema_decay"}
FAMILY_IN_NAME = re.compile(r"(maf|nsf)-(?=\d+$)")


def save(member: TrainedMember | TrainedLikelihood, directory: Path, fingerprint: str = "") -> None:
    """Write a member; ``fingerprint`` is the digest of its data and settings, with which training is resumed."""
    likelihood = isinstance(member, TrainedLikelihood)
    arrays = _arrays_of_likelihood(member) if likelihood else _arrays_of_posterior(member)
    for epoch, state in member.snapshots.items():
        arrays |= {f"snapshot.{epoch}.{key}": value for key, value in state.items()}
    with replacing(directory / f"{member.name}.safetensors") as temporary:
        # Not with `save_file`, which makes the file readable for its owner only.
        temporary.write_bytes(safetensors.save({key: np.asarray(a, order="C") for key, a in arrays.items()}))
        sha256 = digest(temporary)
    _note_time(directory, member)
    description = {
        "format": FORMAT,
        "name": member.name,
        "fingerprint": fingerprint,
        "sha256": sha256,
        "diverged": False,
        **({"target": "likelihood"} if likelihood else _settings_of_posterior(member)),
        "architecture": asdict(member.flow.architecture),
        "configuration": asdict(member.configuration),
        "history": {key: value for key, value in asdict(member.history).items() if key != "seconds"},
    }
    if member.recipe is not None:
        description["recipe"] = member.recipe.describe()
    write_sealed_json(directory / f"{member.name}.json", description)


def _settings_of_posterior(member: TrainedMember) -> dict[str, Any]:
    return {
        "embedding": member.embedding is not None,
        "clip": member.data_transform.clip,
        "linear": member.support.linear,
    }


def _arrays_of_posterior(member: TrainedMember) -> State:
    data_transform = member.data_transform
    arrays = {
        "flow": member.flow.parameters,
        "support.lower": member.support.lower,
        "support.upper": member.support.upper,
        "scaling.shift": member.scaling.shift,
        "scaling.scale": member.scaling.scale,
        **_arrays_of(data_transform.warp, "conditioning"),
        "conditioning.shift": data_transform.scaling.shift,
        "conditioning.scale": data_transform.scaling.scale,
    }
    if data_transform.mean is not None and data_transform.axes is not None:
        arrays |= {"conditioning.mean": data_transform.mean, "conditioning.axes": data_transform.axes}
    if member.embedding is not None:
        from drystone.training.engines.torch import embedding_state

        arrays |= embedding_state(member.embedding)
    return arrays


def _arrays_of_likelihood(member: TrainedLikelihood) -> State:
    features, condition = member.features, member.condition
    return {
        "flow": member.flow.parameters,
        "support.lower": condition.support.lower,
        "support.upper": condition.support.upper,
        "condition.shift": condition.scaling.shift,
        "condition.scale": condition.scaling.scale,
        "features.constant": features.constant,
        "features.step": features.step,
        "features.origin": features.origin,
        **_arrays_of(features.warp, "features"),
        "features.shift": features.scaling.shift,
        "features.scale": features.scaling.scale,
        **_arrays_of(member.trend, "trend"),
    }


def _arrays_of(part: Warp | Trend | None, prefix: str) -> State:
    return {} if part is None else {f"{prefix}.{field.name}": getattr(part, field.name) for field in fields(part)}


def _warp(prefix: str, arrays: State) -> Warp:
    """Read a warp; files of 0.1 have the logarithms alone, and none was of another kind."""
    stored = {f.name: arrays[key] for f in fields(Warp) if (key := f"{prefix}.{f.name}") in arrays}
    return replace(Warp.none(stored["log"].shape), **stored)


def _trend(arrays: State) -> Trend | None:
    """Read a trend, if the member has one."""
    stored = {f.name: arrays[key] for f in fields(Trend) if (key := f"trend.{f.name}") in arrays}
    return Trend(**stored) if stored else None


def save_diverged(name: str, directory: Path, fingerprint: str) -> None:
    """Record that a member diverged, so that resumed training does not try it again."""
    description = {"format": FORMAT, "name": name, "fingerprint": fingerprint, "diverged": True}
    write_sealed_json(directory / f"{name}.json", description)


def _note_time(directory: Path, member: TrainedMember | TrainedLikelihood) -> None:
    path = directory / TIMINGS
    with naming(path):
        append_text(path, json.dumps({"name": member.name, "seconds": member.history.seconds}) + "\n")


def _seconds(directory: Path, name: str) -> float:
    """Return the duration of a member's training from the last line that has it; NaN if none has."""
    path = directory / TIMINGS
    seconds = math.nan
    for line in read_text(path).splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
            if entry["name"] == name:
                seconds = float(entry["seconds"])
        except (ValueError, TypeError, KeyError, RecursionError):  # killed while it wrote this line
            continue
    return seconds


@dataclass(frozen=True)
class Stored:
    """A member on disk: its description has been read, its arrays have not."""

    path: Path
    description: dict[str, Any]
    embedding: Callable[[], nn.Module] | None = None

    @property
    def name(self) -> str:
        """The member's name."""
        return self.description["name"]

    @property
    def fingerprint(self) -> str:
        """The digest of its data and settings: see :mod:`drystone.training.fingerprint`."""
        return self.description["fingerprint"]

    @property
    def diverged(self) -> bool:
        """Whether training failed, so that there are no arrays."""
        return self.description["diverged"]

    @property
    def configuration(self) -> Configuration:
        """The hyperparameters of the member."""
        stored: dict[str, Any] = self.description["configuration"]
        return Configuration(**{RENAMED.get(key, key): value for key, value in stored.items()})

    @cached_property
    def history(self) -> History:
        """The course of the training."""
        stored = self.description["history"]
        lists = {key: tuple(stored[key]) for key in ("losses", "validation")}
        return History(**{"seconds": _seconds(self.path.parent, self.name), **stored, **lists})

    def check(self) -> None:
        """Raise, naming the file, if the arrays are missing or damaged."""
        arrays = self.path.with_suffix(".safetensors")
        if not self.diverged and "sha256" in self.description:
            remedy = f"Remove it and {self.path.name} to train the member again."
            if not arrays.exists():
                raise DamagedError(f"{arrays} is missing although {self.path.name} exists. {remedy}")
            check(arrays, self.description["sha256"], remedy=remedy)

    @property
    def recipe(self) -> Recipe | None:
        """What the training is repeated from; version 0.1 wrote none."""
        stored = self.description.get("recipe")
        return None if stored is None else Recipe.read(stored)

    @property
    def is_likelihood(self) -> bool:
        """Whether the member is a density of y."""
        return self.description.get("target") == "likelihood"

    @property
    def of_version_0_1(self) -> bool:
        """Whether version 0.1, which had no likelihoods, trained the member, with the defaults of that version."""
        return not self.is_likelihood and "linear" not in self.description

    @property
    def linear(self) -> float:
        """Weight of the linear term in the map from the support to the reals; version 0.1 had none."""
        return float(self.description.get("linear", 0.0))

    def load(self) -> TrainedMember | TrainedLikelihood:
        """Return the member, with its arrays read."""
        self.check()
        path = self.path.with_suffix(".safetensors")
        try:
            return self._member(_load_arrays(path))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, DamagedError) or (self.description.get("embedding") and self.embedding is None):
                raise
            raise DamagedError(
                f"{self.path} or {path.name} is damaged ({type(error).__name__}: {error})."
            ) from error

    def _member(self, arrays: State) -> TrainedMember | TrainedLikelihood:
        architecture = dict(self.description["architecture"])
        if architecture["orders"] is not None:
            architecture["orders"] = tuple(tuple(order) for order in architecture["orders"])
        # Before anything of the sizes in the description is made: the vector of parameters is in memory already.
        if Architecture.count(**{name: architecture[name] for name in SIZES}) != arrays["flow"].size:
            raise ValueError(f"`architecture` has other than the {arrays['flow'].size} parameters of the flow")
        flow = Flow(Architecture(**architecture), arrays["flow"])
        support = Support(arrays["support.lower"], arrays["support.upper"], linear=self.linear)
        if self.is_likelihood:
            return TrainedLikelihood(
                name=self.name,
                flow=flow,
                features=Features(
                    **{name: arrays[f"features.{name}"] for name in ("constant", "step", "origin")},
                    warp=_warp("features", arrays),
                    scaling=Scaling(arrays["features.shift"], arrays["features.scale"]),
                ),
                condition=Condition(support, Scaling(arrays["condition.shift"], arrays["condition.scale"])),
                configuration=self.configuration,
                history=self.history,
                snapshots=_snapshots(arrays),
                recipe=self.recipe,
                trend=_trend(arrays),
            )
        data_transform = DataTransform(
            _warp("conditioning", arrays),
            Scaling(arrays["conditioning.shift"], arrays["conditioning.scale"]),
            self.description["clip"],
            arrays.get("conditioning.mean"),
            arrays.get("conditioning.axes"),
        )
        return TrainedMember(
            name=self.name,
            flow=flow,
            support=support,
            scaling=Scaling(arrays["scaling.shift"], arrays["scaling.scale"]),
            data_transform=data_transform,
            configuration=self.configuration,
            history=self.history,
            snapshots=_snapshots(arrays),
            recipe=self.recipe,
            embedding=self._embedding(arrays),
        )

    def _embedding(self, arrays: State) -> nn.Module | None:
        if not self.description["embedding"]:
            return None
        if self.embedding is None:
            raise ValueError(
                f"member {self.name!r} was trained with an embedding; pass the function that makes it: "
                "`Ensemble.load(directory, embedding=...)`."
            )
        from drystone.training.engines.torch import with_state

        return with_state(self.embedding(), arrays)


def _snapshots(arrays: State) -> dict[int, State]:
    snapshots: dict[int, State] = {}
    for key, value in arrays.items():
        if key.startswith("snapshot."):
            _, epoch, name = key.split(".", 2)
            snapshots.setdefault(int(epoch), {})[name] = value
    return snapshots


def read(path: Path, embedding: Callable[[], nn.Module] | None = None) -> Stored:
    """Read the description of one member."""
    try:
        description, has_checksum = read_sealed_json(path)
    except DamagedError as error:
        raise DamagedError(f"{error} Remove it to train the member again.") from None
    if description.get("format") not in (UNSEALED, FORMAT):
        raise ValueError(f"{path} is not a member of format {FORMAT}; was it written by a later version?")
    if not has_checksum and description["format"] > UNSEALED:
        raise without_seal(path)
    expected = {"name": str, "fingerprint": str, "diverged": bool}
    if not all(isinstance(description.get(key), kind) for key, kind in expected.items()):
        raise DamagedError(f"{path} is damaged: it has no {', '.join(expected)}.")
    return Stored(path, description, embedding)


def _load_arrays(path: Path) -> State:
    """Read the arrays of a member; its header is compared with the size of the file by the library."""
    with open_regular(path) as file:
        content = file.read()
    try:
        return safetensors.load(content)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DamagedError(f"{path} is damaged: it cannot be read as arrays ({error}).") from error


def finished(
    jobs: Iterable[Job], directory: Path | None, made_of: str, embedding: Callable[[], nn.Module] | None
) -> dict[str, Stored]:
    """Return the members of a directory that are those of jobs, by name, checked.

    Args:
        jobs: Trainings, with names and fingerprints.
        directory: Where members are; None for nowhere.
        made_of: What the fingerprint is of; :class:`~drystone.StaleError` says that it changed.
        embedding: Makes the members' embedding, if they have one.
    """
    found: dict[str, Stored] = {}
    for job in jobs:
        path = None if directory is None else directory / f"{job.name}.json"
        if path is not None and path.exists():
            stored = read(path, embedding)
            recorded, current = (Record(inputs={made_of: of}) for of in (stored.fingerprint, job.fingerprint))
            check_same(recorded, current, str(path), "Choose another `directory`.")
            stored.check()
            found[job.name] = stored
    return found


def scan(directory: Path, embedding: Callable[[], nn.Module] | None = None) -> tuple[list[Stored], list[str]]:
    """Return the members of a directory in the order of their training, and the names of those that diverged."""
    paths = sorted(directory.glob("*.json"), key=_place)
    if not paths:
        raise ValueError(f"no members (<name>.json) in {directory}.")
    stored = [read(path, embedding) for path in paths]
    return [s for s in stored if not s.diverged], [s.name for s in stored if s.diverged]


def _place(path: Path) -> tuple[str, int, str]:
    """Return what files are sorted by: the number, whatever the family (nle-maf-000, nle-nsf-001, nle-maf-002)."""
    without_family = FAMILY_IN_NAME.sub("", path.stem)
    prefix = without_family.rstrip("0123456789")
    return prefix, int(without_family[len(prefix) :] or 0), path.stem
