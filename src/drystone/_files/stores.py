"""Zarr stores, opened after a look at what they would make Zarr do.

Zarr format 2 may name any codec, one of which unpickles; metadata may declare arrays of any size, and a chunk any
size of what it holds. Before Zarr sees a store, its metadata are compared with its files: format 3 alone, numbers
alone, four codecs, and no more bytes than the files can hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from drystone._files.regular import open_regular, read_json, regular_files
from drystone._files.seals import ROOT
from drystone.errors import DamagedError

if TYPE_CHECKING:
    import zarr

__all__ = ["SMALL", "check_size", "open_store"]

# Bytes of a number of each type.
TYPES = {"bool": 1} | {f"{kind}{8 * n}": n for kind in ("int", "uint") for n in (1, 2, 4, 8)}
TYPES |= {"float16": 2, "float32": 4, "float64": 8}
COMPRESSORS = ("zstd", "blosc")
# Arrays of fewer bytes may be compressed to nothing; larger ones to one part in RATIO.
SMALL, RATIO = 2**28, 1000


def open_store(path: Path) -> zarr.Group:
    """Return a Zarr group, opened for reading; raise :class:`DamagedError` if it is not what we would write.

    Without a checksum every chunk must exist: Zarr reads a missing one as fill values. The path itself may be a
    link, which the user has made.
    """
    import zarr

    files = regular_files(path)
    root = read_json(path / ROOT)
    if root.get("zarr_format") != 3 or root.get("node_type") != "group":
        raise DamagedError(f"{path} is not a Zarr group of format 3.")
    attributes = root.get("attributes", {})
    if not isinstance(attributes, dict):
        raise DamagedError(f"{path} is damaged: its attributes are {attributes!r}.")
    by_array: dict[str, dict[str, int]] = {}
    for name, size in files.items():
        array, _, rest = name.partition("/")
        by_array.setdefault(array, {})[rest] = size
    declared = 0
    for name, inside in by_array.items():
        if ROOT in inside:
            chunks = {file: size for file, size in inside.items() if file != ROOT}
            declared += _checked_array(path / name, chunks, complete=not {"seal", "checksum"} & attributes.keys())
    check_size(path, declared, sum(files.values()))
    # Consolidated metadata would be used instead of those that were just checked.
    return zarr.open_group(path, mode="r", zarr_format=3, use_consolidated=False)


def check_size(path: Path, declared: int, stored: int) -> None:
    """Raise if a file declares more bytes than it can hold."""
    if declared > max(SMALL, RATIO * stored):
        raise DamagedError(
            f"{path} is damaged: it declares arrays of {declared / 2**30:.3g} GiB, and has {stored} bytes."
        )


def _checked_array(array: Path, chunks: Mapping[str, int], complete: bool) -> int:
    """Return how many bytes an array takes in memory, by whole chunks; raise if it is not plain numbers.

    Args:
        array: Its directory.
        chunks: Sizes of its files by name.
        complete: Whether every chunk must exist.
    """
    node = read_json(array / ROOT)
    try:
        shape, kind = [int(n) for n in node["shape"]], node["data_type"]
        if node["zarr_format"] != 3 or node["node_type"] != "array" or kind not in TYPES:
            raise ValueError(f"data type {kind!r} in format {node['zarr_format']!r}; expected numbers in format 3")
        grid = node["chunk_grid"]
        if grid["name"] != "regular" or node.get("storage_transformers"):
            raise ValueError("chunks of another kind than a regular grid")
        chunk = [int(n) for n in grid["configuration"]["chunk_shape"]]
        codecs = [codec["name"] for codec in node["codecs"]]
        compressor = _compressor(codecs)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise DamagedError(f"{array} cannot be read: {error!r}.") from None
    if len(shape) != len(chunk) or min(shape, default=0) < 0 or min(chunk, default=1) < 1:
        raise DamagedError(f"{array} is damaged: shape {shape} in chunks of {chunk}.")
    count = math.prod(-(-n // c) for n, c in zip(shape, chunk, strict=True))
    size = math.prod(chunk) * TYPES[kind]
    extra = 4 if "crc32c" in codecs else 0
    for name, stored in chunks.items():
        held = stored - extra if compressor is None else _held(array / name, compressor)
        if held != size:
            raise DamagedError(f"{array / name} is damaged: it holds {held} bytes of a chunk of {size}.")
    if len(chunks) > count or (complete and len(chunks) < count):
        raise DamagedError(f"{array} is damaged: it has {len(chunks)} of {count} chunks.")
    return count * size


def _compressor(codecs: list[str]) -> str | None:
    """Return the compressor among the codecs of an array, if any: [transpose,] bytes[, compressor][, crc32c]."""
    rest = [name for name in codecs if name not in ("transpose", "crc32c")]
    if rest[:1] != ["bytes"] or len(rest) > 2 or not set(rest[1:]) <= set(COMPRESSORS):
        raise ValueError(f"codecs {', '.join(codecs)}; expected bytes, or bytes and {' or '.join(COMPRESSORS)}")
    if "crc32c" in codecs and codecs[-1] != "crc32c":
        raise ValueError("crc32c must be the last codec")
    return rest[1] if len(rest) == 2 else None


def _held(chunk: Path, compressor: str) -> int:
    """Return how many bytes a compressed chunk holds by its own header; −1 if it does not say."""
    with open_regular(chunk) as file:
        header = file.read(18)
    if compressor == "blosc":
        return int.from_bytes(header[4:8], "little") if len(header) == 18 else -1
    # RFC 8878, 3.1.1.1: magic number, descriptor, window, dictionary, size.
    if header[:4] != b"\x28\xb5\x2f\xfd" or len(header) < 6:
        return -1
    descriptor = header[4]
    single, flag = descriptor >> 5 & 1, descriptor >> 6
    width = (single, 2, 4, 8)[flag]
    start = 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(header[start : start + width], "little") + (256 if flag == 1 else 0)
    return size if width and len(header) >= start + width else -1
