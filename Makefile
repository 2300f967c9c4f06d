# The door to the project: each target installs what is missing, builds, and does one thing. The work
# itself is CMake's; see CMakePresets.json.

JOBS ?= $(shell nproc)
WERROR ?= OFF
TRACE := data/azure_conv_2023.csv

CONFIGURE := cmake -DTRENCADIS_WERROR=$(WERROR) --preset
BUILD := cmake --build -j $(JOBS) --preset

.PHONY: help setup build test gpu demo bench kernels asan tidy fuzz format format-check clean

help:
	@echo "make demo     replay a production trace and write build/demo/replay.json and plan.svg"
	@echo "make test     build and run every test"
	@echo "make gpu      the tests that need a GPU"
	@echo "make bench    run the benchmarks, results in build/bench/"
	@echo "make kernels  compile every stock CUDA kernel for every architecture and fail on spills (NVRTC, no GPU)"
	@echo "make asan     the tests again under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make fuzz     the fuzzers under libFuzzer (clang)"
	@echo "make tidy     clang-tidy"
	@echo "make format   clang-format every file (format-check: only look)"
	@echo "make build    the command build/bin/trencadis, the library, tests and benchmarks"
	@echo "make setup    install the distribution's packages that are missing"

setup:
	@tools/setup.sh

build: setup
	$(CONFIGURE) release
	$(BUILD) release

test: build
	ctest --preset release -j $(JOBS)

gpu: build
	ctest --preset cuda -j $(JOBS)

demo: setup
	$(CONFIGURE) release
	$(BUILD) release --target trencadis_app
	@mkdir -p build/demo
	build/bin/trencadis replay --trace $(TRACE) --requests 1000 --verify 8 \
		--json build/demo/replay.json --plan-svg build/demo/plan.svg

bench: build
	cmake --build build --target bench

kernels: setup
	$(CONFIGURE) release
	$(BUILD) release --target trencadis_app
	tools/compile_all_kernels.py --command build/bin/trencadis --jobs $(JOBS)

asan: setup
	$(CONFIGURE) dev
	$(BUILD) dev
	ctest --preset dev -j $(JOBS) -LE source

fuzz:
	@tools/setup.sh clang
	$(CONFIGURE) fuzz
	$(BUILD) fuzz --target fuzzers
	ctest --test-dir build/fuzz -L fuzz --output-on-failure

tidy:
	@tools/setup.sh clang-tidy-14
	$(CONFIGURE) tidy
	$(BUILD) tidy -- -k 0

format: setup
	tools/format.sh

format-check: setup
	tools/format.sh --check

clean:
	rm -rf build
