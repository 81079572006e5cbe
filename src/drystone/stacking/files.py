"""Fits as files: one JSON file each, with the checksum of its own text; code is never stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from drystone import forms, scores, solvers
from drystone._arrays import frozen
from drystone._files import read_sealed_json, without_seal, write_sealed_json
from drystone.errors import DamagedError
from drystone.forms import Form
from drystone.scores import Score, Sum
from drystone.solvers import Solver, Status

__all__ = ["read", "write"]

FORMAT, VERSION = "drystone-stacking", 2


def write(path: Path, fit: Mapping[str, Any]) -> None:
    """Write the fields of a fit, whole or not at all."""
    plain = dict(fit) | {key: fit[key].describe() for key in ("form", "score")} | {"status": fit["status"].name}
    if isinstance(fit["solver"], Solver):
        plain["solver"] = fit["solver"].describe()
    plain["params"] = {
        name: {"shape": array.shape, "dtype": str(array.dtype), "values": array.ravel().tolist()}
        for name, array in fit["params"].items()
    }
    plain = {"format": FORMAT, "version": VERSION, "checksum": "", **plain}
    write_sealed_json(path, plain, default=lambda number: number.item())


def read(path: Path, score: Score | None, form: Form | None, solver: Solver | None) -> dict[str, Any]:
    """Return the fields of a fit; form, score and solver are revived unless they are passed."""
    try:
        plain = _fields(path)
        plain["form"] = _revive(plain["form"], forms, "form") if form is None else form
        plain["score"] = _revive_score(plain["score"]) if score is None else score
        plain["solver"] = _revive_solver(plain["solver"]) if solver is None else solver
    except (KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"{path} is not a complete fit ({type(error).__name__}: {error}).") from error
    except DamagedError:
        raise
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    try:
        plain["status"] = Status[plain["status"]]
        plain["params"] = {
            name: frozen(np.array(a["values"], _number(a["dtype"])).reshape(a["shape"]))
            for name, a in plain["params"].items()
        }
        return plain | {name: tuple(plain[name]) for name in ("names", "parameters", "notes")}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DamagedError(f"{path} is damaged: {error}") from error


def _fields(path: Path) -> dict[str, Any]:
    """Return what the file of a fit holds, if it is unchanged, with the fields of the present version."""
    plain, has_checksum = read_sealed_json(path, follow=True)
    kind, version = plain.pop("format", None), plain.pop("version", 0)
    if not isinstance(version, int):
        raise DamagedError(f"{path} is damaged: its version is {version!r}.")
    if kind != FORMAT or version > VERSION:
        raise ValueError(f"it is {kind!r} version {version}; expected {FORMAT!r} up to version {VERSION}.")
    if not has_checksum and version > 1:
        raise without_seal(path)
    if not has_checksum:  # version 0.1 wrote none
        converged = plain.pop("converged")
        finished = Status.CONVERGED if plain["gap"] is None else Status.CERTIFIED
        plain["status"] = (finished if converged else Status.STALLED).name
    return plain


def _number(dtype: str) -> np.dtype:
    """Return a type of numbers; text of a billion letters would take the memory, and objects are not stored."""
    if np.dtype(dtype).kind not in "fiub":
        raise ValueError(f"parameters of type {dtype!r}; expected numbers.")
    return np.dtype(dtype)


def _revive(plain: dict[str, Any], module: ModuleType, kind: str) -> Any:
    """Return the form, score or solver that a file describes."""
    plain = dict(plain)
    name = plain.pop("name")
    cls = getattr(module, name) if name in module.__all__ else None
    if not isinstance(cls, type):
        known = ", ".join(module.__all__)
        raise ValueError(
            f"the file names the {kind} {name!r}, which is not one of Drystone's ({known}). If it is one of your "
            f"own, pass it: Stacking.load(path, {kind}=...)."
        )
    code = [key for key, value in plain.items() if isinstance(value, dict) and "code" in value]
    if code:
        raise ValueError(
            f"`{code[0]}` of {name} is code, which is not stored; pass the object again: "
            f"Stacking.load(path, {kind}=...)."
        )
    return cls(**{key: _revive_field(value, module, kind) for key, value in plain.items()})


def _revive_field(value: Any, module: ModuleType, kind: str) -> Any:
    if isinstance(value, dict) and "distribution" in value:
        from drystone.simulation.prior import described_prior

        return described_prior(value)
    if isinstance(value, dict):
        return _revive(value, module, kind)
    return tuple(value) if isinstance(value, list) else value


def _revive_score(plain: dict[str, Any]) -> Score:
    if plain["name"] == "Sum":
        return Sum(tuple((coefficient, _revive(term, scores, "score")) for coefficient, term in plain["terms"]))
    return _revive(plain, scores, "score")


def _revive_solver(plain: dict[str, Any] | str | None) -> Solver | str | None:
    """Return the solver, or its name if it is not one of Drystone's; version 0.1 wrote no more than its repr."""
    if not isinstance(plain, dict):
        return plain
    return _revive(plain, solvers, "solver") if plain["name"] in solvers.__all__ else plain["name"]
