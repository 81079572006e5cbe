"""Files: written whole or not at all, sealed, and opened without trust in what is in them. See SECURITY.md."""

from drystone._files.hdf5 import open_hdf5
from drystone._files.lock import in_use, locked, working_in
from drystone._files.npz import open_npz, read_npz, write_npz
from drystone._files.regular import (
    append_text,
    check_regular,
    open_regular,
    read_json,
    read_text,
    regular_files,
)
from drystone._files.seals import (
    ROOT,
    check,
    digest,
    read_sealed_json,
    seal_file,
    seal_store,
    sealed,
    store_sealed,
    without_seal,
    write_sealed_json,
)
from drystone._files.stores import check_size, open_store
from drystone._files.whole import disk_full, naming, put_in_place, recover, remove, replacing

__all__ = [
    "ROOT",
    "append_text",
    "check",
    "check_regular",
    "check_size",
    "digest",
    "disk_full",
    "in_use",
    "locked",
    "naming",
    "open_hdf5",
    "open_npz",
    "open_regular",
    "open_store",
    "put_in_place",
    "read_json",
    "read_npz",
    "read_sealed_json",
    "read_text",
    "recover",
    "regular_files",
    "remove",
    "replacing",
    "seal_file",
    "seal_store",
    "sealed",
    "store_sealed",
    "without_seal",
    "working_in",
    "write_npz",
    "write_sealed_json",
]
