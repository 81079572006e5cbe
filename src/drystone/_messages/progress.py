"""Bars of progress, where somebody watches: on a terminal and in a notebook."""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tqdm.std import tqdm

__all__ = ["progress_bar"]


def progress_bar(total: int, unit: str, *, initial: int = 0, shown: bool | None = None) -> tqdm:
    """Return a bar of ``total`` units.

    Args:
        total: how many there are.
        unit: what they are, after the number.
        initial: how many are done already.
        shown: whether it is shown; None for on a terminal and in a notebook.

    Example:
        >>> with progress_bar(10, " rows", shown=False) as bar:
        ...     bar.update(4)
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there are no widgets: text does as well
        from tqdm.auto import tqdm

    if shown is None:
        shown = _on_a_terminal() or _in_a_notebook()
    return tqdm(total=total, unit=unit, initial=initial, disable=not shown)


def _on_a_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _in_a_notebook() -> bool:
    """Return whether the process is a kernel: tqdm alone takes its output for a file, and shows nothing."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")
