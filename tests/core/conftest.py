"""Tests of the core alone: for an environment without extras, which `make test-core` builds.

The ordinary suite runs them too, in a process that finds no extra (tests/test_extras.py).
"""

from importlib.util import find_spec

from helpers import extras

collect_ignore = ["test_core.py"] if any(map(find_spec, extras.ALL)) else []
