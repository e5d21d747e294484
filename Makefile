# Everything runs from .venv in this folder. `make` without a target lists the first of them. Any path
# and user will do.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
BIN := .venv/bin
ARGS ?=
# With MQPG_DATABASE_URL all tests share one server, and a transaction that one process leaves open
# is in the snapshots of the others. They then run in one process.
# Otherwise there are two more than processors, because a test waits a quarter of its time.
JOBS ?= $(if $(MQPG_DATABASE_URL),1,$(shell expr $$(nproc) + 2))
export PYTHON
# Tests start hundreds of Python processes, and each would compile mqpg again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help targets setup java containers demo test test-long test-cancel fuzz soak years test-mariadb test-rabbitmq test-node test-java test-pgbouncer test-patroni test-browser test-deploy test-containers test-kills test-chaos test-crashtest test-audit test-slow test-lab test-lowest test-postgres matrix size pgspot dist lint types format prove sql bench bench-rocketmq cost cost-check chaos failover pipeline pipeline-kills docs clean

# What `make` shows. `make targets` shows all.
FIRST := demo test setup docs clean

help:
	@$(MAKE) targets | grep -E "^($(subst $() $(),|,$(FIRST))) "
	@echo "make targets lists the others"

targets: ## List all targets
	@grep -hE '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 18

setup: ## Make or update .venv with everything in it
	@tools/venv.sh

java: ## Check for Java 17 or newer, or install the headless JRE where possible
	@tools/java.sh

demo: java ## Replay a month of real flights, kill every process meanwhile, audit (ARGS="--flights 2000")
	@tools/venv.sh lab
	@$(BIN)/python -m lab.demo $(ARGS)

test: setup java lint ## Lint and run all tests (ARGS="tests/sql -k append")
	@$(BIN)/python -m pytest -p randomly -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

test-lab: setup java ## Test the rigs of lab/: demo, chaos, benchmarks, long runs, the SPIN model
	@$(BIN)/python -m pytest -p randomly -n $(JOBS) --dist loadfile --no-loadscope-reorder lab/tests $(ARGS)

test-long: setup java ## Test random histories against the model for MINUTES (15); MQPG_TEST_SEED repeats a run
	@MQPG_STATEFUL_MINUTES=$${MINUTES:-15} MQPG_STATEFUL_STEPS=80 $(BIN)/python -m pytest tests/stateful -s -p no:randomly $(ARGS)

test-cancel: setup ## Cancel CALLS (100000) asynchronous calls at random moments; MQPG_TEST_SEED repeats a run
	@MQPG_TEST_CALLS=$${CALLS:-100000} $(BIN)/python -m pytest -p no:randomly tests/integration/test_cancellation.py $(ARGS)

fuzz: setup ## Make CALLS (100000) random calls of SQL functions; SEED repeats a run
	@$(BIN)/python -m lab.fuzz $(ARGS)

soak: setup java ## Run all modes for MINUTES (30) while processes and servers are killed, then drain and audit
	@$(BIN)/python -m lab.soak $(ARGS)

years: setup ## A year in an hour (MINUTES=60): nothing may grow
	@$(BIN)/python -m lab.years $(ARGS)

# A target with a marker names the folders that have tests with it, because to collect all takes a quarter of a minute.
test-mariadb: setup ## Test ledgers and offsets in MariaDB; installs its server where possible
	@tools/mariadb.sh
	@$(BIN)/python -m pytest -p randomly -n $(JOBS) --dist loadfile --no-loadscope-reorder -m mariadb $(or $(ARGS),tests/integration tests/protocols tests/workers)

test-rabbitmq: setup ## Test the inbox over RabbitMQ, which is killed meanwhile; gets its server where possible
	@tools/rabbitmq.sh
	@$(BIN)/python -m pytest -p randomly -m rabbitmq tests/rabbitmq $(ARGS)

test-pgbouncer: setup ## Test behind PgBouncer in transaction mode; installs it where possible
	@tools/pgbouncer.sh
	@$(BIN)/python -m pytest -p randomly -m pgbouncer tests/pooler $(ARGS)

test-patroni: setup ## Test failovers by Patroni, which takes minutes; installs it in .patroni
	@tools/patroni.sh
	@$(BIN)/python -m pytest -p randomly -s -m patroni tests/failover $(ARGS)

