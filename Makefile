PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help run test install generate clients check lint serve bench lock

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(STAMP) ## start a server on SQLite with the demo workflow and its receiver, in .gatehouse/
	$(BIN)/gatehouse serve --demo-receiver

test: $(STAMP) ## run every test
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder

install: $(STAMP) ## make .venv/ from requirements.lock

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or later is needed")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

generate: $(STAMP) ## make generated/ from spec/
	$(BIN)/gatehouse generate

clients: $(STAMP) ## make clients of the documents in build/clients/
	$(BIN)/gatehouse clients

check: $(STAMP) ## lint, types, rooms, documents, generated code and migrations; changes nothing
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/gatehouse check spec
	$(BIN)/gatehouse check generated
	$(BIN)/gatehouse check migrations

lint: $(STAMP) ## mend what ruff can mend
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

serve: run ## the same as run

bench: $(STAMP) ## measure against the peers and print ratios
	$(BIN)/gatehouse bench

LOCK := $(BIN)/pip-compile --quiet --generate-hashes --strip-extras --allow-unsafe --no-header \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host

lock: $(STAMP) ## pin what pyproject.toml and tools/clients/ ask for
	$(LOCK) --extra dev --output-file requirements.lock pyproject.toml
	$(LOCK) --output-file tools/clients/requirements.txt tools/clients/requirements.in
	cd tools/clients && npm install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund
