# One command for each habit; `make help` lists them.
#
# Every recipe goes through hack/run, which makes the locked Python environment where it is missing.
# Variables: PYTHON (the interpreter to build on), COPYRATOR_CACHE (where environments and the
# control plane's programs are kept; default $XDG_CACHE_HOME/copyrator or ~/.cache/copyrator),
# WORKERS (tests side by side: more than two cores, since they mostly wait), TESTS (what `make test`
# runs), KEEP=1 (the demo leaves all running), BENCH (scenarios and options of the benchmarks), NAME
# (of the cluster that cluster-up and cluster-down mean), COPYRATOR_KUBERNETES (1.29 or 1.36: run on
# that version instead of 1.34).

RUN := hack/run
WORKERS ?= 6
TESTS ?= tests --ignore tests/node
NAME ?= default
export PYTHON

.DEFAULT_GOAL := help
.PHONY: help check format test test-node test-long mutate image release audit bench demo cluster-up cluster-down docs picture diagrams generate clean lock

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

# A tenth of the processor time of the control planes would be collecting garbage.
test: export GOGC := 400
test: check ## Everything: check, then all tests, on a real control plane (built once, minutes).
	@$(RUN) python -m localcluster build
	@$(RUN) python -m localcluster build promql
	@$(RUN) pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

test-node: ## Image and chart on a real kubelet: needs root and Debian, skips elsewhere (in CI: fails).
	@$(RUN) pytest -p no:cacheprovider tests/node

test-long: ## All tests at full size, hours: more objects, more kills, more examples.
	@COPYRATOR_LONG=1 $(MAKE) test

image: ## Build the operator's image on Debian's packages; say its size and what is in it.
	@$(RUN) python -m images

mutate: ## Mutation tests of the pure packages; PACKAGE=api for one, AGAIN=--again for survivors.
	@$(RUN) python hack/mutate.py $(AGAIN) $(PACKAGE)

release: ## Wheel, image, chart, CRDs and checksums into dist/; RELEASE=--no-image without the image.
	@$(RUN) python hack/release.py $(RELEASE)

audit: ## Known vulnerabilities of what is locked; fails too where nobody can be asked.
	@$(RUN) python hack/audit.py

bench: ## Measure, beside a bare client; BENCH="fan-out --runs 3" chooses, BENCH=--list names.
	@$(RUN) python -m localcluster build
	@$(RUN) python -m bench $(BENCH)

demo: ## Both jobs on screen, on a real control plane; KEEP=1 leaves it running.
	@$(RUN) python -m demo

cluster-up: ## Start a local control plane and say how to use it.
	@$(RUN) python -m localcluster up --name $(NAME)

cluster-down: ## Stop it and remove its state.
	@$(RUN) python -m localcluster down --name $(NAME)

docs: ## Build the site into build/docs; a broken link or an unknown page fails it.
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --quiet --strict

picture: ## Record make demo and the commands anew, as the pictures in docs/images.
	@$(RUN) python -m demo --name picture --pictures docs/images

diagrams: ## Draw docs/images/*.dot anew; needs graphviz.
	@for file in docs/images/*.dot; do dot -Tsvg "$$file" -o "$${file%.dot}.svg" || exit; done

generate: ## Write anew what is made from the chart, the CRDs and the code.
	@$(RUN) python -m generate

clean: ## Remove what was generated in this clone; the user's cache stays.
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

lock: ## Write requirements*.lock and docs/dependencies.md anew, from pyproject.toml's ranges.
	@$(RUN) hack/lock
