# Every target makes its own virtual environment from the lock files. The machine needs Python and nothing else.
PYTHON ?= python3
VENV ?= .venv
DEMO ?= .venv-demo
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test test-more test-all check format lock site clean

# The demo needs only the core packages. It runs from the source tree, without a build and without .pyc files.
demo: $(DEMO)/.ready
	$(DEMO)/bin/python -B -m holdfast demo

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and not more"

# The longer tests: those that start other programs (Spark, PostgreSQL, Chromium, services) or run whole pages.
test-more: $(VENV)/.ready
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow and more"

test-all: $(VENV)/.ready
	$(BIN)/python -m pytest -n $(WORKERS)

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Make an environment and install into it. The first of these that is available is used: uv, the pip of the
# interpreter (no second pip has to be installed), a pip inside the environment. The lock files name every
# package, so no dependency is resolved.
define install
	@if command -v uv >/dev/null 2>&1; then \
		{ test -x $(1)/bin/python || uv venv --quiet --python $(PYTHON) $(1); } && \
		uv pip install --quiet --python $(1)/bin/python --no-deps $(2); \
	elif $(PYTHON) -m pip --python "$$(command -v $(PYTHON))" --version >/dev/null 2>&1; then \
		{ test -x $(1)/bin/python || $(PYTHON) -m venv --without-pip $(1); } && \
		$(PYTHON) -m pip --python $(1)/bin/python install --quiet --disable-pip-version-check \
			--root-user-action ignore --no-compile --no-deps $(2); \
	else \
		{ test -x $(1)/bin/pip || $(PYTHON) -m venv $(1); } && \
		$(1)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps $(2); \
	fi
endef

# Delete files that the demo never loads: tests inside packages, headers, Arrow's network libraries, and second
# copies of Arrow's other libraries under versioned names. This saves 100 MB.
define trim
	@find $(1)/lib -depth -type d \( -path '*/site-packages/*/tests' -o -path '*/pyarrow/include' \) -exec rm -rf {} +
	@for part in arrow_flight arrow_python_flight arrow_s3; do \
		rm -f $(1)/lib/python*/site-packages/pyarrow/lib$$part.*; \
	done
	@rm -f $(1)/lib/python*/site-packages/pyarrow/libarrow_python*.so $(1)/lib/python*/site-packages/pyarrow/libarrow_python*.so.*.*.*
endef

site: $(VENV)/.ready
	PYTHONPATH=src $(BIN)/python docs/make_site.py

$(DEMO)/.ready: requirements-demo.lock
	@echo "Setting up $(DEMO): the packages that the demo needs."
	$(call install,$(DEMO),--requirement requirements-demo.lock)
	$(call trim,$(DEMO))
	@for packages in $(DEMO)/lib/python*/site-packages; do echo "$(CURDIR)/src" > $$packages/holdfast.pth; done
	@touch $@

$(VENV)/.ready: requirements.lock pyproject.toml
	@echo "Setting up $(VENV): everything that the tests need. This takes some minutes."
	$(call install,$(VENV),--requirement requirements.lock)
	$(call install,$(VENV),--editable .)
	@$(BIN)/python -m compileall -q -j $(WORKERS) $(VENV)/lib >/dev/null 2>&1 || true # packages ship files for other Pythons
	@touch $@

# Resolve the newest versions that pyproject.toml allows, in a temporary environment. The lock file of the demo
# has the same versions of the core packages. The lock file of the image also has a hash for every file. Helm's
# package exists for Linux on x86-64 only, so its line gets the same condition as in pyproject.toml.
IMAGE_EXTRAS := --extra server --extra postgres --extra traces
lock:
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --upgrade pip
	.venv-lock/bin/python -m pip install --quiet --editable ".[all]" --group dev
	.venv-lock/bin/python -m pip freeze --exclude-editable | sed \
		-e 's/^helm[-_]binary==.*/&; sys_platform == "linux" and platform_machine == "x86_64"/' > requirements.lock
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --constraint requirements.lock --editable .
	.venv-lock/bin/python -m pip freeze --exclude-editable > requirements-demo.lock
	.venv-lock/bin/python -m pip install --quiet uv
	echo "hatchling>=1.25,<2" | .venv-lock/bin/uv pip compile --quiet --constraint requirements.lock --generate-hashes \
		--python-version 3.12 --python-platform linux --no-emit-index-url --no-header --no-annotate \
		$(IMAGE_EXTRAS) --output-file deploy/requirements.lock pyproject.toml -
	rm -rf .venv-lock

clean:
	rm -rf $(VENV) $(DEMO) site .pytest_cache .mypy_cache .ruff_cache .hypothesis
