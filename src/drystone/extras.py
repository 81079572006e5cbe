"""Libraries that only parts of Drystone need."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["require"]


def require(module: str, extra: str, what: str) -> None:
    """Say what to do if a library is missing."""
    if find_spec(module) is None:
        raise ImportError(f"{what} needs {module}, which is not installed: pip install 'drystone[{extra}]'.")
