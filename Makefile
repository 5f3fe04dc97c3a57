# What a newcomer needs: make demo, make test. Everything else is built by these when it is missing.
PYTHON ?= python3
BIN := .venv/bin
RUN := PATH="$(CURDIR)/$(BIN):$$PATH"

.PHONY: help env demo test test-fast lab lint licences vulnerabilities lock screenshots clean

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

screenshots: env  ## Take the pictures of the README anew, from the sandbox
	@$(RUN) python scripts/screenshots.py

lock:  ## Resolve the dependencies anew (for maintainers)
	@scripts/lock_dependencies

clean:  ## Stop the sandbox and remove everything that was made here
	@if [ -d .sandbox ] && [ ! -x $(BIN)/offsetbook ]; then \
	    echo "make clean: a sandbox may be running and there is no .venv to stop it with: make env first" >&2; exit 1; fi
	@if [ -x $(BIN)/offsetbook ]; then for state in .sandbox .sandbox/demo; do $(BIN)/offsetbook sandbox down --state-dir $$state; done; fi
	@rm -rf .venv .sandbox runs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse *.egg-info
