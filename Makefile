# Two commands: `make run` starts everything, `make test` tests everything. See CONTRIBUTING.md.

ifndef PYTHON
PYTHON := $(shell for p in python3.13 python3.12 python3.11 python3; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		&& echo $$p && exit; done; \
	command -v python3)
endif
ifeq ($(PYTHON),)
$(error Python was not found: install 3.11 or newer, or name it: make PYTHON=/path/to/python3.11)
endif

BIN := .venv/bin
SETUP := $(PYTHON) chatproject/setup_env.py
# What a deployment looks like to the checks; nothing is connected to.
PRODUCTION := env -i PATH="$$PATH" READ_DOT_ENV=false DEBUG=false HTTPS=true \
	SECRET_KEY=only-for-the-check-0123456789-abcdefghijklmnopqrstuvwxyz \
	ALLOWED_HOSTS=chat.example.org DATABASE_URL=postgres://chat@db.example.org/chat \
	REDIS_URL=redis://redis.example.org/0

.PHONY: run test check format bench soak dev

run: # virtual environment, .env, migrations, demo users, server
	@exec $(SETUP) serve

test: dev # every test on SQLite, and again on PostgreSQL and Redis; ARGS goes to pytest
	@exec $(BIN)/python -m tests $(ARGS)

check: dev # lint, format, types, import arrows, migrations, deployment settings
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	DJANGO_SETTINGS_MODULE=tests.settings $(BIN)/python manage.py makemigrations --check --dry-run
	@echo "manage.py check --deploy, with the settings of a deployment"
	@$(PRODUCTION) $(BIN)/python manage.py check --deploy --fail-level WARNING

format: dev # let ruff fix and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: dev # every script in benchmarks/, with ratios
	@set -e; for script in $$(grep -l __main__ benchmarks/*.py); do \
		echo "== $$script"; $(BIN)/python "$$script"; done

soak: dev # the tests that take minutes
	@exec $(BIN)/python -m pytest -m slow $(ARGS)

dev:
	@$(SETUP) dev
