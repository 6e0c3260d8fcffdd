# SPDX-License-Identifier: Apache-2.0
# The targets that check: included by the Makefile, which defines the variables.

UNIT := $(if $(filter 1,$(HAVE_CHECK)),$(addprefix $(B)/tests/unit/test_,$(unit_TESTS)))
ALLLIBS := $(B)/libagent.a $(B)/libdaemon.a $(B)/libclient.a $(B)/libcommon.a

$(B)/tests/unit/test_%: $(B)/obj/tests/unit/test_%.o $(ALLLIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -o $@ $< $(ALLLIBS) $(LIBS) $(CHECK_LIBS)

.PHONY: unit-programs
unit-programs: $(UNIT)
