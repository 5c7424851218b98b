# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# The project's commands; `make help` lists them. Everything is built inside the repository (build/, .venv/, out/).

PYTHON ?= python3
BUILD ?= build
PRESET ?= release
JOBS ?= $(shell nproc)
VENV := .venv
VPY := $(VENV)/bin/python
RUN := PYTHONPATH=$(BUILD)/python $(VPY)

.DEFAULT_GOAL := help
.PHONY: help setup build test demo bench docs format check-format check-asan check-tsan check-long wheel clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "  variables: QUICK=1 (short demo), MANIFOLD=stiefel|birkhoff|identity|..., JOBS=N, BUILD=dir"

setup: $(VENV)/.ready ## install what the build needs (apt packages as root, Python packages into .venv)

$(VENV)/.ready: tools/setup.sh python/requirements.txt
	@PYTHON=$(PYTHON) VENV=$(VENV) sh tools/setup.sh
	@touch $@

$(BUILD)/build.ninja: $(VENV)/.ready CMakePresets.json
	@cmake --preset $(PRESET) -B $(BUILD) -DPython3_EXECUTABLE=$(abspath $(VPY)) -DJPMHC_CCACHE=OFF $(CMAKE_FLAGS)

build: $(BUILD)/build.ninja ## compile the compiler, the runtime and the Python extension
	@cmake --build $(BUILD) -j $(JOBS)

test: build ## run every test and print the counts
	@$(RUN) test/run.py --build $(BUILD)

demo: build ## train the ARC demo, write its report and its PTX to out/demo
	@$(RUN) -m jpmhc.experiments.arc --out out/demo $(if $(QUICK),--quick) $(if $(MANIFOLD),--manifold $(MANIFOLD)) $(DEMO_FLAGS)

bench: build ## time the compiled steps
	@$(RUN) -m jpmhc.bench $(BENCH_FLAGS)

docs: build ## write the dialect's pages from its definitions
	@cmake --build $(BUILD) --target jpmhc-docs

format: $(VENV)/.ready ## format C++ and Python
	@git ls-files '*.cpp' '*.h' | xargs /usr/lib/llvm-22/bin/clang-format -i
	@$(VENV)/bin/ruff format python test tools examples && $(VENV)/bin/ruff check --fix python test tools examples

check-format: $(VENV)/.ready ## fail if a file is not formatted
	@git ls-files '*.cpp' '*.h' | xargs /usr/lib/llvm-22/bin/clang-format --dry-run -Werror
	@$(VENV)/bin/ruff format --check python test tools examples && $(VENV)/bin/ruff check python test tools examples

check-asan: ## every test under the address and undefined-behaviour sanitizers, kernels included
	@$(MAKE) build BUILD=build-asan PRESET=asan
	@PYTHONPATH=build-asan/python $(VPY) test/run.py --build build-asan --sanitizer address

check-tsan: ## the runtime's and the compiler's unit tests under the thread sanitizer
	@$(MAKE) build BUILD=build-tsan PRESET=tsan
	@PYTHONPATH=build-tsan/python $(VPY) test/run.py --build build-tsan --sanitizer thread --only unit

check-long: build ## every test, the long forms as often as a release asks for, then ten minutes of each fuzzer
	@JPMHC_TEST_LONG=1 $(RUN) test/run.py --build $(BUILD)
	@for target in checkpoints cases programs; do JPMHC_BUILD=$(BUILD) $(RUN) test/fuzz/files.py $$target \
	  --seconds $(or $(FUZZ_SECONDS),600) --findings $(BUILD)/fuzz || exit 1; done
	@$(MAKE) build BUILD=build-asan PRESET=asan
	@$(VPY) test/fuzz/run.py --build build-asan --seconds $(or $(FUZZ_SECONDS),600)

wheel: $(VENV)/.ready ## build an installable package into dist/
	@$(VPY) -m pip wheel . --no-deps --wheel-dir dist

clean: ## remove build folders and outputs
	@rm -rf build build-asan build-tsan build-debug dist out
