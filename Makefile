# Every target sets up what it needs: a virtual environment in .venv, made once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# setuptools warns of every editable installation, and pip shows it. Modules are compiled when they
# are imported, which most of what is installed never is; what each process imports is at once, for
# those that may write nothing.
INSTALL := PYTHONWARNINGS=ignore $(BIN)/python -m pip install -q --no-compile
# To tune takes the package alone, without what only tests and checks need.
TUNES := $(if $(wildcard $(VENV)/.installed),$(VENV)/.installed,$(VENV)/.tunes)
# PyCUDA compiles against the toolkit and loads the driver, so it is asked for only where both are.
HAS_CUDA := $(shell command -v nvcc >/dev/null 2>&1 && { ldconfig -p; ls /usr/lib/wsl/lib /usr/local/nvidia/lib64; } 2>/dev/null | grep -q libcuda.so.1 && echo yes)
comma := ,
EXTRAS := $(if $(HAS_CUDA),dev$(comma)cuda,dev)

# The tests start thousands of processes; none of them should compile our modules anew.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup tune quick test test-all cover check format golden fuzz docs docs-record package lowest \
  bench clean
# The folders whose tests take seconds: what is computed, how it is scheduled, printed, and chosen.
LAYERS := tests/test_layers.py
QUICK := $(LAYERS) tests/test_facade.py tests/golden/test_golden.py \
  $(addprefix tests/,ir te topi lowering/test_structure.py codegen kernel target task features \
  cost_model utils)
# Each process takes the tests of whole folders, and what their modules share is made once.
DIST := --dist worksteal
# Two more than this process has cores, as a good part of the tests waits: for other processes, for
# browsers, for what must not happen.
WORKERS ?= $(shell cores=$$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN); echo $$((cores + 2)))

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): setup.py pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) -e '.[$(EXTRAS)]'
	@$(BIN)/python -c 'import autotune'
	@touch $@

$(VENV)/.tunes: setup.py pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) -e '.$(if $(HAS_CUDA),[cuda])'
	@$(BIN)/python -c 'import autotune'
	@touch $@

setup: $(STAMP)  ## make the virtual environment

tune: $(TUNES)  ## tune a real convolution, replay and verify it (CUDA if there is a device)
	$(BIN)/autotune demo

quick: $(STAMP)  ## run the quick tests: under a minute on two cores
	$(BIN)/python -m pytest -n 2 $(DIST) $(QUICK)

test: $(STAMP)  ## run the tests that need no device
	$(BIN)/python -m pytest -n $(WORKERS) $(DIST)

test-all: $(STAMP)  ## the same, with all cases of the tests that have many
	$(BIN)/python -m pytest -n $(WORKERS) $(DIST) --all-cases

cover: $(STAMP)  ## the same, and how much of the code they run, into coverage.txt
	$(BIN)/python -m pytest -n $(WORKERS) $(DIST) --cov=autotune --cov-report=term:skip-covered >coverage.txt \
	  || { cat coverage.txt; exit 1; }
	@tail -n 1 coverage.txt; grep '^TOTAL' coverage.txt

check: $(STAMP)  ## lint, types, and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/test_layers.py

format: $(STAMP)  ## format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

golden: $(STAMP)  ## write the golden files anew; read the diff before committing
	$(BIN)/python -m pytest tests/golden --update-golden --all-cases

fuzz: $(STAMP)  ## 6,000 random schedules, 4,000 programs, 2,300 states, 1,600 calls, 260 networks, C and emulated CUDA, against numpy and torch
	$(BIN)/python -m pytest tests/fuzz --schedules 2000 --cases 2000 --products 300 --calls 400 --networks 40

docs: $(STAMP)  ## build the book into docs/_build/html; a warning, or a link to nowhere, is an error
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

docs-record: $(STAMP)  ## run the pages of the book, and write what was printed into them
	$(BIN)/python docs/record.py

package: $(STAMP)  ## build wheel and sdist, install each into an empty environment, tune from there
	PYTHON=$(CURDIR)/$(BIN)/python .ci/try_packages

lowest: $(STAMP)  ## a few cases of quick tests, with the lowest versions that setup.py promises
	PYTHON=$(CURDIR)/$(BIN)/python .ci/try_lowest

bench: $(STAMP)  ## the benchmarks that need no device, into benchmarks/results
	$(BIN)/python -m benchmarks

clean:  ## remove what make made
	rm -rf $(VENV) build dist docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
