# Every target prepares what it needs on a bare Debian or Ubuntu machine; stamps make a second run cheap.
SHELL := bash
PYTHON ?= python3
VENV := .venv/bin
PACKAGES := .venv/.packages
BUILD := .venv/.build
SOURCES := $(shell find allocator device delegates etarena -name '*.pyx' -o -name '*.pxd' -o -name '*.h' -o -path '*/native/*.c' -o -path '*/shaders/*.*' -not -name '*.spv')
PYTEST := $(VENV)/python -m pytest
JOBS ?= 2

.PHONY: all build test test-debug sanitize lint package size fuzz bench bench-all bench-peers coverage demo frames clean
all: build

build: $(BUILD)

$(PACKAGES): pyproject.toml scripts/setup.sh
	PYTHON=$(PYTHON) scripts/setup.sh
	@touch $@

$(BUILD): $(PACKAGES) setup.py scripts/build_commands.py scripts/compile_shaders.py $(SOURCES)
	$(VENV)/python setup.py --quiet build_ext --inplace
	@touch $@

# Files in the order of tests/conftest.py, not those with most tests first.
test: build
	$(PYTEST) -q -n $(JOBS) --dist loadfile --no-loadscope-reorder --benchmark-disable $(ARGS)

# Expensive checks after every change of a heap, poison in every arena, counts of live objects; then the usual build again.
test-debug: build
	ETARENA_DEBUG=1 $(VENV)/python setup.py --quiet build_ext --inplace --force
	$(PYTEST) -q tests/allocator $(ARGS); status=$$?; $(VENV)/python setup.py --quiet build_ext --inplace --force; exit $$status

# The C heap, the exact search and XNNPACK's layouts with the address, undefined behaviour and thread sanitizers.
sanitize:
	scripts/sanitize.sh

lint: build
	PATH="$(CURDIR)/$(VENV):$$PATH" scripts/lint.sh

# The sdist, the wheel built from it, and a model run from that wheel.
package: build
	scripts/check_package.sh

# What the native modules weigh in both builds and what a process maps of them; ARGS=--write keeps it in bench/RESULTS.md.
size: build
	$(VENV)/python -m bench.size $(ARGS)

# Property tests only, with many more examples than a test run takes.
fuzz: build
	$(PYTEST) -q -m hypothesis --hypothesis-profile=fuzz --timeout=0 $(ARGS)

bench: build
	@mkdir -p out
	$(PYTEST) -q bench --timeout=0 --benchmark-only --benchmark-json=out/bench.json $(ARGS)
	$(VENV)/python -m bench.results out/bench.json out/demo/figures.json

# Everything that is measured without peers, one after the other on a quiet machine: takes hours.
bench-all: bench
	$(VENV)/python -m bench.stages --write
	$(VENV)/python -m bench.reshape --write
	$(VENV)/python -m bench.sharing --write
	$(VENV)/python -m bench.savings --write
	$(VENV)/python -m bench.size --write
	$(VENV)/python -m bench.static_plans --write
	$(VENV)/python -m bench.fragments --write
	$(VENV)/python -m bench.decode --write
	$(VENV)/python -m bench.vulkan_models --write
	$(VENV)/python -m bench.vulkan_dispatch --write
	$(VENV)/python -m bench.vulkan_frames --write
	$(VENV)/python -m bench.propagation --write

# The heap and the planner beside their peers, which are built first (git, cmake, network; see scripts/peers.sh).
bench-peers: build
	scripts/peers.sh
	$(VENV)/python -m bench.planner --minimalloc out/peers/minimalloc/minimalloc --write
	$(VENV)/python -m bench.heap --offset-allocator out/peers/liboffsetallocator.so \
		--mimalloc out/peers/mimalloc/libmimalloc.so --write

# Every model of bench/models, exported and compared with eager PyTorch; takes the better part of an hour.
coverage: build
	$(VENV)/python -m bench.coverage --write $(ARGS)

demo: build
	$(VENV)/etarena demo --out out/demo $(ARGS)

# A scene of an application on Vulkan whose frames a model paints without leaving the device.
frames: build
	$(VENV)/python -m examples.vulkan_frames $(ARGS)

clean:
	rm -rf build dist out .venv *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache .benchmarks
	find allocator device delegates etarena \( -name '*.so' -o -name '*.spv' \) -delete
