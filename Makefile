# `make demo` and `make test` set up all they need. VENV=DIR puts the environment (9 GB) where clones can share it.
PYTHON ?= python3.11
VENV ?= .venv
PY = $(VENV)/bin/python
WHAT ?= all
OUT ?= out
# Tests wait for what they start for much of their time: a worker more than a small machine has cores.
WORKERS ?= 3
XDIST = --numprocesses $(WORKERS) --dist worksteal

.PHONY: demo test test-all attack speed types lint format lock setup
.DELETE_ON_ERROR:

demo: setup
	$(VENV)/bin/ident show --out $(OUT)/traversal.png
	$(VENV)/bin/ident render --n 2000 --size 64 --quality draft --out $(OUT)/images
	$(VENV)/bin/ident render --n 500 --size 64 --quality draft --split test --out $(OUT)/images-test
	$(VENV)/bin/ident pairs $(OUT)/images --conditional "normal(0.25)" --plot --show 8 --out $(OUT)/pairs.h5
	$(VENV)/bin/ident bench --tier demo --data $(OUT)/images --test-data $(OUT)/images-test --out $(OUT)/results \
		--row box-normal --row supervised --row untrained
	$(VENV)/bin/ident report $(OUT)/results --out $(OUT)/report
	@echo "The scene: $(OUT)/traversal.png. Anchors and positives: $(OUT)/pairs-images.png."
	@echo "The table, in a browser: $(OUT)/report/index.html. What to do next: README.md, ident --help."

test: setup
	$(PY) -m pytest -m "not slow" $(XDIST)

test-all: setup
	$(PY) -m pytest $(XDIST)

# Kills, hostile data and hostile servers, for ten minutes: make attack ATTACK="--only links"
attack: setup
	$(PY) -m tests.attack $(ATTACK)

speed: setup
	$(PY) -m tests.speed $(WHAT)

types: setup
	@mkdir -p build/types/ident
	@for room in render benchmark cli blend_assets; do ln -sfn "$(CURDIR)/$$room" build/types/ident/$$room; done
	MYPYPATH=build/types $(PY) -m mypy -p ident.render -p ident.benchmark -p ident.cli -p ident.blend_assets
	MYPYPATH=build/types $(PY) -m mypy tests

lint: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

format: setup
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

# The environment: the locked packages, then this clone of ident in it. `owner` says which clone it was.
setup: $(VENV)/compiled
	@owner="$(CURDIR) $$(cksum < pyproject.toml)"; \
	if [ "$$(cat $(VENV)/owner 2>/dev/null)" != "$$owner" ]; then \
		$(VENV)/bin/uv pip install --quiet --python $(PY) --no-deps --editable . && echo "$$owner" > $(VENV)/owner; \
	fi

$(VENV)/locked: requirements.lock
	$(PYTHON) -c "import ensurepip" 2>/dev/null || docker/system-libraries.sh
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet uv
	$(VENV)/bin/uv pip install --quiet --python $(PY) --requirement requirements.lock
	$(PY) -c "import bpy" 2>/dev/null || { docker/system-libraries.sh && $(PY) -c "import bpy"; }
	touch $@

# uv leaves it to the first import to compile a module, and where Python may write nothing it would be compiled by each
# process anew: Ray's and Blender's take seconds then.
STARTED = bpy fsspec h5py PIL.Image rich.progress scipy.ndimage scipy.spatial sklearn torch torchvision webp zstandard \
	ray.dashboard.agent ray.dashboard.dashboard ray._private.runtime_env.agent.main ray._private.workers.default_worker

$(VENV)/compiled: $(VENV)/locked
	for module in $(STARTED); do PYTHONDONTWRITEBYTECODE= $(PY) -c "import $$module" 2>/dev/null || true; done
	touch $@

lock: setup
	$(VENV)/bin/uv pip compile --quiet --upgrade --no-header --no-annotate --python-version 3.11 \
		--extra test pyproject.toml --output-file requirements.lock
