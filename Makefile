# One command for each habit; `make help` lists them.
#
# Every recipe goes through hack/run, which makes the locked Python environment where it is missing.
# Variables: PYTHON (the interpreter to build on), COPYRATOR_CACHE (where environments and the
# control plane's programs are kept; default $XDG_CACHE_HOME/copyrator or ~/.cache/copyrator),
# WORKERS (tests side by side, for tests/e2e, tests/component and tests/unit: more than two cores,
# since they mostly wait; each of the first has a control plane and takes about 1 GB of memory),
# TESTS (what `make test` runs), KEEP=1 (the demo leaves all running), CLUSTERS=2
# (the demo shows two clusters), DOWNLOAD=1
# (download the control plane's programs from dl.k8s.io, github.com and get.helm.sh, instead of
# compiling them), BENCH (scenarios and options of the benchmarks), NAME (of the cluster that
# cluster-up and cluster-down mean), BUSY (runs and seed of test-busy: --help), REGISTRY (HOST/PATH of a release's image and chart),
# KEY (of cosign, which signs it), VARIANT (of the image), RELEASE (more options of hack/release.py),
# COPYRATOR_KUBERNETES (1.29 or 1.36: run on that version instead of 1.34).

RUN := hack/run
WORKERS ?= 6,7,1
TESTS ?= tests --ignore tests/node --ignore tests/e2e/ui
NAME ?= default
export PYTHON
export COPYRATOR_DOWNLOAD ?= $(DOWNLOAD)

.DEFAULT_GOAL := help
.PHONY: help check format test test-node test-ui test-long test-busy coverage mutate signatures image release audit bench demo cluster-up cluster-down docs picture ui-pictures diagrams generate clean lock

help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' Makefile

# Types, which take one core half a minute the first time, beside the rest.
CHECKS := mypy & types=$$!; ruff check . && ruff format --check --quiet . && \
	lint-imports --no-logo && python -m places; failed=$$?; wait $$types || failed=1; wait; exit $$failed

check: ## Lint, formatting, types and layers, and the budgets' figures; takes seconds.
	@$(RUN) sh -c '$(CHECKS)'

format: ## Format the code and apply ruff's fixes.
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

# A tenth of the processor time of the control planes would be collecting garbage, and another one
# waking threads: with several control planes on each core, none gains by using two (GOMAXPROCS).
test: export GOGC := 400
# In a new clone each worker would compile the tests for itself: that is done beside the check.
test: ## Run check, then all tests but those of test-node and test-ui (first time: builds, minutes).
	@$(RUN) sh -c '[ -d tests/e2e/__pycache__ ] || pytest --collect-only -qq $(TESTS) >/dev/null & $(CHECKS)'
	@$(RUN) python -m localcluster build
	@$(RUN) python -m localcluster build promql referrers
	@GOMAXPROCS=1 $(RUN) pytest -n auto --parts $(WORKERS) --dist loadfile --no-loadscope-reorder $(TESTS)

test-node: ## Test image and chart on a real kubelet: requires root and Debian, else skips (in CI: fails).
	@$(RUN) pytest -p no:cacheprovider tests/node

test-ui: ## Test the local web page in Debian's Chromium, which root installs if it is missing.
	@$(RUN) python -m images.chromium
	@$(RUN) python -m localcluster build
	@$(RUN) pytest tests/e2e/ui

# The e2e tests of Bundles run once more for each further version of werf that the stand-in plays.
BUNDLES := tests/e2e/engine tests/e2e/bundles tests/e2e/approval_policy tests/e2e/standin tests/e2e/cli/plans

# A feature is taken out of the list (tests/without.py): what doesn't need it has to work.
WITHOUT = $(RUN) pytest -p tests.without -n 8 --dist loadfile --no-loadscope-reorder \
	tests/unit/bundles tests/component/bundles

test-busy: ## Run test in a new clone, and unit and component tests in random orders, on busy cores; log in build/busy.
	@$(RUN) python hack/busy.py $(BUSY)

# What fails in one run doesn't keep the others from running.
test-long: export COPYRATOR_LONG := 1
test-long: ## Run all tests at full size, hours: more objects, more kills, with werf 2.67 and 3.2, and without each feature.
	@failed=0; $(MAKE) test || failed=1; \
	for version in 2.67 3.2; do \
		COPYRATOR_WERF=$$version $(MAKE) test TESTS='$(BUNDLES)' || failed=1; \
	done; \
	for name in $$($(RUN) python -c 'from copyrator.bundles.features import FEATURES; print(*FEATURES)'); do \
		COPYRATOR_LONG= COPYRATOR_WITHOUT=$$name $(WITHOUT) || failed=1; \
	done; \
	COPYRATOR_LONG= $(MAKE) test-busy BUSY='--whole 5 --shuffled 5' || failed=1; exit $$failed

coverage: ## Run unit and component tests, print covered lines and branches by package; report in build/coverage.
	@$(RUN) python hack/covered.py

signatures: ## Record signatures by the real cosign and notation for the tests, in tests/signatures.
	@$(RUN) python -m signatures

image: ## Build the image from Debian's packages, print its contents; VARIANT=keyless or clouds for a variant.
	@$(RUN) python -m images $(if $(VARIANT),--variant=$(VARIANT))

mutate: ## Run mutation tests; PACKAGE=api for one package, ONLY='globs.*' of it, AGAIN=--again for survivors.
	@$(RUN) python hack/mutate.py $(AGAIN) $(if $(ONLY),--only "$(ONLY)") $(PACKAGE)

release: ## Write images, chart, wheel, CRDs and SBOMs to dist/, for REGISTRY; PUSH=1 signs by KEY and pushes.
	@$(RUN) python hack/release.py $(if $(REGISTRY),--registry $(REGISTRY)) \
		$(if $(filter-out 0,$(PUSH)),--push) $(if $(KEY),--key $(KEY)) $(RELEASE)

audit: ## List known vulnerabilities of the locked packages; fails too if no service responds.
	@$(RUN) python hack/audit.py

bench: ## Run benchmarks; BENCH="fan-out --runs 3" selects, BENCH=--list lists them.
	@$(RUN) true # the developers' environment, so that the next line makes no other one
	@$(RUN) python -m localcluster build
	@$(RUN) python -m bench $(BENCH)

demo: ## Demonstrate copies and Bundles on a real control plane; KEEP=1 leaves it running, CLUSTERS=2 shows two, DOWNLOAD=1 compiles less.
	@$(RUN) python -m demo

cluster-up: ## Start a local control plane and print how to use it; DOWNLOAD=1 as above.
	@$(RUN) python -m localcluster up --name $(NAME)

cluster-down: ## Stop it and remove its state.
	@$(RUN) python -m localcluster down --name $(NAME)

docs: ## Build the site into build/docs; fails on broken links and unknown pages.
	@NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build --quiet --strict

picture: ## Record what commands show on the demo's cluster again, as the pictures in docs/images.
	@$(RUN) python -m demo --name picture --pictures docs/images

ui-pictures: ## Draw the pictures of the local page, and of messages, in docs/images again, in Chromium as for test-ui.
	@$(RUN) python -m images.chromium
	@$(RUN) python -m localcluster build
	@COPYRATOR_PICTURES=1 $(RUN) pytest tests/e2e/ui/test_pictures.py tests/e2e/ui/test_message_picture.py -k the_docs

diagrams: ## Draw docs/images/*.dot again; requires graphviz.
	@for file in docs/images/*.dot; do dot -Tsvg "$$file" -o "$${file%.dot}.svg" || exit; done

generate: ## Regenerate the files that come from the chart, the CRDs and the code.
	@$(RUN) python -m generate

clean: ## Remove generated files of this clone; the user's cache is kept.
	@rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis dist build
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

lock: ## Regenerate requirements*.lock and docs/dependencies.md from pyproject.toml's ranges.
	@$(RUN) hack/lock
