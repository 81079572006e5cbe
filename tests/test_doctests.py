"""Examples in docstrings."""

import doctest
import importlib
import inspect
import pkgutil
import sys

import pytest

import drystone

MODULES = [
    module.name
    for module in pkgutil.walk_packages(drystone.__path__, "drystone.")
    if not module.name.endswith("__main__")
]


def public_names(module, prefix):
    """Yield the public classes and functions of a module and of its public modules, with their full names."""
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.ismodule(value):
            yield from public_names(value, f"{prefix}.{name}")
        elif inspect.isclass(value) or inspect.isfunction(value):
            yield f"{prefix}.{name}", value


@pytest.fixture
def figures_closed():
    """Close the pictures that examples draw."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.usefixtures("figures_closed")
def test_examples_in_docstrings_are_right(name):
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert failed == 0


def test_public_classes_and_functions_have_an_example():
    values = dict(public_names(drystone, "drystone"))
    assert len(values) > 100
    # A class inherits the docstring of its base only through `inspect`: `__doc__` is its own.
    assert [name for name, value in values.items() if ">>> " not in (value.__doc__ or "")] == []
