# One entry for everything. Needs Python >= 3.11, git and make; uses uv when it is there.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BASE := $(VENV)/.base
# What runs needs less than what tests; what is there already will do.
RUNS := $(if $(wildcard $(STAMP)),$(STAMP),$(BASE))
LOG := $(VENV)/install.log
UV := $(shell command -v uv 2>/dev/null)
CODE := lifecycle runtime ci communication templates orchestrator tests bench docs examples release

.PHONY: help install demo test all lint type fmt bench agents test-agents test-setups crash fuzz soak growth night steady kill-workers soak-workers docs pictures lock dist clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP) ## set up .venv with the locked versions

define CHECK_PYTHON
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
  echo "loopwright needs Python >= 3.11; $$($(PYTHON) --version 2>&1) is older. Name another: make PYTHON=python3.12"; exit 2; }
endef

# Runs pip, and says each few seconds how far it is; on failure it shows what pip said.
define PIP
@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
@echo "Installing into $(VENV), once: $(1)"
@$(BIN)/python -m pip install --disable-pip-version-check $(2) > $(LOG) 2>&1 & pip=$$!; n=0; \
while kill -0 $$pip 2>/dev/null; do sleep 1; n=$$((n + 1)); \
  test $$((n % 3)) -ne 0 || echo "  $$n s: $$(grep -c '^Collecting' $(LOG)) packages, $$(grep -o '^ *\(Collecting\|Downloading\|Preparing\|Installing\) [^ ]*' $(LOG) | tail -n 1)"; done; \
wait $$pip || { cat $(LOG); exit 1; }
endef

$(STAMP): pyproject.toml uv.lock requirements.lock
	$(CHECK_PYTHON)
ifneq ($(UV),)
	uv sync --frozen
else
	$(call PIP,what it needs and what tests need,-r requirements.lock)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
endif
	@touch $(STAMP) $(BASE)

$(BASE): pyproject.toml uv.lock requirements.lock
	$(CHECK_PYTHON)
ifneq ($(UV),)
	uv sync --frozen --no-default-groups
else
	$(call PIP,what it needs,--constraint requirements.lock --editable .)
endif
	@touch $(BASE)

demo: $(RUNS) ## watch a whole loop with a scripted agent (no key, no network)
	@$(BIN)/loopwright demo

test: $(STAMP) ## run the whole test suite
	$(BIN)/pytest

all: lint type test ## what CI runs: format check, lint, import rules, types, tests

lint: $(STAMP) ## format check, lint, import rules, the Dockerfile
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/hadolint Dockerfile

type: $(STAMP) ## mypy strict on source and tests; mypy and pyright on what users write
	$(BIN)/mypy
	LOOPWRIGHT_TEST_TYPES=1 $(BIN)/pytest -q tests/lifecycle/typed_use

fmt: $(STAMP) ## format, and fix what can be fixed automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP) ## measure against floors and peers, print the table (minutes)
	$(BIN)/python bench/run.py $(BENCH)

agents: $(STAMP) ## install the agent programs that tests drive (1.2 GB, cached)
	$(BIN)/python -m tests.tools.agents.installed

test-agents: agents ## drive the real agent programs against a scripted model server
	LOOPWRIGHT_TEST_AGENTS=1 $(BIN)/pytest tests/models/real

test-setups: $(STAMP) ## judge projects set up by the real package managers (cached, minutes)
	$(BIN)/python -m tests.setups.tools >/dev/null
	LOOPWRIGHT_TEST_SETUPS=1 $(BIN)/pytest tests/setups

crash: $(STAMP) ## kill engines and real runners at every place and ROUNDS=100 random moments
	LOOPWRIGHT_EVERY_CRASH=1 $(BIN)/pytest -q tests/lifecycle/engine
	LOOPWRIGHT_SOAK_ROUNDS=$(or $(ROUNDS),100) $(BIN)/python tests/acceptance/crash_soak.py

fuzz: $(STAMP) ## try 25 times as many examples in all property-based tests (long)
	LOOPWRIGHT_HYPOTHESIS=deep $(BIN)/pytest -q -m hypothesis --timeout 3600

growth: $(STAMP) ## the memory of a runner over LIFECYCLES=10000 that end (minutes)
	$(BIN)/python -m bench.growth --lifecycles $(or $(LIFECYCLES),10000)

soak: $(STAMP) ## 50 agents with faults for MINUTES=10, print what was wrong or left
	$(BIN)/python bench/soak.py --minutes $(or $(MINUTES),10)

night: $(STAMP) ## play SEEDS=30 nights in fast motion, print the table
	LOOPWRIGHT_NIGHT_SEEDS=$(or $(SEEDS),30) $(BIN)/python -m tests.lifecycle.night.table

steady: $(STAMP) ## run the suite RUNS=10 times in random order, some beside a busy neighbour, until it fails; ARGS=--keep-going
	$(BIN)/python -m tests.tools.steady --runs $(or $(RUNS),10) $(ARGS)

kill-workers: $(STAMP) ## make workers, coordinator and server fail ROUNDS=20 times each, print the table; ARGS=--far: in two networks
	$(BIN)/python -m tests.orchestrator.engines.temporal.faults.kill_workers --rounds $(or $(ROUNDS),20) $(ARGS)

soak-workers: $(STAMP) ## 50 lifecycles on three workers with faults for MINUTES=60, print what was wrong or grew
	$(BIN)/python -m tests.orchestrator.engines.temporal.faults.soak --minutes $(or $(MINUTES),60)

docs: $(STAMP) ## write the generated parts of docs/ and the READMEs, build the site into dist/site
	$(BIN)/python docs/state_diagram.py
	$(BIN)/python docs/settings_table.py
	$(BIN)/python docs/reference_pages.py
	$(BIN)/python docs/agent_pages.py
	$(BIN)/python docs/outcome_table.py
	$(BIN)/python docs/room_tables.py
	$(BIN)/python docs/house_drawing.py
	$(BIN)/python docs/build_site.py

pictures: $(STAMP) ## take the pictures of the pages for docs/images (needs Chromium)
	$(BIN)/python -m tests.orchestrator.web.browser.pictures

lock: ## update the lock files to newer versions (needs uv)
	uv lock --upgrade
	uv export --quiet --frozen --all-groups --no-hashes --no-emit-project --no-annotate --no-header -o requirements.lock

dist: $(STAMP) ## build sdist and wheel into dist/, use each in empty environments (minutes); PYTHONS="3.12 3.13"
	$(BIN)/python -m deploy.release.packages $(foreach each,$(PYTHONS),--python $(each))

clean: ## remove what the targets made
	rm -rf $(VENV) dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .steady
