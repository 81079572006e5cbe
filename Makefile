# Two commands do everything: `make demo` and `make test`. Both build .venv first if it is missing or stale.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
INTEGRATIONS := .venv-integrations

.PHONY: demo test lint types unit slow test-integrations clean

demo: $(READY)
	$(BIN)/drystone demo runs/demo

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2

slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m slow

# BayesFlow, lampe and an older ArviZ, in an environment of their own.
test-integrations: $(INTEGRATIONS)/.ready
	OMP_NUM_THREADS=1 KERAS_BACKEND=torch $(INTEGRATIONS)/bin/pytest tests/integrations

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
	rm -rf .venv $(INTEGRATIONS)
