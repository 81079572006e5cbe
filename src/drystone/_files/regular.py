"""Regular files only: nothing that is read or appended to in a directory is a link, a pipe or a device.

A directory may come from elsewhere. A link in it would lead what is written to another place, a pipe would wait
forever, and a device or a sparse file would fill the memory.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from drystone.errors import DamagedError

__all__ = ["append_text", "check_regular", "open_regular", "read_json", "read_text", "regular_files"]

# Most bytes of a file that is read as text. Parsed JSON takes up to forty times as many.
LARGEST_TEXT = 2**26
KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISDIR, "a directory"),
)


def check_regular(path: Path, mode: int | None = None) -> None:
    """Raise :class:`DamagedError`, which names the path, if it exists and is not a regular file.

    Args:
        path: The path; a link is not followed.
        mode: The mode of an open descriptor, if there is one already.
    """
    try:
        mode = os.lstat(path).st_mode if mode is None else mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode):
        kind = next((kind for test, kind in KINDS if test(mode)), "not a regular file")
        raise DamagedError(f"{path} is {kind}, and not the regular file that is expected there. Remove it.")


@contextmanager
def open_regular(path: Path, mode: str = "rb", *, follow: bool = False) -> Iterator[IO[Any]]:
    """Yield an opened regular file; anything else raises, without waiting, and names the path.

    Args:
        path: The file.
        mode: As for :func:`open`: "rb", "r", "a" or "a+".
        follow: Whether the path itself may be a link, as one that a user has typed may.
    """
    check_regular(path.resolve() if follow else path)

    def opener(name: str, flags: int) -> int:
        # The file may have been exchanged since it was looked at.
        guards = ("O_NONBLOCK", "O_NOCTTY") if follow else ("O_NOFOLLOW", "O_NONBLOCK", "O_NOCTTY")
        for guard in guards:
            flags |= getattr(os, guard, 0)
        descriptor = os.open(name, flags, 0o666)
        try:
            check_regular(path, os.fstat(descriptor).st_mode)
        except DamagedError:
            os.close(descriptor)
            raise
        return descriptor

    with open(path, mode, opener=opener, encoding=None if "b" in mode else "utf-8") as file:
        yield file


def read_text(path: Path, *, follow: bool = False) -> str:
    """Return the text of a regular file as it is; raise :class:`DamagedError` if it is too large or not UTF-8."""
    with open_regular(path, follow=follow) as file:
        # Not more than there is: Python takes the memory before it reads.
        content = file.read(min(os.fstat(file.fileno()).st_size, LARGEST_TEXT) + 1)
    if len(content) > LARGEST_TEXT:
        raise DamagedError(f"{path} has more than {LARGEST_TEXT // 2**20} MiB, which no such file has.")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise DamagedError(f"{path} is damaged: it is not UTF-8 ({error}).") from None


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raise :class:`DamagedError`, which names it, if there is none."""
    return parse_json(read_text(path), path)


def parse_json(text: str, path: Path) -> dict[str, Any]:
    """Return the object in the text of a JSON file."""
    try:
        plain = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path} is damaged: it is not a complete JSON file ({error}).") from None
    if not isinstance(plain, dict):
        raise DamagedError(f"{path} is damaged: it holds no JSON object.")
    return plain


def append_text(path: Path, text: str) -> None:
    """Add text to a regular file, or begin it."""
    with open_regular(path, "a") as file:
        file.write(text)


def regular_files(directory: Path) -> dict[str, int]:
    """Return the sizes of all files below a directory by their names in it; raise if one is not regular.

    The directory itself may be a link, which the user has made; nothing in it may.
    """
    sizes: dict[str, int] = {}
    for place, directories, files in os.walk(directory):
        for name in directories:
            if Path(place, name).is_symlink():
                check_regular(Path(place, name))
        for name in files:
            path = Path(place, name)
            check_regular(path)
            sizes[path.relative_to(directory).as_posix()] = path.stat().st_size
    return sizes
