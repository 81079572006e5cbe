"""Small frozen objects (forms, scores, solvers) that print as they are written and are saved as JSON."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from typing import Any

__all__ = ["Spec"]


@dataclass(frozen=True, repr=False)
class Spec:
    """Base of frozen dataclasses whose ``repr`` shows the fields that differ from their defaults.

    Fields with ``repr=False`` are left out.

    Example:
        >>> from drystone.scores import MomentScore
        >>> MomentScore(), MomentScore(diagonal=True)
        (MomentScore(), MomentScore(diagonal=True))
    """

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            if not field.repr:
                continue
            if field.default is MISSING or (value is not field.default and value != field.default):
                shown.append(f"{field.name}={getattr(value, '__name__', None) or repr(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def describe(self) -> dict[str, Any]:
        """Return the object as JSON: its class name and its fields; functions and modules, being code, by name."""
        return {
            "name": type(self).__name__,
            **{field.name: _plain(getattr(self, field.name)) for field in fields(self)},
        }


def _plain(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.describe()
    return {"code": repr(value)} if callable(value) else value
