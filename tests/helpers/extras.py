"""The libraries of each extra by the names they are imported by."""

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder

# Jinja2 is missing from `report`: PyTorch brings it, so that the core has it too.
MODULES = {
    "cli": ("click", "tomlkit"),
    "dask": ("distributed",),
    "diagnostics": ("sklearn",),
    "files": ("h5netcdf", "h5py", "numcodecs", "xarray", "zarr"),
    "plots": ("matplotlib",),
    "sbi": ("sbi",),
    "train": ("numba", "safetensors", "threadpoolctl"),
    "zuko": ("zuko",),
}
ALL = frozenset(module for modules in MODULES.values() for module in modules)


class WithoutExtras(PathFinder):
    """Finds every module but those of the extras, as if they were not installed."""

    @classmethod
    def find_spec(cls, fullname: str, path=None, target=None) -> ModuleSpec | None:
        if fullname.partition(".")[0] in ALL:
            return None
        return super().find_spec(fullname, path, target)


def hide() -> None:
    """Make this process find no library of an extra."""
    sys.meta_path[sys.meta_path.index(PathFinder)] = WithoutExtras
    importlib.invalidate_caches()
