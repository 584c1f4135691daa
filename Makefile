# The single door for commands; `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CONFIG ?= config/rezolusd.toml
PREFIX ?= /opt/rezolusd

# What the distribution must bring: a venv, and for BPF its bcc and libbpf.
SYSTEM_PACKAGES := python3-venv python3-bpfcc libbpf1
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.DEFAULT_GOAL := help
.PHONY: help run setup test test-vm vm-shell fmt lint types bench wheel install clean system

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

run: setup ## set up what is missing and run the daemon in the foreground
	@exec $(BIN)/rezolusd run --config $(CONFIG)

setup: $(VENV)/.run ## a virtual environment with the daemon in it, and the system packages it needs

test: lint types ## style, types and the whole test suite
	@$(BIN)/python -m pytest $(ARGS)

test-vm: $(VENV)/.test ## as root: the kernel tests on other kernels, emulated; KERNELS="6.1 6.12" chooses
	@$(BIN)/python -m tests.vm --kernels "$(KERNELS)" $(ARGS)

vm-shell: $(VENV)/.test ## as root: a console on another kernel, in the checkout; KERNEL=6.1
	@$(BIN)/python -m tests.vm --shell "$(or $(KERNEL),6.1)"

fmt: $(VENV)/.test ## format the code
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lint: $(VENV)/.test ## check style and the arrows between the rooms
	@$(BIN)/ruff format --check . && $(BIN)/ruff check . && $(BIN)/lint-imports

types: $(VENV)/.test ## check types
	@$(BIN)/mypy

bench: $(VENV)/.test ## print the figures of docs/figures.md as measured here
	@$(BIN)/python -m tests.bench

wheel: $(VENV)/.test ## build a wheel into dist/
	@$(BIN)/python -m build --wheel --no-isolation --outdir dist .

install: wheel ## as root: the daemon below PREFIX, its unit, its user and its configuration
	@$(PYTHON) -m venv $(PREFIX)
	@$(PREFIX)/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt \
	    --force-reinstall dist/rezolusd-*.whl
	@install -D -m 644 systemd/rezolusd.service /usr/lib/systemd/system/rezolusd.service
	@install -D -m 644 systemd/rezolusd.sysusers /usr/lib/sysusers.d/rezolusd.conf
	@install -D -m 644 systemd/rezolusd.tmpfiles /usr/lib/tmpfiles.d/rezolusd.conf
	@test -e /etc/rezolusd/rezolusd.toml || install -D -m 644 config/rezolusd.toml /etc/rezolusd/rezolusd.toml
	@systemd-sysusers && systemd-tmpfiles --create rezolusd.conf
	@echo "installed; start with: systemctl enable --now rezolusd"

clean: ## remove everything that was built
	@rm -rf $(VENV) .vm dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Root installs what is missing; anyone else is told the line and goes on with what works without.
system:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("rezolusd needs Python 3.11 or newer, $(PYTHON) is " + sys.version.split()[0])'
	@command -v dpkg-query >/dev/null || exit 0; \
	missing=$$(for package in $(SYSTEM_PACKAGES); do \
	    dpkg-query -W -f '$${db:Status-Status}' $$package 2>/dev/null | grep -qx installed || echo $$package; \
	done); \
	[ -z "$$missing" ] && exit 0; \
	line="apt-get install -y --no-install-recommends $$(echo $$missing)"; \
	if [ "$$(id -u)" != 0 ]; then echo "for BPF, as root: $$line" >&2; exit 0; fi; \
	echo "installing $$(echo $$missing)"; \
	{ DEBIAN_FRONTEND=noninteractive $$line >/dev/null || { apt-get update >/dev/null && DEBIAN_FRONTEND=noninteractive $$line >/dev/null; }; } \
	    || echo "could not install, going on without; as root: $$line" >&2

$(BIN)/python: | system
	@echo "making $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { echo "no virtual environment: install python3-venv" >&2; rm -rf $(VENV); exit 1; }

$(VENV)/.run: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing the daemon into $(VENV)"
	@$(PIP) --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@echo "installing the test tools into $(VENV)"
	@$(PIP) --editable '.[test]'
	@touch $@
