# `make bench` from a fresh clone is all that a first result takes; `make` alone lists the rest.

# What `make bench` measures: ResNet-50 at its real image size, with a batch that any machine can hold.
BENCH_ARGS ?= --device cpu --model resnet50 --batch 2 --ranks 1,2 --max-time 20
# Source files that `make lint` and `make format` look at; all where not given.
FILES ?=
# Of `make test-faults` and `make soak`.
FIRST ?= 1
RUNS ?= 1000
SOAK_S ?= 7200

.DEFAULT_GOAL := help
.PHONY: help setup setup-tests setup-python build bench test test-all test-faults soak wheel man gpu-bundle format lint clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' Makefile

setup: ## install what is missing (Debian packages, LibTorch into .venv), and only that
	@setup/install.sh

setup-tests:
	@setup/install.sh --tests

setup-python: ## install the Python PyTorch that bench/vs_python.py compares with into .venv-dev
	@setup/install.sh --python

build: setup ## build build/lockstep and its plugins
	@setup/build.sh release -- lockstep lockstep_plugins

bench: build ## train ResNet-50 on 1 and 2 ranks and print how it scales
	build/lockstep bench $(BENCH_ARGS)

test: setup-tests ## build and run the tests (release build; what has threads also under the sanitizers)
	@tests/run.sh

test-all: setup-tests ## the same, the slow tests, everything under the sanitizers, and the fuzzers
	@setup/install.sh --dev
	@setup/install.sh --wheel
	@tests/run.sh --all

test-faults: build ## end 1000 short jobs in random ways (FIRST=SEED RUNS=N); a line for each in build/faults.log
	@tests/faults.py build/lockstep --first $(FIRST) --runs $(RUNS) --jobs 4 --log build/faults.log

soak: build ## train on two test hosts for two hours (SOAK_S=SECONDS) and see that all stays flat; build/soak.svg
	@tests/soak.py build/lockstep --seconds $(SOAK_S) --chart build/soak.svg

wheel: build ## pack the program for pip: dist/lockstep-VERSION-py3-none-manylinux_*.whl
	@setup/install.sh --wheel
	@setup/wheel.sh

man: build ## write pages for man into build/man: MANPATH=build/man man lockstep-bench
	@setup/install.sh --wheel
	@setup/man.sh build/lockstep build/man/man1

gpu-bundle: setup-tests ## pack the program and the tests that need a GPU, for a machine with LibTorch and no compiler
	@setup/build.sh release -DLOCKSTEP_TESTS=ON -DLOCKSTEP_GPU_TESTS=ON -- lockstep lockstep_plugins gpu_tests
	@setup/gpu-bundle.sh

format: ## format the sources
	@setup/install.sh --dev
	@setup/lint.sh --fix $(FILES)

lint: build ## check format, scripts and clang-tidy's rules (FILES="..." for some files only)
	@setup/install.sh --dev
	@setup/lint.sh $(FILES)

clean: ## remove all that was built; what `make setup` installed stays
	rm -rf build dist
