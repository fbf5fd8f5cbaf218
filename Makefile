# `make run` and `make test` are all a fresh clone needs; `make help` lists the rest.
SHELL := /bin/bash
# Tests start hundreds of processes: each module is compiled once, not by each of them.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
SEED ?= 1
STEPS ?= 400
# One more than the cores of a small machine: a third of the tests' time is waiting for clients, disks and clocks.
JOBS ?= 3
SAMPLE := .cache/pipeline-sample

# $(call timed,NAME) COMMAND: the name at once, the time at the end; in whole lines, so that make -j keeps them apart.
timed = echo "$(1) ..." >&2; $(call clocked,$(1))
clocked = TIMEFORMAT="$(1): %1R s"; time

.DEFAULT_GOAL := help
.PHONY: help run install test quick test-extended test-nightly stress check format lint types layers docker-check wheels release tests coverage pipeline sim replay fuzz attacks soak cluster-rounds cluster-soak moves crash scenarios-rewrite nightly oracle oracle-record kafka-tools-record frames-record config-record bench pipeline-scale clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 22

# Comes with a topic to play with, unless ARGS names its own: `groupd serve` by itself makes none. One that is in
# ./data may have grown meanwhile: it stays as it is.
PLAYGROUND = $(if $(findstring --data-dir,$(ARGS)),--topic orders:6,$(if $(wildcard data/orders-0),,--topic orders:6))
run: $(VENV)/.run ## groupd on 127.0.0.1:9092, with a topic orders unless ARGS="--topic payments:3" names others
	@exec $(BIN)/groupd serve $(if $(findstring --topic,$(ARGS)),,$(PLAYGROUND)) $(ARGS)

install: $(VENV)/.test ## everything the checks and tests need, in .venv

test: check ## the checks, then all fast tests and one of each slow kind
	@$(MAKE) --no-print-directory tests

quick: format lint ## before a commit, in a minute: tests of what changed since BASE, and a sample (BASE=main; SEED=7)
	@$(call clocked,$@) $(BIN)/python -m tests.quick --base $(or $(BASE),HEAD) $(if $(filter command line,$(origin SEED)),--seed $(SEED))

check: $(VENV)/.test format lint types layers docker-check ## format, lint, types, layers, docker files

format: $(VENV)/.test
	@$(call timed,$@) $(BIN)/ruff format --check --quiet . || { echo "run: $(BIN)/ruff format ."; exit 1; }

lint: $(VENV)/.test
	@$(call timed,$@) $(BIN)/ruff check --quiet .

types: $(VENV)/.test
	@$(call timed,$@) $(BIN)/mypy --no-error-summary

layers: $(VENV)/.test
	@$(call timed,$@) $(BIN)/lint-imports --no-cache > $(VENV)/layers.log 2>&1 || { cat $(VENV)/layers.log; exit 1; }

docker-check: $(VENV)/.test
	@$(call timed,$@) { $(BIN)/hadolint docker/Dockerfile docker/examples/Dockerfile docker/pipeline/Dockerfile && \
	  $(BIN)/docker-compose -f docker/docker-compose.yml --profile pipeline --profile metrics config -q && \
	  for file in docker/secured/*.yml docker/cluster/*.yml; do $(BIN)/docker-compose -f $$file config -q || exit 1; done && \
	  $(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker/docker-compose.yml docker/secured/*.yml docker/cluster/*.yml && \
	  $(BIN)/yamllint --strict docker/docker-compose.yml docker/secured docker/cluster docker/prometheus docker/grafana; }

# Python's development mode looks for what is left open, never awaited or called from a wrong thread. Its allocator,
# which looks for what C code overwrites, is left out: there is no C code here.
# $(call run_tests,TIER,MARKERS); without a tier, or with chosen tests, a run has no CPU-seconds to compare.
run_tests = echo "$@ ... ($(JOBS) processes import all tests first, about half a minute)"; \
  $(call clocked,$@) env PYTHONMALLOC=default $(if $(PYTEST_ARGS),,$(if $(1),GROUPD_TEST_TIER=$(1))) $(BIN)/python -X dev -m pytest \
  -p tests.run_report -m '$(2)' --durations 10 --durations-min 1 --dist loadgroup --no-loadscope-reorder \
  --tx '$(JOBS)*popen//python=$(abspath $(BIN))/python -X dev' $(PYTEST_ARGS)
tests: $(VENV)/.test ## the tests of `make test` alone, in JOBS processes (PYTEST_ARGS="-k join" picks some)
	@$(call run_tests,fast,not extended)

test-extended: $(VENV)/.test ## what CI runs after `make test`: all clients, Spark, frameworks, hostile sizes, crash and etcd rounds
	@$(call run_tests,extended,extended and not nightly)

test-nightly: $(VENV)/.test ## what `make test-extended` leaves out: the other members of its matrices of clients, logins, images
	@$(call run_tests,,nightly)

stress: $(VENV)/.test ## the fast tests on one processor, beside busy loops, with a clock that steps (ARGS="-m extended tests/http")
	@$(call clocked,$@) $(BIN)/python -m tests.stress $(or $(ARGS),-m 'not extended')

# Each part is a run of its own: one that is interrupted, or fails, leaves what the others have found.
UNMEASURED := readme ecosystem kafka_log interop soak tooling
MEASURED = $(filter-out $(UNMEASURED:%=tests/%/),$(dir $(wildcard tests/*/__init__.py)))
coverage: $(VENV)/.test ## what of the product no test executes (without Spark and real clients; PARTS="tests/storage" picks)
	@rm -rf .cache/coverage && mkdir -p .cache/coverage
	@export CRASH_ROUNDS=2 CRASH_LIVES=50 SERVERS=20; ended=0; for part in $(or $(PARTS),$(MEASURED)); do \
	  $(call clocked,$@ of $$part) $(BIN)/coverage run -m pytest -q -p no:randomly -o timeout=1200 -n $(JOBS) \
	  --dist loadgroup --hypothesis-profile brief -m 'not interop and not xdist_group(name="spark")' $(PYTEST_ARGS) \
	  $$part || { code=$$?; [ $$code -eq 5 ] || ended=$$code; }; done; \
	$(BIN)/coverage combine -q && $(BIN)/coverage json -q -o .cache/coverage/report.json && \
	  $(BIN)/python -m tests.unexecuted .cache/coverage/report.json && exit $$ended