test-browser: setup ## Test the HTML pages in headless Chromium; installs it where possible
	@tools/chromium.sh
	@$(BIN)/python -m pytest -p randomly -m browser $(or $(ARGS),tests/audit tests/unit tests/web)

test-deploy: setup ## Test alert rules with promtool, systemd units with systemd-analyze; gets both where possible
	@tools/deploy.sh
	@$(BIN)/python -m pytest -p randomly -m deploy tests/metrics tests/packaging $(ARGS)

containers: ## Get a Docker engine, Compose and all images where possible (ARGS="docker compose …", ARGS=bash)
	@tools/containers.sh $(ARGS)

CONTAINER_TESTS := tests/sql/test_send.py tests/integration/test_requests.py tests/workers/test_called_by_sql.py

test-containers: setup ## Test docker-compose.yml in containers, and a few files on the servers of images
	@tools/containers.sh bash -euc '$(BIN)/python -m pytest -p randomly -m docker tests/packaging $(ARGS); \
		for version in 15 18; do MQPG_TEST_CONTAINERS=1 MQPG_TEST_IMAGE=postgres:$$version \
			$(BIN)/python -m pytest -p randomly -n $(JOBS) --dist loadfile $(CONTAINER_TESTS); done'

test-crashtest: setup ## Try mqpg crashtest at every crash point of the examples, which takes minutes
	@$(BIN)/python -m pytest -p randomly -m crashtest $(ARGS) tests/crashtest

test-audit: setup java ## Audit each planted fault and each legal history in Spark, too, which takes long
	@$(BIN)/python -m pip install --quiet deltalake 'pyiceberg[sql-sqlite]' polars duckdb plotly 'pyspark[connect]'
	@$(BIN)/python -m pytest -p randomly -n $(JOBS) --dist loadfile --no-loadscope-reorder -m audits $(or $(ARGS),tests/audit tests/examples tests/pipeline tests/stateful)

test-slow: setup java ## Test the wheel in a fresh environment, the longest pages of the documentation, and the longest audits
	@$(BIN)/python -m pytest -p randomly -n $(JOBS) --dist loadfile --no-loadscope-reorder -m slow $(or $(ARGS),tests/audit tests/examples tests/packaging)

test-lowest: setup ## Test the library with the lowest versions of its dependencies (PYTHON=…)
	@tools/lowest.sh .lowest
	@.lowest/bin/python -m pytest -p randomly -n $(JOBS) --dist loadfile --no-loadscope-reorder $(or $(ARGS),tests/integration tests/cli/test_admin.py)

pgspot: setup ## Read the schema with pgspot, and require a search_path of each public function
	@tools/pgspot.sh

dist: setup ## Build sdist and wheel twice from clean clones and compare them
	@$(BIN)/python tools/dist.py

# Servers of other versions, see tools/postgres.py; ARGS chooses the tests.
VERSION ?= 14
POSTGRES_TESTS := tests/sql tests/protocols tests/migration tests/workers tests/integration

test-postgres: setup ## Test on another major version of PostgreSQL (VERSION=14), from the distribution or npm
	@test -x /usr/lib/postgresql/$(VERSION)/bin/pg_dump || tools/node.sh
	@MQPG_POSTGRES_BIN=$$($(BIN)/python tools/postgres.py $(VERSION)) && export MQPG_POSTGRES_BIN && \
		$(BIN)/python -m pytest -p randomly -n $(JOBS) --dist loadfile --no-loadscope-reorder $(or $(ARGS),$(POSTGRES_TESTS))

matrix: setup ## Test on PostgreSQL 14 to 18, Python 3.11 to 3.14, the lowest dependencies: hours, before a release
	@tools/matrix.sh $(ARGS)

size: ## Count the lines and words of each part beside their budgets
	@$(PYTHON) tools/size.py $(ARGS)

test-node: setup ## Test the example in JavaScript; installs Node.js where possible
	@tools/node.sh
	@$(BIN)/python -m pytest -p randomly -m node $(or $(ARGS),tests/examples)

