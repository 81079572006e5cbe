"""A setting has one default, whether it is spelled in Python, in config.toml or on the command line."""

import inspect
from dataclasses import fields

import click
import pytest

import drystone as ds
from drystone._defaults import FAMILY, LR_DROPS, PATIENCE_WITH_DROPS
from drystone.cli.main import cli
from drystone.runs.config import Fit, Simulate, Tabulate, Train

SECTIONS = {"simulate": (ds.simulate, Simulate), "train": (ds.train, Train), "tabulate": (ds.tabulate, Tabulate)}
SHARED = [
    (function, section, field.name)
    for function, section in [*SECTIONS.values(), (ds.stack, Fit)]
    for field in fields(section)
    # Words on the command line, objects in Python.
    if field.name in inspect.signature(function).parameters and field.name not in ("form", "score", "sweep")
]


def default(section, name):
    return {field.name: field.default for field in fields(section)}[name]


@pytest.mark.parametrize(("function", "section", "name"), SHARED)
def test_a_function_and_its_section_have_the_same_default(function, section, name):
    in_python = inspect.signature(function).parameters[name].default
    # Likelihoods have other defaults; a section is of one kind and names its own.
    of_posteriors = {"family": FAMILY, "patience": PATIENCE_WITH_DROPS, "lr_drops": LR_DROPS}
    assert of_posteriors.get(name, in_python) == default(section, name)


def test_settings_are_shared():
    names = [(section, name) for _, section, name in SHARED]
    for shared in [(Train, "members"), (Train, "family"), (Tabulate, "draws"), (Fit, "nonfinite")]:
        assert shared in names


def test_words_stand_for_the_defaults_of_python():
    from drystone.cli import objectives

    parameters = inspect.signature(ds.stack).parameters
    assert objectives.form(Fit().form) == parameters["form"].default
    assert objectives.score(Fit().score) == parameters["score"].default


@pytest.mark.parametrize("command", ["simulate", "train", "tabulate", "stack"])
def test_help_shows_the_defaults_of_config_toml(command):
    section = SECTIONS.get(command, (None, Fit))[1]
    imported = cli.get_command(click.Context(cli), command)
    helps = {option.name: option.help for option in imported.params if isinstance(option, click.Option)}
    common = helps.keys() & {field.name for field in fields(section)}
    assert len(common) >= 2
    for name in common - {"task"}:
        assert f"  [{default(section, name)}]".lower() in helps[name]