wheels: $(VENV)/.build ## the wheels of groupd, groupd-client and pytest-groupd in dist/, and the line that installs them
	@$(BIN)/python -m release.distributions

release: $(VENV)/.test ## build, check, commit and tag a release: make release VERSION=0.2.0 (ARGS=--dry-run keeps nothing)
	@$(BIN)/python -m release $(VERSION) $(ARGS)

pipeline: $(VENV)/.pipeline ## tables and a report of sample data: real clients against groupd (two minutes; needs Java)
	@rm -rf $(SAMPLE) && mkdir -p $(SAMPLE)
	@$(BIN)/python -m tests.sample $(SAMPLE)/log
	@$(BIN)/groupd-pipeline run --log-dir $(SAMPLE)/log --warehouse $(SAMPLE)/warehouse --out $(SAMPLE)/report.html $(ARGS)

sim: $(VENV)/.test ## reproduce a simulator run: make sim SEED=7 STEPS=400
	@$(BIN)/python -m tests.simulation --seed $(SEED) --steps $(STEPS) $(ARGS)

replay: $(VENV)/.test ## record simulated runs and play them in other processes: make replay SEEDS=1000 (100: a minute)
	@$(BIN)/python -m tests.control.replay --seeds $(or $(SEEDS),100)

scenarios-rewrite: $(VENV)/.test ## write what the scenarios print today into their files; review with git diff
	@$(BIN)/python -m tests.scenarios.rewrite
	@$(BIN)/python -m docs.generate_sequences
	@$(BIN)/python -m docs.generate_log_lines

fuzz: $(VENV)/.test ## look for bytes that break a decoder: make fuzz ARGS="--seconds 600 --seed 7"
	@$(BIN)/python -m tests.hostile.fuzz $(ARGS)

cluster-rounds: $(VENV)/.test ## owners killed and paused, etcd's leader killed, its quorum lost, again and again (ARGS="--rounds 50"); needs etcd
	@$(BIN)/python -m tests.cluster.etcd.rounds $(ARGS)

moves: $(VENV)/.test ## coordinators that move under stock clients, here and on three brokers of Kafka; 1 when a client minds more here
	@$(BIN)/python -m tests.interop.moves $(ARGS)

cluster-soak: $(VENV)/.test ## half an hour of commits to a cluster; 1 when etcd holds more than it should (ARGS="--minutes 5"); needs etcd
	@$(BIN)/python -m tests.cluster.etcd.soak $(ARGS)

attacks: $(VENV)/.test ## long lists and large elements in each request, beside a client that must not wait (ARGS="OffsetFetch"; SEED=7)
	@$(BIN)/python -m tests.hostile.attacks --size extended --seed $(SEED) $(ARGS)

