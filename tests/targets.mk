# SPDX-License-Identifier: Apache-2.0
# The targets that check: included by the Makefile, which defines the variables. Every suite goes
# through tests/tools/summary, so that each target ends with one line of counts and its status.

# unit_programs BUILD DIRECTORY, TESTS
unit_programs = $(foreach t,$(2),$(1)/tests/unit/$(dir $t)test_$(notdir $t))
UNIT := $(if $(filter 1,$(HAVE_CHECK)),$(call unit_programs,$(B),$(unit_TESTS)))
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
$(B)/tests/unit/%: $(B)/obj/tests/unit/%.o $(ALLLIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -o $@ $< $(ALLLIBS) $(LIBS) $(CHECK_LIBS)

# Those of the library for workers link it as workers do.
$(B)/tests/unit/worker/%: $(B)/obj/tests/unit/worker/%.o $(B)/libelasticd.a \
	$(B)/libcommon.a | $(B)/elastic-agent
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -o $@ $^ $(LIBS) $(CHECK_LIBS)

$(B)/tests/unit/agent/link/test_tls: | $(MODULES) $(B)/elastic-agent

.PHONY: unit-programs tools built
unit-programs: $(UNIT)
# A library's name is what the agent looks for.
FAKE_NVML := $(B)/tests/tools/nvml/libnvidia-ml.so.1
tools: $(TOOLS) $(B)/tests/tools/stall.so $(FAKE_NVML)
# Fuzzers need clang to run, and are compiled without it: else they no longer fit what they use.
fuzz_OBJECTS := $(call obj,$(fuzz_TARGETS:%=tests/fuzz/fuzz_%.c))
built: programs tools unit-programs $(if $(SANITIZE),,$(fuzz_OBJECTS))

# Preloaded into programs, so never instrumented, and without the C library's checked inlines.
$(B)/tests/tools/stall.so: tests/tools/stall.c $(B)/config.mk
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) -shared -fPIC $(STD) $(WARN) $(DEFS) -I. -U_FORTIFY_SOURCE -O1 \
	  -o $@ $< -ldl

$(FAKE_NVML): tests/tools/fake_nvml.c $(B)/config.mk
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) -shared -fPIC $(STD) $(WARN) $(DEFS) -I. -O1 -o $@ $<

# A list of suites has a line for each: its name, and the command with the quotes that xargs knows.
# Long ones come first, so that JOBS of them side by side end at about the same time. End-to-end
# tests, which are most of them, wait more than they compute: some for each processor keep it busy.
PROCESSORS := $(shell nproc)
JOBS ?= $(shell expr 4 '*' $(PROCESSORS))
define nl


endef
LIST = $(B)/suites-$@
run_list = $(file >$(LIST),$(subst <end>,$(nl),$(1)))@$(SUMMARY) many $(RESULTS) $(JOBS) < $(LIST)
# Meanwhile, with what processors the others leave.
run_aside = $(file >$(LIST),$(subst <end>,$(nl),$(1)))@nice -n 5 $(SUMMARY) many $(RESULTS) \
	$(PROCESSORS) < $(LIST)
begin = @rm -rf $(RESULTS)
total = @$(SUMMARY) total $(RESULTS)
none_for = $(1) sh -c 'echo $(2); exit 77'<end>

# Builds beside the first one, with as many jobs as that; each is a suite of its own, too.
submake = $(MAKE) $(if $(filter -j%,$(MAKEFLAGS)),,-j$(PROCESSORS)) --no-print-directory
build_in = @mkdir -p $(1) && cp -p $(B)/config.mk $(1)/
build_as = +@nice -n 5 $(SUMMARY) run $(RESULTS) $(1) $(submake) B=$(2)

# Instrumented code is looked at rather than fast; a compiler takes half as long then. Of debug
# information it has what a report shows: functions and lines.
plain_code = CFLAGS='$(patsubst -g%,-g1,$(filter-out -O%,$(CFLAGS))) -O1'

