# reach: what you can do here. `make` alone lists it.
# Needs Python 3.11 or newer, git and make; everything else goes into .venv. uv is used when it is on PATH, pip when it is not.

.DEFAULT_GOAL := help
.PHONY: help demo dev test check format coverage docs bench model mutants chaos lock clean
SHELL := /bin/sh

# The first Python that is new enough, unless you say PYTHON=...
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && { echo $$p; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ARGS ?=
# Workers of pytest-xdist. Many tests wait for real time, and bear the load of one other beside them; that of three they do not.
JOBS ?= 2

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo '  Options of a command go into ARGS: make test ARGS="-k route -x"'

$(STAMP): pyproject.toml uv.lock
	@test -n "$(PYTHON)" || { echo "reach needs Python 3.11 or newer on PATH (or say make PYTHON=/path/to/python)"; exit 1; }
	@rm -f $@
	@if command -v uv >/dev/null 2>&1; then \
		echo "Installing into $(VENV) with uv, as uv.lock says"; \
		UV_PROJECT_ENVIRONMENT=$(VENV) uv sync --frozen --quiet --python "$(PYTHON)" --all-extras --group dev; \
	else \
		echo "Installing into $(VENV) with pip (once; about a minute)"; \
		{ test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV); } && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' && \
		$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[server,otlp,metrics]' --group dev; \
	fi
	@touch $@

demo: $(STAMP)  ## the help desk on real processes; ARGS='--ask "what does functools.lru_cache do?"'
	$(BIN)/python -m reach.cli demo $(ARGS)

dev: $(STAMP)  ## a private server and a worker, one command
	$(BIN)/python -m reach.cli dev $(ARGS)

test: $(STAMP)  ## the whole suite, on every server that is found (REACH_TEST_SERVERS=redis,valkey chooses)
	$(BIN)/python -m pytest -n $(JOBS) --dist load --maxschedchunk=1 $(ARGS)

check: $(STAMP)  ## format, lint, types, layers, spelling, dependencies, rules of the house
	@failed=''; \
	run() { echo "\$$ $$*"; $(BIN)/"$$@" || failed="$$failed; $$*"; }; \
	run ruff format --check .; \
	run ruff check .; \
	run mypy; \
	run lint-imports --no-logo --no-cache; \
	run codespell; \
	run deptry .; \
	run python -m pytest -q tests/rules; \
	test -z "$$failed" || { echo "make check failed at: $${failed#; }"; exit 1; }

format: $(STAMP)  ## put the code into the form that check wants
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

coverage: $(STAMP)  ## the suite with branch coverage: pure packages 100 %, the whole 95 %
	rm -f .coverage .coverage.*
	$(BIN)/python -m pytest --cov --cov-report= $(ARGS)
	$(BIN)/coverage report --fail-under=95
	$(BIN)/coverage report --fail-under=100 --include='reach/envelope/*,reach/routing/*,reach/delivery/states.py,reach/delivery/retry.py,reach/delivery/deadlines.py'

docs: $(STAMP)  ## write the reference pages that are made from tables (keys, codes)
	$(BIN)/python -m tests.rules.reference

bench: $(STAMP)  ## measure; prints the figures and the command that made them
	$(BIN)/python -m tests.benchmarks $(ARGS)

model: $(STAMP)  ## explore every state of the ledger; ARGS='--sec 300' goes deeper, ARGS='--minus hand' leaves a guard out
	$(BIN)/python -m tests.model $(ARGS)

mutants: $(STAMP)  ## remove each guard in turn: the named test must catch it; ARGS='hand' only those, ARGS=--list the table
	$(BIN)/python -m tests.mutants $(ARGS)

chaos: $(STAMP)  ## the long run under kills and restarts
	$(BIN)/python -m pytest -m long --timeout=1800 -s $(ARGS) tests

lock:  ## write uv.lock anew (needs uv)
	uv lock

clean:  ## remove everything that was made here
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache .coverage .coverage.* htmlcov .reach
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
