"""The package's rooms: few, named after things, and with imports that point one way."""

import importlib
import inspect
import pkgutil
from graphlib import CycleError, TopologicalSorter

import pytest

import drystone as ds
from helpers.imports import PACKAGE, imports, modules

# Imports within functions that would close a circle, and what forces each.
OPTIONAL = {
    ("drystone.flows.flow", "drystone.flows.zuko"): "`Flow.to_zuko`, and zuko is optional",
    ("drystone.posterior", "drystone.adapters.to_sbi"): "`StackedPosterior.to_sbi`, and sbi is optional",
}


def entries():
    return sorted(path.stem for path in PACKAGE.iterdir() if path.name != "__pycache__")


def graph(without=()):
    """Return which modules of the package each one imports, but for the pairs in ``without``."""
    files = modules()
    edges = {(found.module, found.target) for found in imports() if found.target in files} - set(without)
    return {module: {b for a, b in edges if a == module and b != module} for module in files}


def test_the_package_has_few_rooms():
    names = {path.name for path in PACKAGE.iterdir()} - {"__pycache__"}
    assert len(names) <= 36


def test_no_import_closes_a_circle():
    order = list(TopologicalSorter(graph(without=OPTIONAL)).static_order())
    assert order.index("drystone._messages") < order.index("drystone.stacking.stack")


@pytest.mark.parametrize("pair", OPTIONAL)
def test_each_exception_is_needed(pair):
    with pytest.raises(CycleError):
        TopologicalSorter(graph(without=OPTIONAL.keys() - {pair})).prepare()


def test_only_what_stands_above_everything_imports_the_package_itself():
    assert {found.module.split(".")[1] for found in imports() if found.target == "drystone"} <= {"cli", "runs"}


def functions():
    return [name for name in ds.__all__ if inspect.isroutine(getattr(ds, name))]


def test_no_room_bears_the_name_of_a_public_function():
    # With lazy-loader before 0.6, importing a module `stack` would put it in the place of the function.
    assert {"stack", "compare", "train"} <= set(functions())
    assert set(entries()).isdisjoint(functions())


def test_public_functions_stay_functions_whatever_is_imported():
    for module in pkgutil.walk_packages(ds.__path__, "drystone."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    assert [name for name in functions() if inspect.ismodule(getattr(ds, name))] == []
    making = {"distill", "infer", "normalize", "refine", "simulate", "train"}
    assert making | {"advise", "compare", "stack", "tabulate", "tune"} == set(functions())
