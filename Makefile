# Every target sets up what it needs: a virtual environment in .venv, by uv where it is installed, else by pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
JOBS ?= 2

.PHONY: demo test lint types notebooks bench clean

demo: $(VENV)/.lab
	$(BIN)/headwater demo $(ARGS)

test: $(VENV)/.test
	$(BIN)/python -m pytest -n $(JOBS) -q $(ARGS)

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

notebooks: $(VENV)/.test
	$(BIN)/python -m pytest -q --nbmake --nbmake-timeout=300 --force-enable-socket notebooks

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

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
