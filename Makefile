# `make run` and `make test` are all a new machine needs; every target sets up what it needs by itself.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEVELOPER := .venv/.ready-developer
UNFINISHED := .venv/.unfinished
INSTALL_LOG := .venv/install.log
TYPES_LOG := .venv/mypy.log
# One more than two cores, because the tests often wait for browsers and processes.
WORKERS ?= 3
# Modules are compiled when they are first imported. Without saved bytecode every process would do it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test lint style types chromium faults fuzz e2e bundle screenshots bench bench-cascade paper-tables scale format constraints clean

# $(call install,WHAT): bytecode is not written for all packages, only later for what is imported: 150 MB less.
# A set-up that was cut off may have left half a package behind: the next one starts with an empty .venv.
define install
@rm -f $(READY) && touch $(UNFINISHED)
@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --no-input \
	--editable '$(1)' --constraint constraints.txt > $(INSTALL_LOG) 2>&1 || { \
	grep '^ *ERROR' $(INSTALL_LOG) | tail -n 3; \
	echo 'The packages could not be installed. Check the network (or the proxy) and the free disk space,'; \
	echo 'then give the same command again. All that pip said is in $(INSTALL_LOG).'; \
	exit 1; }
@rm -f $(UNFINISHED)
endef

setup: $(READY)

# What the studio and the command line need.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("Sylva needs Python 3.11 or newer; name one: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	@echo '1/4 Creating .venv ...'
	@if [ -e $(UNFINISHED) ]; then rm -rf .venv; fi
	@mkdir -p .venv && touch $(UNFINISHED) && $(PYTHON) -m venv .venv
	@echo '2/4 Installing the packages that the studio needs (about a minute) ...'
	$(call install,.)
	@echo '3/4 Compiling the forest kernels for this machine (once, about 30 s) ...'
	@$(BIN)/python -m deepforest.forest.compile_kernels
	@touch $(READY)

# What tests, checks and benchmarks need besides.
$(DEVELOPER): $(READY)
	@echo '4/4 Installing the packages that the tests need besides ...'
	$(call install,.[dev])
	@touch $(READY) $(DEVELOPER)

run: $(READY)
	@echo '4/4 Starting the studio ...'
	@$(BIN)/sylva studio

lint: style types

style: $(DEVELOPER)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(DEVELOPER)
	$(BIN)/mypy

# mypy runs while the tests wait, and what it found is printed after them.
test: style chromium
	@$(BIN)/mypy > $(TYPES_LOG) 2>&1 & types=$$!; \
	$(BIN)/pytest -n $(WORKERS) -m "not slow and not fuzz" --durations=40; tests=$$?; \
	wait $$types; typed=$$?; echo 'mypy:'; cat $(TYPES_LOG); \
	[ $$tests -eq 0 ] && [ $$typed -eq 0 ]

# The browser tests need Chromium; where it is missing and may not be installed, they are skipped and say so.
chromium:
	@command -v chromium || command -v google-chrome || (apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium) \
		|| echo 'Chromium is not here and could not be installed: the browser tests will be skipped.'

# These keep the processor busy, and some tests of faults allow a process ten seconds: one for each core.
faults fuzz: WORKERS = 2

# All that `make test` leaves out, and the property tests with many more examples.
faults: $(DEVELOPER)
	$(BIN)/pytest -n $(WORKERS) -m "(slow or faults or hypothesis) and not fuzz" --hypothesis-profile thorough

# Reads thousands of damaged files, each in a child process.
fuzz: $(DEVELOPER)
	$(BIN)/pytest -n $(WORKERS) -m fuzz -rP tests/fuzz

e2e: $(DEVELOPER) chromium
	$(BIN)/pytest tests/e2e

# The canvas as one script and one style sheet; both are committed, so that users need no Node.js.
bundle:
	cd ui/studio/canvas/frontend && npm install --no-package-lock && node build.mjs

# The pictures of README and docs, from a studio on an empty workspace.
screenshots: $(DEVELOPER) chromium
	$(BIN)/python -m docs.take_screenshots

bench: $(DEVELOPER)
	$(BIN)/python -m benchmarks.engine
	$(BIN)/python -m benchmarks.forest
	$(BIN)/python -m benchmarks.ui
	$(BIN)/python -m benchmarks.deploy
	$(BIN)/python -m benchmarks.tsne
	$(BIN)/python -m benchmarks.sql
	$(BIN)/python -m benchmarks.decisions
	$(BIN)/python -m benchmarks.cluster

# Takes hours; the same command goes on where it was cut off. PARTS="permuted honest" measures only these.
bench-cascade: $(DEVELOPER)
	$(BIN)/python -m benchmarks.cascade $(PARTS)

# The papers' tables in docs/results.md. Takes hours; a stopped run continues. TABLE="rcf mddf" measures
# only these; the others are cs, fraud and scanning.
paper-tables: $(DEVELOPER)
	$(BIN)/python -m benchmarks.papers $(TABLE)

# docs/scale.md: some ten minutes on an idle machine; a stopped run continues.
scale: $(DEVELOPER)
	$(BIN)/python -m benchmarks.scale

format: $(DEVELOPER)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The versions a fresh install gets; renew them by hand, then run the tests.
constraints: $(DEVELOPER)
	$(BIN)/python -m pip freeze --exclude-editable | grep -E '^[A-Za-z0-9._-]+==' > constraints.txt

clean:
	rm -rf .venv build dist *.egg-info artifacts
