# hubbub: `make demo` shows it, `make test` proves it. Both set up everything they need.

PYTHON ?= python3
BIN := .venv/bin
.DEFAULT_GOAL := help
.SUFFIXES:

# What each suite may take on two cores, in seconds; what is longer is marked `long` and belongs to test-all.
# Lint and set-up together: 240.
BUDGET_unit := 300
BUDGET_integration := 420
BUDGET_faults := 240
BUDGET_browser := 120
BUDGET_deploy := 120
SUITES := $(notdir $(patsubst %/,%,$(wildcard $(addsuffix /,$(addprefix tests/,unit integration faults browser deploy)))))

.PHONY: help setup lint test test-all faults bench demo format clean $(addprefix test-,$(SUITES))

help: ## say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One virtual environment; each target adds the extras it needs, again whenever pyproject.toml changes.
.venv/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "hubbub needs Python 3.11 or newer; say PYTHON=/path/to/python3.11"; exit 2; }
	@echo "setting up .venv"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

.venv/.%: pyproject.toml | .venv/.made
	@echo "installing hubbub[$*] into .venv (a minute or less)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

setup: .venv/.test .venv/.lint ## set up .venv with all that development needs

lint: .venv/.lint ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.lint ## let the formatter and the safe fixes work
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

test: $(addprefix test-,$(SUITES)) ## run the tests, each suite within its budget

$(addprefix test-,$(SUITES)): test-%: .venv/.test
	timeout --signal=INT $(BUDGET_$*) $(BIN)/pytest -n auto --dist loadgroup -m 'not long' tests/$*

# Apache Kafka's jars, and the browser. Where one cannot be had, the tests that need it skip and say why.
test-integration test-faults test-browser: build/.kafka
test-browser: build/.chromium

build/.kafka: deploy/kafka/pom.xml .venv/.test
	@mkdir -p build
	@echo "fetching Apache Kafka with Maven (a minute or less)"
	@$(BIN)/python -m tests.brokers && touch $@ || test "$$CI" != true

build/.chromium:
	@mkdir -p build
	@command -v chromium >/dev/null || { echo "installing chromium"; apt-get update -q >/dev/null && apt-get install -y -q --no-install-recommends chromium >/dev/null; } || test "$$CI" != true
	@touch $@

test-all: .venv/.test build/.kafka build/.chromium ## run the tests, the long ones too
	$(BIN)/pytest -n auto --dist loadgroup tests

N ?= 100
faults: .venv/.test build/.kafka ## a long campaign of faults: make faults N=1000
	$(BIN)/python tests/faults/campaign.py $(N)

bench: .venv/.bench build/.kafka ## print the published figures
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/methods.py
	$(BIN)/python benchmarks/calibrate.py
	$(BIN)/python benchmarks/records.py
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/simulate.py
	$(BIN)/python benchmarks/end_to_end.py

demo: .venv/.all ## show it
	$(BIN)/hubbub demo

clean: ## remove what was made here
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
