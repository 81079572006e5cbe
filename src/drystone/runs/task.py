"""What a configuration says of the task: the task, its prior, bounds and names of the parameters."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import drystone as ds
from drystone.forms.points import PointForm
from drystone.runs.config import Config

if TYPE_CHECKING:
    from drystone import Simulations, Stacking, Task

__all__ = ["bounds_of", "load_simulator", "load_task", "parameters_of", "prior_is_data", "prior_of", "with_prior"]


def load_task(config: Config, trust: bool = False) -> Task:
    """Return the task of the configuration: a built-in one by name, or ``module:object``.

    Args:
        config: The configuration.
        trust: Whether code may be imported: the user has typed the task's name, or says that it is trusted.
    """
    name = config.simulate.task
    if ":" not in name:
        if not name:
            raise ValueError(
                f"no task: give one with --task, either module:object or one of {', '.join(ds.tasks.names())}."
            )
        return ds.tasks.get(name)
    if not trust:
        raise ValueError(
            f"the task {name!r} of config.toml is code, which is not run unless you say so: add --trust if you "
            "trust this directory."
        )
    imported = _imported("task", name)
    instance = imported() if isinstance(imported, type) else imported
    if not isinstance(instance, ds.Task):
        raise TypeError(f"{name!r} must be a drystone.Task or a subclass; got {imported!r}.")
    return instance


def load_simulator(name: str) -> Any:
    """Return the simulator ``module:function``, or a task, whose name the user has typed."""
    if ":" not in name:
        return ds.tasks.get(name)
    imported = _imported("simulator", name)
    simulator = imported() if isinstance(imported, type) else imported
    if not (isinstance(simulator, ds.Task) or callable(simulator)):
        raise TypeError(f"{name!r} must be a function (theta, rng) -> y, or a drystone.Task; got {imported!r}.")
    return simulator


def _imported(what: str, name: str) -> Any:
    """Return the object ``module:attribute``."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:  # `python -m` has the working directory there, the `drystone` command has not
        sys.path.append(os.getcwd())
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the {what} {name!r} cannot be imported: {error}.") from error


def prior_of(config: Config, trust: bool) -> object:
    """Return p(θ): the task's, or the uniform distribution between the bounds of the configuration."""
    if config.simulate.task:
        return load_task(config, trust).prior
    lower, upper = config.train.lower, config.train.upper
    if not (lower and upper and np.isfinite((lower, upper)).all()):
        raise ValueError(
            "likelihoods and products need the prior: simulate from a task, or give the finite bounds of a "
            "uniform prior as `lower` and `upper` of [train] in config.toml."
        )
    return lower, upper


def prior_is_data(config: Config) -> bool:
    """Return whether the prior is known without running code: of a built-in task, or as bounds."""
    task = config.simulate.task
    return ":" not in task if task else bool(config.train.lower and config.train.upper)


def with_prior(fit: Stacking, config: Config, trust: bool = False) -> Stacking:
    """Return the fit with the prior of the run, if its form needs one at new data and has none."""
    form = fit.form
    if not isinstance(form, PointForm) or form.prior is not None or not form.needs_prior:
        return fit
    return replace(fit, form=replace(form, prior=prior_of(config, trust)))


def bounds_of(config: Config, simulations: Simulations, trust: bool) -> object:
    """Return the bounds of the parameters: of the configuration, the simulations, the task's prior, or None.

    The simulations of version 0.1 have none; nor have those that were made elsewhere, without a task.
    """
    lower, upper = config.train.lower, config.train.upper
    if lower or upper:
        return lower, upper
    if simulations.support is not None:
        return simulations.support
    return load_task(config, trust).prior if config.simulate.task else None


def parameters_of(config: Config, simulations: Simulations, trust: bool) -> Sequence[str] | None:
    """Return the names of the parameters: of the simulations, the task, or None."""
    if simulations.parameters:
        return simulations.parameters
    return load_task(config, trust).parameters if config.simulate.task else None
