# make run    a node on SQLite with the example jobs: http://127.0.0.1:8000
# make test   the tests, with a real Postgres and Redis started for them (pass more with ARGS="-k name")
# make check  format, lint, types, import layers
# make format rewrites the code in the one format
# make bench  the figures of loadtest/
# make clean  removes all that the others made, the data of the example node included

PYTHON ?=
ARGS ?=
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
INPUTS := pyproject.toml constraints.txt

.DELETE_ON_ERROR:
.PHONY: run test check format bench clean

run: .venv/installed-run
	@exec $(BIN)/trisched run examples.demo:app $(ARGS)

test: .venv/installed-dev
	$(BIN)/python -m pytest $(ARGS)

check: .venv/installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/installed-dev
	$(BIN)/python -m loadtest.run $(ARGS)

clean:
	rm -rf .venv .trisched .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find trisched tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamps lie inside .venv, so that removing it is enough to start anew.
.venv/installed-run: $(INPUTS)
	@scripts/make-venv "$(PYTHON)"
	@echo "installing trisched into .venv"
	@$(PIP) --editable ".[postgres,redis]"
	@touch $@

.venv/installed-dev: $(INPUTS)
	@scripts/make-venv "$(PYTHON)"
	@echo "installing trisched and its development tools into .venv"
	@$(PIP) --editable ".[dev]"
	@scripts/install-redis
	@touch .venv/installed-run $@
