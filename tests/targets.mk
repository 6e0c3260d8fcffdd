# SPDX-License-Identifier: Apache-2.0
# The targets that check: included by the Makefile, which defines the variables. Every suite goes
# through tests/tools/summary, so that each target ends with one line of counts and its status.

UNIT := $(if $(filter 1,$(HAVE_CHECK)),$(addprefix $(B)/tests/unit/test_,$(unit_TESTS)))
ALLLIBS := $(B)/libagent.a $(B)/libdaemon.a $(B)/libclient.a $(B)/libcommon.a
FUZZ_SECONDS ?= 20
PYTEST_ARGS ?=
CLANG ?= $(firstword $(shell for c in clang clang-14; do command -v $$c; done) clang)

SUMMARY := tests/tools/summary
RESULTS := $(B)/results
HAVE_PYTEST = $(shell $(PYTHON) -c 'import pytest' 2>/dev/null && echo 1)
LINT := $(shell tests/tools/lint list)

# Objects of tests are not thrown away after the link.
.SECONDARY:

# The room libraries need each other in no fixed order: a test of one may pull in all of them.
$(B)/tests/unit/test_%: $(B)/obj/tests/unit/test_%.o $(ALLLIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -o $@ $< $(ALLLIBS) $(LIBS) $(CHECK_LIBS)

# Those of the library for workers link it as workers do.
$(B)/tests/unit/test_elasticd%: $(B)/obj/tests/unit/test_elasticd%.o $(B)/libelasticd.a \
	$(B)/libcommon.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -o $@ $^ $(LIBS) $(CHECK_LIBS)

.PHONY: unit-programs tools built
unit-programs: $(UNIT)
tools: $(TOOLS)
built: programs tools unit-programs

# What the targets below do, one after the other also with -j. None of it fails by itself: the total
# at the end decides.
begin = @rm -rf $(RESULTS)
total = @$(SUMMARY) total $(RESULTS)

# Check gives a test 4 s by itself: too little for a machine that has other things to do.
PATIENT := CK_TIMEOUT_MULTIPLIER=60

ifeq ($(UNIT),)
run_unit = @$(SUMMARY) run $(RESULTS) unit sh -c 'echo configured without check; exit 77'
else
run_unit = @for t in $(unit_TESTS); do $(PATIENT) \
	$(SUMMARY) run $(RESULTS) unit/$$t $(B)/tests/unit/test_$$t; done
endif

ifeq ($(HAVE_PYTEST),)
run_e2e = @$(SUMMARY) run $(RESULTS) e2e sh -c 'echo no pytest here; exit 77'
else
run_e2e = @ELASTIC_BUILD=$(abspath $(B)) $(SUMMARY) run -v $(RESULTS) e2e \
	$(PYTHON) -m pytest -q -p no:cacheprovider $(PYTEST_ARGS) tests/e2e
endif

run_valgrind = @for t in $(if $(UNIT),$(unit_TESTS)); do $(PATIENT) \
	$(SUMMARY) run $(RESULTS) valgrind/$$t tests/tools/valgrind $(B)/tests/unit/test_$$t; done

define run_lint
@for c in $(LINT); do $(SUMMARY) run $(RESULTS) lint/$$c tests/tools/lint $$c; done
@mkdir -p $(B)-lint && cp -p $(B)/config.mk $(B)-lint/
@$(SUMMARY) run $(RESULTS) lint/warnings \
	$(MAKE) --no-print-directory B=$(B)-lint WERROR=1 -k built
endef

.PHONY: check check-unit check-e2e check-valgrind lint
check: built
	$(begin)
	$(run_unit)
	$(run_e2e)
	$(total)
check-unit: unit-programs
	$(begin)
	$(run_unit)
	$(total)
check-e2e: programs tools
	$(begin)
	$(run_e2e)
	$(total)
check-valgrind: unit-programs
	$(begin)
	$(run_valgrind)
	$(total)
lint:
	$(begin)
	$(run_lint)
	$(total)

# A second build, and the same tests over it. What a sanitizer finds in a program whose output no
# test looks at goes to a file, and any such file is a failure.
ASAN := $(B)-asan
REPORTS = $(abspath $(ASAN))/reports
SANITIZED = ASAN_OPTIONS=detect_leaks=1:log_path=$(REPORTS)/report \
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(REPORTS)/report

.PHONY: asan-built asan-run check-asan
asan-built:
	@mkdir -p $(ASAN) && cp -p $(B)/config.mk $(ASAN)/
	@$(MAKE) --no-print-directory B=$(ASAN) SANITIZE=address,undefined built
asan-run:
	$(begin)
	$(run_unit)
	$(run_e2e)

define run_asan
@rm -rf $(REPORTS) && mkdir -m 1777 -p $(REPORTS)
@$(SANITIZED) $(MAKE) --no-print-directory B=$(ASAN) SANITIZE=address,undefined asan-run
@$(SUMMARY) run $(ASAN)/results reports sh -c '! cat $(REPORTS)/* 2>/dev/null | grep .'
endef

check-asan: asan-built
	$(run_asan)
	@$(SUMMARY) total $(ASAN)/results

# The library for workers under the thread sanitizer: a third build, of its tests alone. Where a
# kernel lays memory out in a way that the sanitizer's runtime cannot take, it says so at once.
TSAN := $(B)-tsan
TSAN_TESTS := $(filter elasticd_%,$(unit_TESTS))
CAN_TSAN = $(shell d=$$(mktemp -d) && echo 'int main(void) { return 0; }' | \
	$(CC) -fsanitize=thread -pie -fPIE -x c -o $$d/t - 2>/dev/null && \
	$$d/t >/dev/null 2>&1 && echo 1; rm -rf "$$d")

ifeq ($(UNIT),)
run_tsan = @$(SUMMARY) run $(RESULTS) tsan sh -c 'echo configured without check; exit 77'
else
define run_tsan
$(if $(CAN_TSAN),,@$(SUMMARY) run $(RESULTS) tsan sh -c \
	'echo no thread sanitizer that runs here; exit 77')
@mkdir -p $(TSAN) && cp -p $(B)/config.mk $(TSAN)/
$(if $(CAN_TSAN),@$(SUMMARY) run $(RESULTS) tsan/build $(MAKE) --no-print-directory B=$(TSAN) \
	SANITIZE=thread $(TSAN_TESTS:%=$(TSAN)/tests/unit/test_%))
@for t in $(if $(CAN_TSAN),$(TSAN_TESTS)); do $(PATIENT) \
	TSAN_OPTIONS=exitcode=66:halt_on_error=1 \
	$(SUMMARY) run $(RESULTS) tsan/$$t $(TSAN)/tests/unit/test_$$t; done
endef
endif

.PHONY: check-tsan
check-tsan:
	$(begin)
	$(run_tsan)
	$(total)

# Fuzz targets are built by clang in a directory of their own; what they learn stays there, and the
# seeds of tests/fuzz/corpus are only read.
FUZZ := $(B)-fuzz
FUZZ_SANITIZE := address,undefined,fuzzer-no-link
FUZZERS := $(addprefix $(B)/tests/fuzz/fuzz_,$(fuzz_TARGETS))
CAN_FUZZ = $(shell echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	$(CLANG) -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null && echo 1)

define run_fuzz
$(if $(CAN_FUZZ),,@$(SUMMARY) run $(RESULTS) fuzz sh -c 'echo no clang with libFuzzer; exit 77')
@mkdir -p $(FUZZ) && cp -p $(B)/config.mk $(FUZZ)/
$(if $(CAN_FUZZ),@$(SUMMARY) run $(RESULTS) fuzz/build $(MAKE) --no-print-directory B=$(FUZZ) \
	CC=$(CLANG) WARN=-w SANITIZE=$(FUZZ_SANITIZE) fuzz-programs)
@for t in $(if $(CAN_FUZZ),$(fuzz_TARGETS)); do mkdir -p $(FUZZ)/corpus/$$t; \
	$(SUMMARY) run $(RESULTS) fuzz/$$t $(FUZZ)/tests/fuzz/fuzz_$$t -timeout=10 \
	-rss_limit_mb=2048 -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	-artifact_prefix=$(FUZZ)/corpus/$$t- $(FUZZ)/corpus/$$t tests/fuzz/corpus/$$t; done
endef

# All of the above with one total, as CI runs it.
.PHONY: check-all run-all
check-all: run-all
	$(total)
run-all: built asan-built
	$(begin)
	$(run_lint)
	$(run_unit)
	$(run_e2e)
	$(run_valgrind)
	$(run_asan)
	@cp -r $(ASAN)/results $(RESULTS)/asan
	$(run_tsan)
	$(run_fuzz)

$(B)/tests/fuzz/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(ALLLIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -fsanitize=fuzzer -o $@ $< $(ALLLIBS) $(LIBS)

.PHONY: fuzz fuzz-programs
fuzz-programs: $(FUZZERS)
fuzz:
	$(begin)
	$(run_fuzz)
	$(total)

ALLSRC := $(common_SRC) $(agent_SRC) $(daemon_SRC) $(client_SRC) \
	$(addsuffix /main.c,agent daemon client) $(foreach p,$(example_PROGRAMS),$(p).c $($(p)_SRC))
.PHONY: analyze
analyze:
	$(begin)
	@for f in $(ALLSRC); do $(SUMMARY) run $(RESULTS) analyze/$$f $(CLANG) --analyze \
	  --analyzer-output text -Xclang -analyzer-werror $(STD) $(DEFS) -I. $(PKGFLAGS) $$f; done
	$(total)

# Line coverage of everything but the tests themselves, by gcc's own gcov.
COV := $(B)-cov
.PHONY: coverage
coverage:
	@mkdir -p $(COV) && cp -p $(B)/config.mk $(COV)/
	@find $(COV) -name '*.gcda' -delete
	-@$(MAKE) --no-print-directory B=$(COV) CFLAGS='-g -O1 --coverage -fprofile-update=atomic' \
	  LDFLAGS=--coverage check
	@tests/tools/coverage $(COV)/obj

.PHONY: bench
bench: programs tools
	ELASTIC_BUILD=$(abspath $(B)) $(PYTHON) bench/run.py $(BENCH_ARGS)
