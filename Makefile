# Two commands do everything: `make demo` and `make test`. Both build .venv first if it is missing or stale.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
CORE := .venv-core
LOWEST := .venv-lowest
INTEGRATIONS := .venv-integrations

.PHONY: demo test lint types unit slow docs links dist test-core test-lowest test-integrations clean

demo: $(READY)
	$(BIN)/drystone demo runs/demo

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(READY)
	$(BIN)/pyright

unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m slow

# The site, with its notebooks executed: docs/_build/html/index.html. The tests build it without them.
docs: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build --quiet --fail-on-warning --keep-going docs docs/_build/html

# Addresses that the pages name; needs a network.
links: $(READY)
	DRYSTONE_NOTEBOOKS=off $(BIN)/sphinx-build --quiet -b linkcheck docs docs/_build/links

# Wheel and source distribution, checked as the registry would.
dist: $(READY)
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*

# The core without any extra, installed as users install it.
test-core: $(CORE)/.ready
	OMP_NUM_THREADS=1 $(CORE)/bin/pytest tests/core

# Every extra, each library in the lowest version that pyproject.toml allows; torch as pinned. Old libraries use what newer
# ones call deprecated.
test-lowest: $(LOWEST)/.ready
	OMP_NUM_THREADS=1 $(LOWEST)/bin/pytest -n 2 -W ignore::DeprecationWarning --ignore tests/integrations --ignore tests/adapters/test_to_arviz.py

# BayesFlow, lampe and an older ArviZ, in an environment of their own.
test-integrations: $(INTEGRATIONS)/.ready
	OMP_NUM_THREADS=1 KERAS_BACKEND=torch $(INTEGRATIONS)/bin/pytest tests/integrations

# Not editable: what is tested is the wheel, so it is built again when a source changes.
$(CORE)/.ready: pyproject.toml constraints.txt $(shell find src -type f -not -name '*.pyc' -not -name '*.nb*')
	$(PYTHON) -m venv $(CORE)
	$(CORE)/bin/pip install --quiet --constraint constraints.txt pytest hypothesis .
	touch $@

$(LOWEST)/.ready: pyproject.toml constraints.txt .ci/lowest.py
	$(PYTHON) -m venv $(LOWEST)
	$(PYTHON) .ci/lowest.py > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/pip install --quiet --constraint $(LOWEST)/constraints.txt pytest pytest-xdist hypothesis --editable '.[all]'
	touch $@

$(INTEGRATIONS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(INTEGRATIONS)/bin/pip install --quiet --constraint constraints.txt --editable '.[integrations]'
	touch $@

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Drystone needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv $(CORE) $(LOWEST) $(INTEGRATIONS)
