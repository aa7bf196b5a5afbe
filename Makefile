# One command for each habit; `make help` lists them.
#
# Every recipe goes through hack/run, which makes the locked Python environment where it is missing.
# Variables: PYTHON (the interpreter to build on), COPYRATOR_CACHE (where environments and the
# control plane's programs are kept; default $XDG_CACHE_HOME/copyrator or ~/.cache/copyrator),
# WORKERS (tests side by side), TESTS (what `make test` runs), KEEP=1 (the demo leaves all running),
# NAME (of the cluster that cluster-up and cluster-down mean).

RUN := hack/run
WORKERS ?= 2
TESTS ?= tests
NAME ?= default
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help check format test demo cluster-up cluster-down clean lock

help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

check: ## Lint, formatting, types and layers; takes seconds.
	@$(RUN) ruff check .
	@$(RUN) ruff format --check --quiet .
	@$(RUN) mypy
	@$(RUN) lint-imports --no-logo

format: ## Format the code and mend what ruff can mend.
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

test: check ## Everything: check, then all tests, on a real control plane (built once, minutes).
	@$(RUN) python -m localcluster build
	@$(RUN) pytest -n $(WORKERS) --dist loadfile $(TESTS)

demo: ## Both jobs on screen, on a real control plane; KEEP=1 leaves it running.
	@$(RUN) python -m demo

cluster-up: ## Start a local control plane and say how to use it.
	@$(RUN) python -m localcluster up --name $(NAME)

cluster-down: ## Stop it and remove its state.
	@$(RUN) python -m localcluster down --name $(NAME)

clean: ## Remove what was generated in this clone; the user's cache stays.
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

lock: ## Write requirements*.lock anew from the ranges in pyproject.toml.
	@$(RUN) hack/lock
