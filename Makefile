# Set-up happens once, in .venv; each command below works on a fresh clone.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check clean

demo: .venv/ready
	$(BIN)/forge-tui demo

test: .venv/ready
	$(BIN)/pytest -n auto --dist loadfile

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "forge-tui needs Python 3.11 or newer; run: make PYTHON=python3.11 demo"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv
