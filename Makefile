# `make up` installs everything below .daybreak/, and `make down` removes it.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

STATE := .daybreak
VENV := $(STATE)/venv
PYTHON := $(VENV)/bin/python
# Without `export`: the user's KUBECONFIG is for `up` only, and tests must never use it by accident.
RUN := PYTHONPATH=operator/src:e2e:. $(PYTHON)
# Tests and the programs that they start share one bytecode cache, even if the environment forbids bytecode.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(STATE)/pycache $(PYTHON) -m pytest
# The lines that each test runs, so that `make check` repeats only the tests that a change affects.
AFFECTED := TESTMON_DATAFILE=$(CURDIR)/$(STATE)/testmon $(PYTEST) --testmon
# Prints nothing, or one line that names the download that failed.
DOWNLOAD := $(PYTHON) cluster/tools/download.py

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(VENV)/.made ## Start a cluster (or use KUBECONFIG), install KubeRay, Daybreak and a sample model, and chat
	@$(RUN) -m quickstart up

down: ## Remove everything that `up` made: processes, network devices, mounts, files
	@if [ -x $(PYTHON) ] && [ -e $(VENV)/.made -o -d $(STATE)/cluster ]; then $(RUN) -m quickstart down; fi
	@# The environment contains the programs of the hooks.
	@if [ -z "$${CI-}" ] && [ -x $(VENV)/bin/pre-commit ] && [ -e .git ] && [ -z "$$(git config core.hooksPath)" ]; then \
	  $(VENV)/bin/pre-commit uninstall >/dev/null; fi
	@if [ ! -d $(STATE)/cluster ]; then rm -rf $(STATE); fi

setup: $(VENV)/.made ## Create the Python environment, and install the pre-commit hooks
	@if [ -z "$${CI-}" ] && [ -e .git ] && [ -z "$$(git config core.hooksPath)" ]; then \
	  $(VENV)/bin/pre-commit install --allow-missing-config >/dev/null; fi

check: lint ## Lint, and run the unit, golden and property tests that your change affects (the first run: all)
	@$(AFFECTED) tests/unit tests/golden tests/property

status: $(VENV)/.made ## Show the running parts of the cluster
	@$(RUN) -m cluster status

# Four workers for two cores, because many tests wait for API servers and gateways.
test: $(VENV)/.made ## Run the tests that need no running model: unit, golden, property, API, gateway, chart
	@$(RUN) -m cluster build --for tests
	@$(PYTEST) -n 4 --dist loadgroup --durations 10 -m 'not long' tests

test-long: $(VENV)/.made ## Run these with all examples of property tests, and tests that take minutes of a core
	@$(RUN) -m cluster build --for tests
	@DAYBREAK_LONG_TESTS=1 $(PYTEST) -n 3 --dist loadgroup --timeout 1800 --durations 10 tests

cluster: $(VENV)/.made
	@$(RUN) -m cluster up --images
	@$(RUN) -m cluster.images load engines

e2e: cluster ## Run the end-to-end tests on the embedded cluster: Kubernetes, KubeRay, Ray and vLLM
	@$(PYTEST) -x --timeout 1200 --durations 10 -m 'not long' e2e/story

e2e-long: cluster ## Run these and the long end-to-end tests
	@$(PYTEST) --timeout 1200 --durations 10 e2e/story

lint: $(VENV)/.made ## Check style, types, layers, prose and generated files
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy operator/src cluster e2e tests bench scripts
	@PYTHONPATH=operator/src $(VENV)/bin/lint-imports
	@$(PYTHON) -m scripts.prose.check
	@$(MAKE) generated

generated: $(VENV)/.made
	@$(RUN) -m cluster build --for chart
	@$(RUN) scripts/generate.py --check

generate: $(VENV)/.made ## Generate CRDs, schemas, reference pages and the kustomize base from their sources
	@$(RUN) -m cluster build --for chart
	@$(RUN) scripts/generate.py

bench: $(VENV)/.made ## Run the benchmarks and write bench/results/*.json and docs/benchmarks.md (two hours; starts the cluster)
	@$(RUN) -m cluster build --for tests
	@$(RUN) -m bench --without-cluster
	@$(RUN) -m quickstart up
	@$(RUN) -m bench --with-cluster
	@$(RUN) scripts/generate.py

# /opt/ray/bin/python in the image, else a Python with the packages of images/ray's lock.
GPU_PYTHON ?= python3

gpu-check: ## Compare Daybreak with `vllm serve` on this machine's GPUs; GPU_PYTHON has the packages of images/ray
	@PYTHONPATH=operator/src:e2e:.:$${PYTHONPATH-} $(GPU_PYTHON) -m bench.gpu $(GPU_CHECK)

lock: $(VENV)/.made ## Recompile every lock file from its .in file
	@for file in requirements/bootstrap requirements/dev requirements/loaders requirements/triton images/operator/requirements images/gateway/requirements; do \
	  $(VENV)/bin/uv pip compile -q --generate-hashes --no-emit-index-url --python-version 3.11 \
	    $$file.in -o $$file.txt; done
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PYTHON) scripts/lock_images.py

pin-bases: $(VENV)/.made ## Write the current digests of the base images into the Dockerfiles (needs a network)
	@$(PYTHON) scripts/pin_bases.py

$(VENV)/.made: requirements/dev.txt requirements/bootstrap.txt
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "make: Python 3.11 or newer is needed as python3 (on Debian: apt-get install python3 python3-venv)"; exit 1; }
	@echo "Python environment in $(VENV) ..."
	@test -x $(PYTHON) || python3 -m venv $(VENV) || \
	  { echo "make: python3 cannot make virtual environments (on Debian: apt-get install python3-venv)"; exit 1; }
	@$(DOWNLOAD) 'Python packages (requirements/bootstrap.txt)' \
	  $(PYTHON) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/bootstrap.txt
	@$(DOWNLOAD) 'Python packages (requirements/dev.txt)' \
	  $(VENV)/bin/uv pip install -q --python $(PYTHON) --require-hashes -r requirements/dev.txt
	@touch $@

.PHONY: help setup check up down status test test-long cluster e2e e2e-long lint generated generate bench gpu-check lock pin-bases
