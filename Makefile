# Three commands need nothing but Python 3.11 or newer, make and git:
#
#   make demo    talk to the built-in demo agent
#   make web     see and steer it in a browser
#   make test    run the tests
#
# The environment is made once in .venv and made again when pyproject.toml changes.

VENV := .venv
RUN := $(VENV)/bin
PIP := $(RUN)/python -m pip install --quiet --disable-pip-version-check

# Set PYTHON to choose the interpreter; otherwise the newest that really runs is taken.
PYTHON ?=
CANDIDATES := $(or $(PYTHON),python3.14 python3.13 python3.12 python3.11 python3 python)

CODE := src tests scripts benchmarks docs/conf.py

.PHONY: help demo web test lint docs bench mutants soak-typing soak-kills soak-journal metrics peers clean

help:
	@sed -n '/^#   make/s/^#   //p' Makefile
	@echo 'make lint    check style and types'
	@echo 'make docs    build the documentation site in build/docs'
	@echo 'make bench   measure, beside the official SDKs'
	@echo 'make mutants check that the unit tests notice changes of the source'
	@echo 'make soak-typing  type at random moments into the client (RUNS, SEED)'
	@echo 'make soak-kills  kill servers and look at their journals (RUNS, KILLS, SEED)'
	@echo 'make soak-journal  kill processes that write a journal (RUNS, SEED)'
	@echo 'make metrics print figures about the shape of the code'
	@echo 'make clean   remove everything made here'

SPEED := 1
AGENT = $(RUN)/twofold agent --speed $(SPEED) --keep build/demo-sessions
ASK := The report says “-0 °C” when it is just below freezing. Please fix that and add a test.

# Without a terminal one turn is printed.
demo: $(VENV)/.cli
	@if [ -t 0 ] && [ -t 1 ]; then \
	  $(RUN)/twofold run --start '$(ASK)' -- $(AGENT); \
	else \
	  $(RUN)/twofold run --prompt '$(ASK)' --allow execute -- $(AGENT) </dev/null; \
	fi

web: $(VENV)/.serve
	@$(RUN)/twofold serve $(ARGS) -- $(AGENT)

test: $(VENV)/.dev
	$(RUN)/python -m pytest -n auto --dist loadfile $(ARGS)

lint: $(VENV)/.dev
	$(RUN)/ruff check $(CODE)
	$(RUN)/ruff format --check $(CODE)
	$(RUN)/mypy $(CODE)

# A warning is an error.
docs: $(VENV)/.dev
	$(RUN)/python -m sphinx --fail-on-warning --keep-going --quiet -d build/doctrees docs build/docs
	@echo 'open build/docs/index.html'

bench: peers
	$(RUN)/python -m benchmarks $(ARGS)

mutants: $(VENV)/.dev
	$(RUN)/python -m scripts.mutants $(ARGS)

RUNS := 1000
SEED := 0

# A violation is printed with its seed: RUNS=1 SEED=... repeats it.
soak-typing: $(VENV)/.dev
	$(RUN)/python -m tests.support.random_typing --runs $(RUNS) --seed $(SEED) $(ARGS)

# Servers are killed in the middle of their work, KILLS of them on each of RUNS journals.
KILLS := 10

soak-kills: $(VENV)/.dev
	$(RUN)/python -m tests.support.host_kills --runs $(RUNS) --kills $(KILLS) --seed $(SEED) $(ARGS)

soak-journal: $(VENV)/.dev
	$(RUN)/python -m tests.support.killed_writers --runs $(RUNS) --seed $(SEED) $(ARGS)

metrics: $(VENV)/.dev
	$(RUN)/python -m scripts.metrics $(ARGS)

# The official SDKs, installed in .peers; the tests install them by themselves.
peers: $(VENV)/.dev
	@$(RUN)/python -m tests.peers

clean:
	rm -rf $(VENV) .peers .ci/venv-* .ci/cache-* .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A version manager may leave a command for a version that is not activated, and a distribution
# may ship Python without venv: so each is tried.
$(VENV)/.made:
	@for python in $(CANDIDATES); do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	      >/dev/null 2>&1; then \
	    echo "making $(VENV) with $$("$$python" --version)"; \
	    "$$python" -m venv --clear $(VENV) && touch $@; \
	    exit; \
	  fi; \
	done; \
	echo 'Twofold needs Python 3.11 or newer, with the modules venv and ensurepip.' >&2; \
	echo 'None of these is one: $(CANDIDATES)' >&2; \
	echo 'Name one yourself: make PYTHON=/path/to/python3.11 ...' >&2; \
	exit 1

$(VENV)/.cli: $(VENV)/.made pyproject.toml
	@echo 'installing twofold[cli]'
	@$(PIP) --editable '.[cli]'
	@touch $@

$(VENV)/.serve: $(VENV)/.made pyproject.toml
	@echo 'installing twofold[serve]'
	@$(PIP) --editable '.[serve]'
	@touch $@ $(VENV)/.cli

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	@echo 'installing twofold[dev]'
	@$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.cli $(VENV)/.serve
