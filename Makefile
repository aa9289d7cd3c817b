# Each target makes the virtual environment it needs: Python 3.11 or later, make and a package index are enough.

PYTHON ?= python3
PORT ?= 8000
DATA ?= data

DEV := .venv
RUN := .venv-run
DOCS := .venv-docs
PIP := -m pip install --quiet --disable-pip-version-check

.PHONY: help run cluster check test lint compiled docs soak wheel compile test-compiled bench clean

help:                   ## Print the targets.
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 15

run: $(RUN)/installed   ## Serve ./data on 127.0.0.1:8000.
	@$(RUN)/bin/foldb serve --db $(DATA) --port $(PORT)

cluster: $(RUN)/installed ## Three brokers of Kafka and two nodes, on 127.0.0.1:8001 and 8002.
	@$(RUN)/bin/python compose/cluster-local

# At most a minute with two idle cores and a warm cache of mypy. The tests of server/ and streams/ start servers.
UNIT := $(addprefix tests/unit/,contracts expressions log materializer model project)
check: lint             ## The checks, and the unit tests that start no server; at most a minute.
	$(DEV)/bin/pytest -q -n 2 --dist loadfile $(UNIT)

# Three workers on two cores: tests wait for servers and timers a quarter of their time. mypy uses one core.
test: $(DEV)/installed  ## Every check and every test.
	@$(MAKE) --no-print-directory -j 2 lint compiled
	$(DEV)/bin/pytest -n 3 --dist loadfile --no-loadscope-reorder

lint: $(DEV)/installed  ## The checks alone: style, format, types.
	$(DEV)/bin/ruff check
	$(DEV)/bin/ruff format --check
	$(DEV)/bin/mypy

# In a fresh clone each worker of pytest would otherwise compile all tests: 6 s of processor time.
compiled: $(DEV)/installed
	@$(DEV)/bin/pytest --collect-only -qq >/dev/null

docs: $(DOCS)/installed ## The documentation site, in build/site; a broken link is an error.
	$(DOCS)/bin/sphinx-build -q -W --keep-going -E -c docs . build/site

soak: compile           ## The long tests, with more steps and seeds, and every test on the compiled package.
	FOLDB_SOAK=1 $(DEV)/bin/pytest -m soak
	$(COMPILED) -n 3 --dist loadfile --no-loadscope-reorder
	FOLDB_SOAK=1 $(COMPILED) -m soak

wheel:                  ## The pure wheel and the compiled one, in dist; needs a C compiler.
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .
	FOLDB_COMPILE=1 $(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .

# The compiled package lies in a folder that comes first on the path; the checkout holds no built file.
compile: $(DEV)/installed
	rm -rf build/compiled && mkdir -p build/compiled
	FOLDB_COMPILE=1 $(DEV)/bin/python $(PIP) --no-deps --target build/compiled .

COMPILED := PYTHONPATH=$(CURDIR)/build/compiled FOLDB_TEST_BUILD=compiled $(DEV)/bin/pytest

test-compiled: compile  ## The tests of requests, the log, the fold and history on the compiled package.
	$(COMPILED) -n 3 --dist loadfile --no-loadscope-reorder $(UNIT) \
		tests/behaviour/spec tests/behaviour/cluster/test_wire.py tests/verification

bench: $(DEV)/installed ## Request rates on this machine.
	$(DEV)/bin/python -m benchmarks

clean:                  ## Remove what the other targets made; data stays.
	rm -rf $(DEV) $(RUN) $(DOCS) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(RUN)/installed: pyproject.toml
	@$(call make_environment,$(RUN))
	@$(RUN)/bin/python $(PIP) --editable '.[boto3]'
	@touch $@

# Sphinx and awscli, which the tests use, need different releases of docutils.
$(DOCS)/installed: pyproject.toml
	@$(call make_environment,$(DOCS))
	@$(DOCS)/bin/python $(PIP) --editable '.[docs]'
	@touch $@

$(DEV)/installed: pyproject.toml
	@$(call make_environment,$(DEV))
	@$(DEV)/bin/python $(PIP) --editable '.[dev]'
	@mkdir -p $(DEV)/src && ln -sfn ../.. $(DEV)/src/foldb && ln -sfn ../../tests $(DEV)/src/tests
	@touch $@

define make_environment
$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("foldb needs Python 3.11 or later: make PYTHON=python3.11 $(MAKECMDGOALS)")' && \
$(PYTHON) -m venv $(1)
endef
