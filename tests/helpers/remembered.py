"""Computations that are done once and then remembered, for tests that repeat them to spoil files at each event."""

import hashlib

import cloudpickle


def remember(monkeypatch, owner, *names):
    """Let functions of a module or a class remember their results by the content of their arguments."""
    for name in names:
        monkeypatch.setattr(owner, name, _remembering(getattr(owner, name)))


RESULTS = {}


def _remembering(function):
    def call(*arguments, **options):
        content = cloudpickle.dumps((arguments, sorted(options.items())))
        key = function.__module__, function.__qualname__, hashlib.sha256(content).hexdigest()
        if key not in RESULTS:
            RESULTS[key] = function(*arguments, **options)
        return RESULTS[key]

    return call
