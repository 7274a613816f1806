PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests start hundreds of processes, each of which would compile what it imports again.
unexport PYTHONDONTWRITEBYTECODE
SOURCES := $(wildcard packages/*/pyproject.toml) pyproject.toml uv.lock packages/backend-wgpu/hatch_build.py $(wildcard packages/backend-wgpu/native/*)

.PHONY: setup demo web test test-all check check-style check-types check-documentation docs benchmark wheels release clean

setup: $(VENV)/.stamp-setup

$(VENV)/bin/uv:
	@echo "Creating the virtual environment"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet uv 2>/dev/null || $(BIN)/pip install uv

$(VENV)/.stamp-setup: $(VENV)/bin/uv $(SOURCES)
	@echo "Installing the workspace"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv sync --quiet --compile-bytecode --active --inexact --all-packages --group dev
	@bash scripts/ensure_vulkan.sh $(BIN)/python
	@$(BIN)/python packages/backend-wgpu/hatch_build.py || echo "The encoder is left out: what records encodes by itself"
	@touch $@

# PyTorch is the oracle of the tests and nothing else; pip finds the small CPU wheel.
$(VENV)/.stamp-torch: $(VENV)/.stamp-setup tests/ecosystem/small.txt
	@echo "Installing PyTorch for the tests"
	@$(BIN)/pip install --quiet torch==2.13.0 accelerate peft 2>/dev/null || $(BIN)/pip install torch==2.13.0 accelerate peft
	@$(BIN)/pip install --quiet --no-deps -r tests/ecosystem/small.txt
	@touch $@

demo: setup
	@$(BIN)/python examples/demo.py

web: setup
	@$(BIN)/webgpu-torch web serve $(if $(wildcard build/docs/index.html),--docs build/docs) \
	  $(if $(wildcard build/demo-model/config.json),--model build/demo-model)

# Each of two processes begins with half of the tests, in order, and takes from the other what is left: most files, with what they
# import and their fixtures, are in one of them only.
PROCESSES := -n 2 --dist worksteal

test: check $(VENV)/.stamp-torch
	@echo "Running the tests"
	@$(BIN)/python -m pytest -q $(PROCESSES) -m "not slow" --hypothesis-profile=repeatable tests

test-all: check $(VENV)/.stamp-torch
	@echo "Running all tests"
	@$(BIN)/python -m pytest -q $(PROCESSES) tests

# Two parts at a time: what takes longest begins first.
check: setup
	@echo "Checking style, types, layers, sizes and documentation"
	@$(MAKE) --no-print-directory -j 2 check-documentation check-types check-style

check-style:
	@$(BIN)/ruff check packages tests examples benchmarks scripts docs
	@$(BIN)/ruff format --check --quiet packages tests examples benchmarks scripts docs
	@$(BIN)/lint-imports
	@$(BIN)/python scripts/check_sizes.py
	@$(BIN)/python scripts/check_imports.py
	@$(BIN)/python scripts/check_ratchet.py
	@$(BIN)/python scripts/check_operations.py
	@$(BIN)/python scripts/check_generated.py

# What is checked makes much that is soon forgotten: collected less often, it takes about an eighth of the time less.
check-types:
	@NODE_OPTIONS=--max-semi-space-size=128 $(BIN)/pyright

# Reads all pages, runs what they show and resolves every name, and writes no page.
check-documentation: setup
	@$(BIN)/sphinx-build -q -W -n -j 2 -D smartquotes=0 -d build/read/doctrees -b dummy docs build/read

docs: setup
	@$(BIN)/sphinx-build -q -W -n -j 2 -d build/doctrees -b html docs build/docs

benchmark: setup
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

wheels: setup
	@$(BIN)/uv build --quiet --all-packages --wheel --out-dir dist
	@$(BIN)/python scripts/pack_wheels.py dist/*.whl

# Builds, checks and tries every distribution; uploads nothing.
release: setup
	@$(BIN)/python scripts/release.py

clean:
	rm -rf build dist $(VENV)/.stamp-*