test-java: setup ## Test the example in Java; installs a JDK where possible
	@tools/jdk.sh
	@$(BIN)/python -m pytest -p randomly -m jdk $(or $(ARGS),tests/examples)

docs: setup ## Build the documentation site in .site/; a broken link or a page outside the menu fails
	@tools/mermaid.sh
	@echo "building the site takes up to a minute"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "open .site/index.html"

lint: setup ## Run ruff, mypy and sqlfluff, and check that generated files are up to date
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python tools/async_to_sync.py --check
	@$(MAKE) -j2 types .lint-sql

types:
	$(BIN)/python -m mypy

# Files that have not changed since sqlfluff passed them are left out, because it takes a minute for all.
.lint-sql: pyproject.toml $(shell find sql -name '*.sql')
	$(BIN)/python -m sqlfluff lint --processes 0 $(if $(filter pyproject.toml,$?),sql,$?)
	@touch $@

format: setup ## Format Python and rebuild generated files
	$(BIN)/python tools/async_to_sync.py
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

prove: ## Prove the model of half messages with SPIN, and that each broken rule is found
	@lab/proof/prove.sh $(ARGS)

sql: setup ## Print the script that installs the schema with psql
	@$(BIN)/mqpg migrate sql

bench: setup ## Measure mqpg beside pgmq, PgQ and a bare INSERT (VERSION=15; ARGS="--quick")
	@lab/bench/bench.sh $(if $(filter command environment,$(firstword $(origin VERSION))),$(VERSION),18) $(ARGS)

bench-rocketmq: setup ## Measure mqpg beside RocketMQ (needs Maven and a JDK; ARGS="--rounds 1")
	@$(BIN)/python -m lab.rocketmq $(ARGS)

cost: setup ## Count instructions a call of mqpg, pgmq, PgQ and bare SQL on PostgreSQL 15 and 18 (ARGS="--save")
	@tools/valgrind.sh
	@lab/bench/pgq.sh
	@MQPG_POSTGRES_BIN=$$($(BIN)/python tools/postgres.py 15) $(BIN)/python -m lab.cost $(ARGS)
	@$(BIN)/python -m lab.cost $(ARGS)

cost-check: setup ## Count the calls of mqpg on the embedded server; one that is over its budget fails
	@tools/valgrind.sh
	@$(BIN)/python -m lab.cost --check

chaos: setup java ## Kill ten nodes in rounds, compare all ids, audit (ARGS="--rounds 100"; default --short)
	@$(BIN)/python -m lab.chaos $(or $(ARGS),--short)

test-kills: setup java ## Run only the tests that kill processes and servers
	@$(BIN)/python -m pytest -p randomly -m "chaos and not mariadb and not rabbitmq and not node and not jdk and not pgbouncer and not patroni and not browser and not deploy and not docker and not crashtest and not audits and not slow and not rounds" $(ARGS)

test-chaos: setup ## Run chaos on broken builds, which must end invalid, and step clocks and fill a disk (20 minutes)
	@lab/chaos/faketime.sh
	@$(BIN)/python -m pytest -p no:randomly -s -m rounds lab/tests/chaos $(ARGS)

failover: setup ## Destroy the primary TRIALS (20) times and promote its standby; workers and clients follow
	@$(BIN)/python -m lab.failover $(ARGS)

pipeline: setup java ## Spark's source beside JDBC, or ARGS="copy": 10 million messages in and out, ARGS="lag": its delay
	@$(BIN)/python -m lab.pipeline $(or $(ARGS),rate)

pipeline-kills: setup java ## Kill driver, executors and broker of a stream on a Spark cluster KILLS (50) times; MQPG_TEST_SEED
	@MQPG_TEST_ROUNDS=$${KILLS:-50} $(BIN)/python -m pytest -p randomly -s -m audits -k whatever_is_killed tests/pipeline/test_cluster.py $(ARGS)

clean: ## Remove .venv and the files of tools; the data of `mqpg up` (.mqpg) stay
	@if [ -x $(BIN)/mqpg ] && [ -d .mqpg ]; then $(BIN)/mqpg down; fi
	rm -rf .venv .postgres .lowest .patroni .promtool .rabbitmq .bench .pgspot build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .lint-sql
	find . -name __pycache__ -not -path './.git/*' -prune -exec rm -rf {} +