# Check gives a test 4 s by itself: too little for a machine that has other things to do.
PATIENT := CK_TIMEOUT_MULTIPLIER=150

# Check has a process for each test. Valgrind makes that dear, since each translates the code anew
# and looks for leaks at its end, as those with sanitizers do: there the tests of a program share
# one where they can, whose limit is for hangs, since Check has none then. Plain tests are kept
# apart, and so are sanitized ones in check-asan and check-all.
together = $(if $(filter $(1),$(pure_TESTS)),CK_FORK=no timeout --foreground 3600)

# unit NAME, BUILD DIRECTORY, VARIABLES AND WRAPPER, TESTS
unit = $(foreach t,$(4),$(1)/$t env $(PATIENT) $(strip $(3)) $(call unit_programs,$(2),$t)<end>)
ifeq ($(UNIT),)
unit_suites := $(call none_for,unit,configured without check)
else
unit_suites := $(call unit,unit,$(B),,$(unit_TESTS))
valgrind_suites := $(foreach n,$(unit_TESTS),\
	$(call unit,valgrind,$(B),$(call together,$n) tests/tools/valgrind,$n))
asan_unit_suites = $(call unit,asan/unit,$(ASAN),$(SANITIZED),$(unit_TESTS))
asan_unit_together = $(foreach n,$(unit_TESTS),\
	$(call unit,asan/unit,$(ASAN),$(SANITIZED) $(call together,$n),$n))
tsan_suites = $(call unit,tsan,$(TSAN),TSAN_OPTIONS=exitcode=66:halt_on_error=1,$(TSAN_TESTS))
endif

