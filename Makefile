# What a newcomer needs: make demo, make test. Everything else is built by these when it is missing.
PYTHON ?= python3
BIN := .venv/bin
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"
TESTS := $(RUN) python scripts/run_tests.py
# The versions of Apache Kafka that are tested; sandbox/jar_digests.json has their jars.
KAFKA_VERSIONS := 3.9.1 4.0.2 4.2.2 4.3.1 4.4.0

.PHONY: help env demo test test-fast test-live test-faults test-slow test-all repeat test-kafka test-nightly bench lab lint licences vulnerabilities docs lock release screenshots clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

env: .venv/.installed  ## Make .venv with the offsetbook command in it

.venv/.installed: requirements.lock requirements-java.lock requirements-installer.lock pyproject.toml scripts/make_env
	@PYTHON="$(PYTHON)" scripts/make_env

demo: env  ## Two real clusters, two notebooks, a table of findings and the reports
	@$(RUN) offsetbook demo

test: lint  ## What every change must pass: real brokers, live groups, Spark, a browser (8 minutes)
	@$(TESTS) default $(TEST_OPTIONS)

test-fast: env  ## The tests that need no broker, Spark, browser or Jupyter kernel (1 minute)
	@$(TESTS) fast $(TEST_OPTIONS)

test-live: env  ## Every hold, move, keeper, operator and client of live groups
	@$(TESTS) live $(TEST_OPTIONS)

test-faults: SEEDS ?= 0:30
test-faults: env  ## Chosen and random faults: make test-faults SEEDS=0:1000; SEEDS=17:18 is one run again
	@rm -f build/faults.jsonl; \
	    $(TESTS) faults --fault-seeds $(SEEDS) --fault-log build/faults.jsonl $(TEST_OPTIONS); result=$$?; \
	    $(RUN) python tests/faults/fault_table.py build/faults.jsonl; exit $$result

test-slow: env  ## Expiry that is waited for, Spark clusters, the docs' commands, all browser journeys
	@$(TESTS) slow browser $(TEST_OPTIONS)

test-all: lint  ## All of these, one after the other, with one summary
	@$(TESTS) default live faults slow browser $(TEST_OPTIONS)

repeat: TIMES ?= 20
repeat: LOAD ?= 0
repeat: env  ## One test many times beside busy processes: make repeat TEST=... TIMES=20 LOAD=8
	@$(RUN) exec python scripts/repeat_test.py "$(TEST)" --times $(TIMES) --load $(LOAD)

test-kafka: VERSION ?= 4.4.0
test-kafka: env  ## Planning and reading against one version of Kafka: make test-kafka VERSION=4.0.2
	@TEST_KAFKA_VERSION=$(VERSION) $(TESTS) default tests/planning tests/kafka_io $(TEST_OPTIONS)

test-nightly: env  ## Everything from 4.2 on, planning and reading on older ones; says at the end which failed
	@failed=; for version in $(KAFKA_VERSIONS); do \
	    case $$version in 3.*|4.0.*|4.1.*) tests=test-kafka;; *) tests=test-all;; esac; \
	    TEST_KAFKA_VERSION=$$version $(MAKE) $$tests VERSION=$$version || failed="$$failed $$version"; \
	done; [ -z "$$failed" ] || { echo "make test-nightly: failed with Apache Kafka$$failed" >&2; exit 1; }

bench: env  ## All benchmarks into benchmarks/RESULTS.md, on a quiet machine; BENCH_OPTIONS=--small only tries them
	@$(RUN) exec python benchmarks $(BENCH_OPTIONS)

lab: env  ## Sandbox up and JupyterLab open on copies of the notebooks in lab/
	@$(RUN) offsetbook lab --sandbox lab -- $(LAB_OPTIONS)

lint: env  ## Ruff, mypy and the subjects of the last commits
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy
	@git log -50 --format=%s 2>/dev/null | awk 'length > 72 {print "a commit subject of over 72 characters: " $$0; bad = 1} END {exit bad}'

licences: env  ## The licence of every installed package, by its own metadata; works offline
	@$(RUN) python scripts/licences.py

vulnerabilities: env  ## Known vulnerabilities of the locked packages; offline from the copy in .advisories
	@$(RUN) python scripts/vulnerabilities.py

docs: env  ## The documentation site in build/site, with notebooks run on the sandbox
	@$(RUN) scripts/build_docs

screenshots: env  ## Take the pictures of the documentation anew, from the sandbox
	@$(RUN) python scripts/screenshots.py

release: env  ## Build sdist, wheel, SBOM and digests; VERSION=1.2.3 sets version and changelog
	@$(RUN) python scripts/release.py $(VERSION)

lock:  ## Resolve the dependencies anew (for maintainers)
	@scripts/lock_dependencies

clean:  ## Stop the sandbox and remove everything that was made here
	@if [ -d .sandbox ] && [ ! -x $(BIN)/offsetbook ]; then \
	    echo "make clean: a sandbox may be running and there is no .venv to stop it with: make env first" >&2; exit 1; fi
	@if [ -x $(BIN)/offsetbook ]; then for state in .sandbox .sandbox/demo; do $(BIN)/offsetbook sandbox down --state-dir $$state; done; fi
	@rm -rf .venv .sandbox runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse *.egg-info
