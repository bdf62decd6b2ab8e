# The front door, for people and for continuous integration. `make` alone prints this list.
.DEFAULT_GOAL := help
.PHONY: help setup run check test coverage prove bench

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# Where this is set, as in many containers, every broker that a test starts compiles the package
# again, and every worker all tests.
unexport PYTHONDONTWRITEBYTECODE
# A worker for each processor, and one more: many of the tests wait for processes of their own.
BESIDE := -n $(shell expr $$(nproc) + 1) --dist worksteal

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS='	' read -r name text; do \
		printf '  make %-10s %s\n' "$$name" "$$text"; done

setup: ## make .venv with all that running and testing need
	@scripts/setup dev

run: ## start the broker with the example namespace; data stay in var/data
	@scripts/setup run
	@exec $(BIN)/bendybus serve --config examples/namespace.yaml --data var/data

check: setup ## formatting, lint, types and layers, in seconds
	$(BIN)/ruff format --check --quiet
	$(BIN)/ruff check --quiet
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

test: check ## everything that must hold before a change goes in; sets up what it needs
	@scripts/setup-tests
	$(PYTEST) $(BESIDE) --ignore tests/compat --ignore tests/spark --ignore tests/kill
# Fleets of brokers and servers, whose locks end in seconds: no more of them than there are processors.
	$(PYTEST) tests/kill -n $(shell nproc) --dist worksteal
# The official clients keep time, and every part of them is a crowd of its own: they come alone. The
# first test waits until the brokers of all are there.
	$(PYTEST) tests/compat --timeout=400
# Spark takes seconds to start, and waits much: two sessions for all of its tests. A call that
# a time-out breaks off would leave its answer to the next, so the bound is far away.
	$(PYTEST) tests/spark -n 2 --dist loadfile --timeout=400

coverage: setup ## the tests again, with the branches they leave out; model and amqp must be complete
	@scripts/setup-tests
	$(PYTEST) --quiet $(BESIDE) --ignore tests/compat --ignore tests/spark --cov --cov-report=
	$(PYTEST) --quiet tests/compat --timeout=400 --cov --cov-append --cov-report=
	$(PYTEST) --quiet tests/spark --timeout=400 --cov --cov-append --cov-report=
	$(BIN)/coverage report --include='src/bendybus/model/*,src/bendybus/amqp/*' --fail-under=100
	$(BIN)/coverage report --fail-under=95

prove: check ## the long proofs: kills, many examples, fuzzing; well over an hour
	@scripts/setup-tests prove
	$(PYTEST) $(BESIDE) -m prove --ignore tests/compat --ignore tests/spark --hypothesis-profile=prove --timeout=3600
	$(PYTEST) -m prove tests/compat --timeout=3600
	$(PYTEST) -m prove tests/spark --timeout=3600
	$(PYTEST) $(BESIDE) tests/unit tests/history --hypothesis-profile=prove --timeout=3600
	$(BIN)/python tests/fuzz/fuzz_engine.py

bench: ## the side-by-side benchmark
	@scripts/setup dev
	bench/run $(ARGS)
