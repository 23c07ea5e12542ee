# Daybreak from nothing: `make up`. Everything that is made lies in .daybreak/ and goes with `make down`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

STATE := .daybreak
VENV := $(STATE)/venv
PYTHON := $(VENV)/bin/python
# Not `export`ed wholesale: an own KUBECONFIG is meant for `up`, and tests must never meet it by accident.
RUN := PYTHONPATH=operator/src:e2e:. $(PYTHON)
# What tests and the programs that they start import is compiled once, also where the environment forbids it.
PYTEST := PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/$(STATE)/pycache $(PYTHON) -m pytest
# Of each test the lines that it runs, so that `make check` repeats only what a change affects.
AFFECTED := TESTMON_DATAFILE=$(CURDIR)/$(STATE)/testmon $(PYTEST) --testmon
# Silent, or one line that says what a machine without network lacks.
DOWNLOAD := $(PYTHON) cluster/tools/download.py

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

up: $(VENV)/.made ## A cluster (or KUBECONFIG=yours), KubeRay, Daybreak and a sample model; ends with a chat answer
	@$(RUN) -m quickstart up

down: ## Remove all of it: processes, network devices, mounts, files
	@if [ -x $(PYTHON) ] && [ -e $(VENV)/.made -o -d $(STATE)/cluster ]; then $(RUN) -m quickstart down; fi
	@# The hook's programs go with the environment.
	@if [ -z "$${CI-}" ] && [ -x $(VENV)/bin/pre-commit ] && [ -e .git ] && [ -z "$$(git config core.hooksPath)" ]; then \
	  $(VENV)/bin/pre-commit uninstall >/dev/null; fi
	@if [ ! -d $(STATE)/cluster ]; then rm -rf $(STATE); fi

setup: $(VENV)/.made ## The Python environment, and hooks that check each commit
	@if [ -z "$${CI-}" ] && [ -e .git ] && [ -z "$$(git config core.hooksPath)" ]; then \
	  $(VENV)/bin/pre-commit install --allow-missing-config >/dev/null; fi

check: lint ## Lint, and the unit, golden and property tests that your change affects (the first run runs all of them)
	@$(AFFECTED) tests/unit tests/golden tests/property

status: $(VENV)/.made ## What is running
	@$(RUN) -m cluster status

# Four at a time, for two cores: much of it waits for API servers and gateways.
test: $(VENV)/.made ## Every test that needs no running model: unit, golden, property, API, chart
	@$(RUN) -m cluster build --for tests
	@$(PYTEST) -n 4 --dist loadgroup --durations 10 -m 'not long' tests

test-long: $(VENV)/.made ## The same with all examples of property tests, and tests that take minutes of a core
	@$(RUN) -m cluster build --for tests
	@DAYBREAK_LONG_TESTS=1 $(PYTEST) -n 3 --dist loadgroup --timeout 1800 --durations 10 tests

cluster: $(VENV)/.made
	@$(RUN) -m cluster up --images

e2e: cluster ## End to end on the embedded cluster: real Kubernetes, KubeRay, Ray and vLLM
	@$(PYTEST) -x --timeout 1200 --durations 10 -m 'not long' e2e/story

e2e-long: cluster ## The same with what takes long and shows little more
	@$(PYTEST) --timeout 1200 --durations 10 e2e/story

lint: $(VENV)/.made ## Style, types, layers and generated files
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy operator/src cluster e2e tests bench scripts
	@PYTHONPATH=operator/src $(VENV)/bin/lint-imports
	@$(PYTHON) -m scripts.prose.check
	@$(MAKE) generated

generated: $(VENV)/.made
	@$(RUN) -m cluster build --for chart
	@$(RUN) scripts/generate.py --check

generate: $(VENV)/.made ## Remake CRDs, schema, API docs and the kustomize base from their sources
	@$(RUN) -m cluster build --for chart
	@$(RUN) scripts/generate.py

bench: $(VENV)/.made ## Measure; results in bench/results/*.json and docs/benchmarks.md (two hours; starts the cluster as `up` does)
	@$(RUN) -m cluster build --for tests
	@$(RUN) -m bench --without-cluster
	@$(RUN) -m quickstart up
	@$(RUN) -m bench --with-cluster
	@$(RUN) scripts/generate.py

# In the image it is /opt/ray/bin/python; elsewhere the Python with the packages of images/ray's lock.
GPU_PYTHON ?= python3

gpu-check: ## On a machine with GPUs: does it serve, and as quick as `vllm serve`? GPU_PYTHON has images/ray's packages
	@PYTHONPATH=operator/src:e2e:.:$${PYTHONPATH-} $(GPU_PYTHON) -m bench.gpu $(GPU_CHECK)

lock: $(VENV)/.made ## Recompile every lock file from its .in file
	@for file in requirements/bootstrap requirements/dev requirements/loaders images/operator/requirements images/gateway/requirements; do \
	  $(VENV)/bin/uv pip compile -q --generate-hashes --no-emit-index-url --python-version 3.11 \
	    $$file.in -o $$file.txt; done
	@PATH="$(CURDIR)/$(VENV)/bin:$$PATH" $(PYTHON) scripts/lock_images.py

pin-bases: $(VENV)/.made ## Write the digests that the images' bases have now into the Dockerfiles (needs a network)
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
