# What a newcomer needs: make demo, make test. Everything else is built by these when it is missing.
PYTHON ?= python3
BIN := .venv/bin
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"
# The versions of Apache Kafka that are tested; sandbox/jar_digests.json has their jars.
KAFKA_VERSIONS := 3.9.1 4.0.2 4.2.2 4.3.1 4.4.0

.PHONY: help env demo test test-fast test-kafka test-faults test-nightly bench lab lint licences vulnerabilities docs lock release screenshots clean

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

env: .venv/.installed  ## Make .venv with the offsetbook command in it

.venv/.installed: requirements.lock requirements-java.lock requirements-installer.lock pyproject.toml scripts/make_env
	@PYTHON="$(PYTHON)" scripts/make_env

demo: env  ## Two real clusters, two notebooks, a table of findings and the reports
	@$(RUN) offsetbook demo

test: env  ## The whole test suite, against real brokers and a real browser
	@$(RUN) exec scripts/run_tests

test-fast: env  ## The tests that need no broker, Spark, browser or Jupyter kernel
	@$(RUN) exec python -m pytest --fast -n 2 --dist loadfile

test-kafka: VERSION ?= 4.4.0
test-kafka: env  ## Planning and reading against one version of Kafka: make test-kafka VERSION=4.0.2
	@$(RUN) TEST_KAFKA_VERSION=$(VERSION) exec python -m pytest tests/planning tests/kafka_io -n 4 --dist loadfile

test-faults: SEEDS ?= 0:1000
test-faults: env  ## Random faults on three brokers: make test-faults SEEDS=0:1000; SEEDS=17:18 is one run again
	@mkdir -p build && rm -f build/faults.jsonl
	@$(RUN) python -m pytest tests/faults/test_random_faults.py tests/faults/test_random_live_faults.py \
	    -n 2 --dist loadfile --fault-seeds $(SEEDS) --fault-log build/faults.jsonl; result=$$?; \
	    $(RUN) python tests/faults/fault_table.py build/faults.jsonl; exit $$result

test-nightly: env  ## Everything from 4.2 on, planning and reading on older ones; says at the end which failed
	@failed=; for version in $(KAFKA_VERSIONS); do \
	    case $$version in 3.*|4.0.*|4.1.*) tests=test-kafka;; *) tests=test;; esac; \
	    TEST_KAFKA_VERSION=$$version $(MAKE) $$tests VERSION=$$version || failed="$$failed $$version"; \
	done; [ -z "$$failed" ] || { echo "make test-nightly: failed with Apache Kafka$$failed" >&2; exit 1; }

bench: env  ## All benchmarks into benchmarks/RESULTS.md, on a quiet machine; BENCH_OPTIONS=--small only tries them
	@$(RUN) exec python benchmarks $(BENCH_OPTIONS)

lab: env  ## Sandbox up and JupyterLab open on copies of the notebooks in lab/
	@$(RUN) offsetbook lab --sandbox lab -- $(LAB_OPTIONS)

lint: env  ## Ruff and mypy
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .
	@$(RUN) mypy

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