soak: $(VENV)/.test ## half an hour of real clients that join and die, then attacks of the largest sizes; 1 when anything grows or is left (ARGS="--minutes 5"; SEED=7)
	@SERVERS=500 $(BIN)/python -X dev -m pytest -q tests/broker/test_many_servers.py
	@$(BIN)/python -m tests.soak $(ARGS)
	@$(BIN)/python -m tests.hostile.attacks --all-versions --seed $(SEED)

crash: $(VENV)/.test ## 200 daemons killed under load, 200 more on full disks, 5000 disks without power (15 minutes; CRASH_SEED=7 repeats)
	@CRASH_ROUNDS=$${CRASH_ROUNDS:-200} CRASH_LIVES=$${CRASH_LIVES:-5000} $(BIN)/python -X dev -m pytest -q \
	  -o timeout=7200 -n $(JOBS) tests/crash/test_kill.py tests/crash/test_topics.py \
	  tests/crash/test_journal.py tests/crash/test_transactions.py $(PYTEST_ARGS)

nightly: $(VENV)/.test ## the rounds that take hours, with one report (ARGS="crash soak --seed 7" picks); needs all programs
	@$(BIN)/python -m tests.nightly $(ARGS)

oracle: $(VENV)/.test ## compare every answer with a real Kafka's (minutes; needs Java, Maven); ARGS="--kafka 3.9.1 commits"
	@$(BIN)/python -m tests.oracle $(ARGS)

oracle-record: $(VENV)/.test ## the same for both Kafkas, and keep their answers; review with git diff
	@$(BIN)/python -m tests.oracle --record $(ARGS)
	@$(BIN)/python -m tests.oracle --record --kafka 3.9.1 $(ARGS)
	@$(BIN)/python -m docs.generate_protocol

kafka-tools-record: $(VENV)/.test ## record what Kafka's own tools print, for tests/kafka_tools (needs Java, Maven); ARGS="topics"
	@$(BIN)/python -m tests.kafka_tools.record $(ARGS)

frames-record: $(VENV)/.test ## capture what stock clients and a real Kafka say to each other into tests/frames
	@$(BIN)/python -m tests.frames.capture
	@$(BIN)/python -m tests.frames.capture --kafka 3.9.1
	@$(BIN)/python -m docs.generate_protocol

config-record: $(VENV)/.test ## ask Kafka's own classes about every property and keep what they say in tests/config/definitions
	@$(BIN)/python -m tests.config.record
	@$(BIN)/python -m docs.generate_configuration

bench: $(VENV)/.test ## measure (an hour); results go to benchmarks/RESULTS.md; 1 when a figure is outside its bounds
	@$(BIN)/python -m benchmarks $(ARGS)

pipeline-scale: $(VENV)/.test ## fifty million commits through the pipeline (half an hour, 12 GB of TMPDIR; needs Java)
	@$(BIN)/python -m benchmarks.pipeline_scale $(ARGS)

clean: ## remove the virtual environment, caches and built drivers (keeps ./data)
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info

# A virtual environment from the pinned constraints. Only Python itself has to be there.
$(VENV)/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "groupd needs Python 3.11 or newer: install python3"; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "groupd needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V): set PYTHON=/path/to/python3.11"; exit 2; }
	@$(call timed,$(VENV): a new virtual environment of $(PYTHON)) $(PYTHON) -m venv $(VENV) || { echo "the venv module is missing: install python3-venv"; exit 2; }

# Tests and tools of the repository import `coordinator` and `tests`; an editable installation has `groupd` alone.
ADD_ROOT = pwd > "$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/groupd_repository.pth"

$(VENV)/.run: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(call timed,$(VENV): pip installs groupd and what it needs) \
	  $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e .
	@$(ADD_ROOT)
	@touch $@

$(VENV)/.build: constraints.txt | $(VENV)/bin/python
	@$(call timed,$(VENV): pip installs what builds the wheels) \
	  $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt hatchling
	@touch $@

$(VENV)/.pipeline: pyproject.toml constraints.txt | $(VENV)/bin/python
	@$(call timed,$(VENV): pip installs groupd, its pipeline and a client for the sample (minutes)) \
	  $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[pipeline]' confluent-kafka
	@$(ADD_ROOT)
	@touch $(VENV)/.run $@

$(VENV)/.test: pyproject.toml constraints.txt $(wildcard clients/*/pyproject.toml) | $(VENV)/bin/python
	@$(call timed,$(VENV): pip installs what the checks and tests need (1.4 GB; minutes)) \
	  $(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[test,check,release,pipeline]' \
	  -e 'clients/groupd_client[async]' -e clients/pytest_groupd
	@$(ADD_ROOT)
	@touch $(VENV)/.run $(VENV)/.build $(VENV)/.pipeline $@
