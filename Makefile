# `make run` and `make test` are all a new machine needs; every target sets up what it needs by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
WORKERS ?= 2

.PHONY: setup run test lint chromium faults e2e bundle bench format constraints clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Sylva needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip --constraint constraints.txt
	$(BIN)/python -m pip install --quiet --editable '.[dev]' --constraint constraints.txt
	touch $(READY)

run: $(READY)
	$(BIN)/sylva studio

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint chromium
	$(BIN)/pytest -n $(WORKERS) -m "not slow" --durations=40

# The browser tests need Chromium; where it is missing and may not be installed, they are skipped and say so.
chromium:
	@command -v chromium || command -v google-chrome || (apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium) \
		|| echo 'Chromium is not here and could not be installed: the browser tests will be skipped.'

# All that `make test` leaves out, and the property tests with many more examples.
faults: $(READY)
	$(BIN)/pytest -n $(WORKERS) -m "slow or faults or hypothesis" --hypothesis-profile thorough

e2e: $(READY) chromium
	$(BIN)/pytest tests/e2e

# The canvas as one script and one style sheet; both are committed, so that users need no Node.js.
bundle:
	cd ui/canvas/frontend && npm install --no-package-lock && node build.mjs

bench: $(READY)
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.forest
	$(BIN)/python -m benchmarks.cascade
	$(BIN)/python -m benchmarks.ui
	$(BIN)/python -m benchmarks.deploy
	$(BIN)/python -m benchmarks.tsne

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The versions a fresh install gets; renew them by hand, then run the tests.
constraints: $(READY)
	$(BIN)/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==' > constraints.txt

clean:
	rm -rf .venv build dist *.egg-info artifacts