# e2e NAME, BUILD DIRECTORY, VARIABLES; e2e_of FILES, and the same. What a Python has of pytest's
# plugins takes longer to start than many a suite, and none is used. What workers import is compiled
# once, not by each of them.
E2E := $(subst /test_,/,$(patsubst tests/e2e/%.py,%,$(wildcard tests/e2e/*/test_*.py)))
E2E := $(long_E2E) $(filter-out $(long_E2E),$(E2E))
e2e = $(call e2e_of,$(E2E),$(1),$(2),$(3))
e2e_of = $(foreach t,$(1),$(2)/$t env PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 \
	PYTHONDONTWRITEBYTECODE= ELASTIC_BUILD=$(abspath $(3)) $(strip $(4)) \
	$(PYTHON) -m pytest -q -p no:cacheprovider $(PYTEST_ARGS) \
	tests/e2e/$(subst /,/test_,$t).py<end>)
ifeq ($(HAVE_PYTEST),)
e2e_suites = $(call none_for,e2e,no pytest here)
check_suites = $(e2e_suites)
waiting_suites = $(e2e_suites)
ci_suites = $(e2e_suites)
abuse_suites = $(call none_for,asan/e2e,no pytest here)
else
e2e_suites = $(call e2e,e2e,$(B))
check_suites = $(call e2e_of,$(filter-out $(ci_E2E),$(E2E)),e2e,$(B))
waiting_suites = $(call e2e_of,$(filter-out $(booted_E2E),$(E2E)),e2e,$(B))
ci_suites = $(call e2e_of,$(filter-out $(booted_E2E) $(filter $(ci_E2E),$(abuse_E2E)),\
	$(E2E)),e2e,$(B))
packaged = $(if $(CAN_DEB),ELASTIC_DEBS=$(abspath $(DEBS)))
booted_suites = $(call e2e_of,$(booted_E2E),e2e,$(B),$(packaged))
asan_e2e_suites = $(call e2e,asan/e2e,$(ASAN),$(SANITIZED))
abuse_suites = $(call e2e_of,$(abuse_E2E),asan/e2e,$(ASAN),$(SANITIZED))
endif

lint_suites := $(foreach c,$(LINT),lint/$c tests/tools/lint $c<end>)lint/warnings \
	sh -c '! find $(B)/obj -name "*.warnings" -exec cat {} + | grep .'<end>

.PHONY: check run-check check-unit check-e2e check-valgrind lint
check: run-check
	$(total)
run-check: export ELASTIC_CHECK := 1
run-check: built
	$(begin)
	$(call run_list,$(check_suites)$(unit_suites)$(lint_suites))
check-unit: unit-programs
	$(begin)
	$(call run_list,$(unit_suites))
	$(total)
check-e2e: programs tools
	$(begin)
	$(call run_list,$(e2e_suites))
	$(total)
check-valgrind: unit-programs
	$(begin)
	$(call run_list,$(valgrind_suites))
	$(total)
lint: built
	$(begin)
	$(call run_list,$(lint_suites))
	$(total)

# A second build, and the same tests over it. What a sanitizer finds in a program whose output no
# test looks at goes to a file, and any such file is a failure.
ASAN := $(B)-asan
REPORTS = $(abspath $(ASAN))/reports
SANITIZED = ASAN_OPTIONS=detect_leaks=1:log_path=$(REPORTS)/report \
	UBSAN_OPTIONS=print_stacktrace=1:log_path=$(REPORTS)/report
asan_suites = $(asan_e2e_suites)$(asan_unit_suites)

define build_asan
$(call build_in,$(ASAN))
@rm -rf $(REPORTS) && mkdir -m 1777 -p $(REPORTS)
$(call build_as,asan/build,$(ASAN)) PLAIN=$(B) $(plain_code) SANITIZE=address,undefined built
endef
asan_reports = @$(SUMMARY) run $(RESULTS) asan/reports \
	sh -c '! cat $(REPORTS)/* 2>/dev/null | grep .'

.PHONY: check-asan
check-asan: programs
	$(begin)
	$(build_asan)
	$(call run_list,$(asan_suites))
	$(asan_reports)
	$(total)

# The library for workers under the thread sanitizer: a third build, of its tests alone. Where a
# kernel lays memory out in a way that the sanitizer's runtime cannot take, it says so at once.
TSAN := $(B)-tsan
TSAN_TESTS := $(filter worker/%,$(unit_TESTS))
CAN_TSAN = $(shell d=$$(mktemp -d) && echo 'int main(void) { return 0; }' | \
	$(CC) -fsanitize=thread -pie -fPIE -x c -o $$d/t - 2>/dev/null && \
	$$d/t >/dev/null 2>&1 && echo 1; rm -rf "$$d")

define build_tsan
$(call build_in,$(TSAN))
$(if $(CAN_TSAN),$(call build_as,tsan/build,$(TSAN)) $(plain_code) SANITIZE=thread \
	$(if $(UNIT),$(call unit_programs,$(TSAN),$(TSAN_TESTS))))
endef
run_tsan = $(if $(CAN_TSAN),$(tsan_suites),$(call none_for,tsan,no thread sanitizer that runs here))

.PHONY: check-tsan
check-tsan:
	$(begin)
	$(build_tsan)
	$(call run_list,$(run_tsan))
	$(total)

# Fuzz targets are built by clang in a directory of their own; what they learn stays there, and the
# seeds of tests/fuzz/corpus are only read.
FUZZ := $(B)-fuzz
FUZZ_SANITIZE := address,undefined,fuzzer-no-link
FUZZERS := $(addprefix $(B)/tests/fuzz/fuzz_,$(fuzz_TARGETS))
CAN_FUZZ = $(shell echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' | \
	$(CLANG) -fsanitize=fuzzer -x c -o /dev/null - 2>/dev/null && echo 1)

define build_fuzz
$(call build_in,$(FUZZ))
@mkdir -p $(fuzz_TARGETS:%=$(FUZZ)/corpus/%)
$(if $(CAN_FUZZ),$(call build_as,fuzz/build,$(FUZZ)) CC=$(CLANG) WARN=-w $(plain_code) \
	SANITIZE=$(FUZZ_SANITIZE) fuzz-programs)
endef
fuzz_suites = $(foreach t,$(fuzz_TARGETS),fuzz/$t $(FUZZ)/tests/fuzz/fuzz_$t -timeout=60 \
	-rss_limit_mb=2048 -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 \
	-artifact_prefix=$(FUZZ)/corpus/$t- $(FUZZ)/corpus/$t tests/fuzz/corpus/$t<end>)
run_fuzz = $(if $(CAN_FUZZ),$(fuzz_suites),$(call none_for,fuzz,no clang with libFuzzer))

# Packages for the tests that boot a systemd. build_debs OPTIONS: noopt compiles faster.
DEBS := $(B)/debs
CAN_DEB = $(shell for c in dpkg-buildpackage dh systemctl; do \
	command -v $$c > /dev/null || exit; done; echo 1)
build_debs = $(if $(CAN_DEB),@rm -rf $(DEBS) && nice -n 5 $(SUMMARY) run $(RESULTS) packaging/deb \
	env -u MAKEFLAGS -u CFLAGS -u CC DEB_BUILD_OPTIONS='nocheck noautodbgsym $(1)' \
	$(MAKE) B=$(B) OUT=$(DEBS) deb)

# What CI runs: the checks, and under sanitizers the unit tests and those end-to-end tests that
# abuse, stress or parse. With -j what only computes goes beside what mostly waits.
.PHONY: check-ci run-ci ci-begin ci-computing ci-waiting
check-ci: run-ci
	$(total)
ci-begin: built
	$(begin)
ci-computing: ci-begin
	$(build_asan)
	$(call run_aside,$(asan_unit_together))
	$(call build_debs,noopt)
ci-waiting: ci-begin
	$(call run_list,$(ci_suites))
run-ci: ci-computing ci-waiting
	$(call run_list,$(booted_suites)$(abuse_suites)$(unit_suites)$(lint_suites))
	$(asan_reports)

# All of the above with one total, before a release.
.PHONY: check-all run-all
check-all: run-all
	$(total)
run-all: export ELASTIC_ALL := 1
run-all: built
	$(begin)
	$(build_asan)
	$(build_tsan)
	$(build_fuzz)
	$(call build_debs,)
	$(call run_list,$(asan_suites)$(waiting_suites)$(booted_suites)$(valgrind_suites)\
	$(run_tsan)$(lint_suites)$(unit_suites)$(run_fuzz)\
	packaging/distcheck $(submake) B=$(B) distcheck<end>)
	$(asan_reports)

$(B)/tests/fuzz/fuzz_%: $(B)/obj/tests/fuzz/fuzz_%.o $(ALLLIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -fsanitize=fuzzer -o $@ $< $(ALLLIBS) $(LIBS)

.PHONY: fuzz fuzz-programs
fuzz-programs: $(FUZZERS)
fuzz:
	$(begin)
	$(build_fuzz)
	$(call run_list,$(run_fuzz))
	$(total)

ALLSRC := $(common_SRC) $(agent_SRC) $(daemon_SRC) $(client_SRC) \
	$(addsuffix /main.c,agent daemon client) $(foreach p,$(example_PROGRAMS),$(p).c $($(p)_SRC))
analyze_suites = $(foreach f,$(ALLSRC),analyze/$f $(CLANG) --analyze --analyzer-output text \
	-Xclang -analyzer-werror $(STD) $(DEFS) -I. $(PKGFLAGS) $f<end>)
.PHONY: analyze
analyze:
	$(begin)
	$(call run_list,$(analyze_suites))
	$(total)

# Line coverage of everything but the tests themselves, by gcc's own gcov.
COV := $(B)-cov
.PHONY: coverage
coverage:
	@mkdir -p $(COV) && cp -p $(B)/config.mk $(COV)/
	@find $(COV) -name '*.gcda' -delete
	-@$(MAKE) --no-print-directory B=$(COV) CFLAGS='-g -O1 --coverage -fprofile-update=atomic' \
	  LDFLAGS=--coverage check-unit check-e2e
	@tests/tools/coverage $(COV)/obj

.PHONY: bench
bench: programs tools $(filter %/test_simulator,$(UNIT))
	ELASTIC_BUILD=$(abspath $(B)) $(PYTHON) bench/run.py $(BENCH_ARGS)
