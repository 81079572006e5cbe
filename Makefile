# Two commands do everything: `make demo` and `make test`. Both build .venv first if it is missing or stale.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test lint types unit slow clean

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

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Drystone needs Python 3.11 or newer; set PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv
