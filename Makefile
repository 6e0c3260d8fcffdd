# SPDX-License-Identifier: Apache-2.0
# One Makefile for everything. Each room lists its files in <room>/sources.mk.
# B is the build directory; another one with SANITIZE= gives a second, instrumented build.
MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
B ?= build
SANITIZE ?=
V ?= 0
Q := $(if $(filter 1,$(V)),,@)
say = $(if $(filter 1,$(V)),,@printf '  %-7s %s\n' $(1) $(2);)

.PHONY: all
all: programs

-include $(B)/config.mk
ifndef VERSION
ifeq ($(filter help clean distclean,$(MAKECMDGOALS)),)
$(error not configured: run ./bootstrap, or: autoconf && mkdir -p $(B) && (cd $(B) && ../configure))
endif
endif

ROOMS := common agent daemon client worker examples tests
include $(addsuffix /sources.mk,$(ROOMS))

STD := -std=gnu17 -D_GNU_SOURCE
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith \
	-Wwrite-strings -Wformat=2 -Wundef -Wvla -Wno-unused-parameter $(if $(WERROR),-Werror)
# Objects name no directory but the tree's own, so builds in two places are the same, byte for byte.
fortify = $(if $(SANITIZE)$(filter -O0,$(CFLAGS))$(findstring _FORTIFY_SOURCE,$(CPPFLAGS) $(CFLAGS)),,\
	-D_FORTIFY_SOURCE=2)
HARDEN := -ffile-prefix-map=$(CURDIR)=. -fstack-protector-strong -fPIE $(fortify)
SANFLAGS := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all)
DEFS := -DVERSION='"$(VERSION)"' -DLIBEXECDIR='"$(libexecdir)/elasticd"' \
	-DSYSCONFDIR='"$(sysconfdir)"' -DBINDIR='"$(bindir)"' \
	-DHAVE_SYSTEMD=$(HAVE_SYSTEMD) -DHAVE_YAML=$(HAVE_YAML) -DHAVE_ZSTD=$(HAVE_ZSTD) \
	-DHAVE_CURL=$(or $(HAVE_CURL),0) -DHAVE_OPENSSL=$(or $(HAVE_OPENSSL),0) \
	-DHAVE_NCURSES=$(or $(HAVE_NCURSES),0)
PKGFLAGS := $(EVENT_CFLAGS) $(JANSSON_CFLAGS) $(INIH_CFLAGS) $(SYSTEMD_CFLAGS) $(YAML_CFLAGS) $(ZSTD_CFLAGS) \
	$(CURL_CFLAGS)
ALLCFLAGS = $(STD) $(WARN) $(HARDEN) $(SANFLAGS) $(DEFS) -I. $(PKGFLAGS) $(CPPFLAGS) $(CFLAGS)
ALLLDFLAGS = -pthread -pie -Wl,--as-needed -Wl,-z,relro,-z,now $(SANFLAGS) $(LDFLAGS)
LIBS := $(EVENT_LIBS) $(JANSSON_LIBS) $(INIH_LIBS) $(SYSTEMD_LIBS) $(YAML_LIBS) $(ZSTD_LIBS) $(NCURSES_LIBS) -lm

obj = $(patsubst %.c,$(B)/obj/%.o,$(1))

# Tests are not optimised like what they test: a third of a build would be spent on that.
TEST_CFLAGS ?= -O0 -U_FORTIFY_SOURCE

# What a compiler says is shown, and kept beside the object: "make lint" wants these files empty.
define compile
@mkdir -p $(@D)
$(call say,CC,$<)$(CC) $(1) -MMD -MP -c -o $@ $< 2> $(@:.o=.warnings); \
	s=$$?; cat $(@:.o=.warnings) >&2; exit $$s
endef
GENOBJ := $(addprefix $(B)/obj/gen/,manager_idl.o worker_idl.o queue_idl.o peer_idl.o doctor_idl.o)
PLOTOBJ := $(addprefix $(B)/obj/gen/,plot_style_text.o plot_script_text.o)

# Everything but main() is in a library, so that tests link what runs.
$(B)/libcommon.a: $(call obj,$(common_SRC)) $(GENOBJ)
$(B)/libagent.a: $(call obj,$(agent_SRC))
$(B)/libdaemon.a: $(call obj,$(daemon_SRC))
$(B)/libclient.a: $(call obj,$(client_SRC)) $(PLOTOBJ)
LIBAGENT := $(B)/libagent.a $(B)/libcommon.a
LIBDAEMON := $(B)/libdaemon.a $(B)/libcommon.a
LIBCLIENT := $(B)/libclient.a $(B)/libcommon.a

$(B)/elastic-agent: $(call obj,agent/main.c) $(LIBAGENT)
$(B)/elasticd: $(call obj,daemon/main.c) $(LIBDAEMON)
$(B)/elasticctl: $(call obj,client/main.c) $(LIBCLIENT)
PROGRAMS := $(B)/elastic-agent $(B)/elasticd $(B)/elasticctl
MODULES := $(if $(filter 1,$(HAVE_OPENSSL)),$(B)/link_tls.so)
LIBRARY := $(addprefix $(B)/libelasticd.,so.0 so a)
EXAMPLES := $(addprefix $(B)/,$(example_PROGRAMS))
TOOLS := $(addprefix $(B)/,$(tool_PROGRAMS))

.PHONY: programs
programs: $(PROGRAMS) $(MODULES) $(LIBRARY) $(EXAMPLES) $(B)/elasticd.pc

$(PROGRAMS):
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LIBS)

$(EXAMPLES) $(TOOLS): $(B)/%: $(B)/obj/%.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(CC) $(ALLLDFLAGS) -o $@ $(filter %.o,$^) $(filter %.a,$^) \
	  $(if $(filter %.a,$^),$(JANSSON_LIBS)) $(MORE_LIBS) -lm
$(foreach p,$(example_PROGRAMS),$(eval $(B)/$(p): $(call obj,$($(p)_SRC))))
$(addprefix $(B)/,$(library_TOOLS) $(library_EXAMPLES)): $(B)/libelasticd.a
$(addprefix $(B)/,$(agent_TOOLS)): $(LIBAGENT)
$(addprefix $(B)/,$(agent_TOOLS)): MORE_LIBS = $(LIBS)

# The library for workers goes into processes that are not ours: position-independent objects of its
# own, and nothing is visible but its interface, in the archive too. The shared one is never
# instrumented: what loads it (a Python) is not. An instrumented build takes that of the build PLAIN.
# Nothing of it is optimised at link time: what is hidden could not be taken from the archive then.
OBJCOPY ?= objcopy
libdir ?= $(exec_prefix)/lib
includedir ?= $(prefix)/include
LIBSAN := $(if $(SANITIZE),san,plain)
LIBCFLAGS := $(STD) $(WARN) -ffile-prefix-map=$(CURDIR)=. -fstack-protector-strong -fPIC -fvisibility=hidden $(DEFS) -I. \
	$(JANSSON_CFLAGS)
$(B)/obj/lib-plain/%.o: %.c $(B)/config.mk
	$(call compile,$(LIBCFLAGS) $(CPPFLAGS) $(CFLAGS) -fno-lto)
$(B)/obj/lib-san/%.o: %.c $(B)/config.mk
	$(call compile,$(LIBCFLAGS) $(SANFLAGS) $(CPPFLAGS) $(CFLAGS) -fno-lto)

ifdef PLAIN
$(B)/libelasticd.so.0: $(PLAIN)/libelasticd.so.0
	@cp -p $< $@
else
$(B)/libelasticd.so.0: $(worker_SRC:%.c=$(B)/obj/lib-plain/%.o) worker/elasticd.map
	$(call say,LINK,$@)$(CC) -shared -Wl,-soname,libelasticd.so.0 -Wl,--as-needed \
	  -Wl,--version-script=worker/elasticd.map -Wl,-z,defs,-z,nodelete,-z,relro,-z,now \
	  $(LDFLAGS) -o $@ $(filter %.o,$^) $(JANSSON_LIBS)
endif
$(B)/libelasticd.so: $(B)/libelasticd.so.0
	@ln -sf $(<F) $@
$(B)/libelasticd.a: $(worker_SRC:%.c=$(B)/obj/lib-$(LIBSAN)/%.o)
	@rm -f $@
	@$(CC) -r -nostdlib -o $(B)/obj/libelasticd.o $^
	@$(OBJCOPY) --localize-hidden $(B)/obj/libelasticd.o
	$(call say,AR,$@)$(AR) crD $@ $(B)/obj/libelasticd.o

# Never instrumented either: it has one symbol, and no code of ours but its own.
$(B)/link_tls.so: $(module_SRC) agent/link/tls_module.h $(B)/config.mk
	$(call say,LINK,$@)$(CC) -shared -Wl,--as-needed -Wl,-z,defs,-z,nodelete,-z,relro,-z,now \
	  $(LIBCFLAGS) $(OPENSSL_CFLAGS) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -o $@ $(module_SRC) \
	  $(OPENSSL_LIBS)

# pc PREFIX, LIBDIR, INCLUDEDIR: what pkg-config reads. That of the build tree lets a program find the
# library there when it runs, too.
pc = sed -e 's|@prefix@|$(1)|g' -e 's|@libdir@|$(2)|g' -e 's|@includedir@|$(3)|g' \
	-e 's|@version@|$(VERSION)|g' worker/elasticd.pc.in
$(B)/elasticd.pc: worker/elasticd.pc.in $(B)/config.mk
	$(call say,GEN,$@)$(call pc,$(CURDIR),$(abspath $(B)),$(CURDIR)/worker) | \
	  sed 's|^Libs:.*|& -Wl,-rpath,$${libdir}|' > $@

$(B)/%.a:
	@rm -f $@
	$(call say,AR,$@)$(AR) crD $@ $^

$(B)/obj/%.o: %.c $(B)/config.mk
	$(call compile,$(ALLCFLAGS) $(if $(filter tests/%,$*),$(TEST_CFLAGS)))

$(B)/obj/gen/%.o: $(B)/gen/%.c
	$(call compile,$(ALLCFLAGS))

# carry HEADER, NAME: makes the text of a file the string NAME.
define carry
@mkdir -p $(@D)
$(call say,GEN,$@){ printf '#include "%s"\nconst char %s[] =\n' $(1) $(2); \
	sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n"/' $<; printf ';\n'; } > $@
endef

# The interface files are the specification; the programs carry their text.
$(B)/gen/manager_idl.c: common/varlink/io.elasticd.Manager.varlink
$(B)/gen/worker_idl.c: common/varlink/io.elasticd.Worker.varlink
$(B)/gen/queue_idl.c: common/varlink/io.elasticd.Queue.varlink
$(B)/gen/peer_idl.c: common/varlink/io.elasticd.Peer.varlink
$(B)/gen/doctor_idl.c: common/varlink/io.elasticd.Doctor.varlink
$(B)/gen/%_idl.c:
	$(call carry,common/varlink/$*_idl.h,$*_idl)
# The picture of a run carries its colours, and the page its script.
$(B)/gen/plot_style_text.c: client/plot/plot.css
$(B)/gen/plot_script_text.c: client/plot/plot.js
$(B)/gen/%_text.c:
	$(call carry,client/plot/svg.h,$*_text)

-include $(shell find $(B)/obj -name '*.d' 2>/dev/null)

include tests/targets.mk
include packaging/targets.mk

systemddir = $(patsubst %/system,%,$(systemdsystemunitdir))

.PHONY: install
install: programs
	$(INSTALL) -d $(addprefix $(DESTDIR),$(bindir) $(sbindir) $(libexecdir)/elasticd \
		$(libdir)/pkgconfig $(includedir) $(mandir)/man1 $(mandir)/man3 $(mandir)/man5 $(mandir)/man7 $(mandir)/man8 $(systemdsystemunitdir) \
		$(addprefix $(systemddir)/,user system-preset user-preset catalog) \
		$(prefix)/lib/sysusers.d $(prefix)/lib/tmpfiles.d $(sysconfdir)/elasticd \
		$(datadir)/bash-completion/completions $(datadir)/zsh/site-functions \
		$(datadir)/fish/vendor_completions.d)
	$(INSTALL) -m 755 $(B)/elasticctl $(DESTDIR)$(bindir)/
	$(INSTALL) -m 755 $(B)/elasticd $(DESTDIR)$(sbindir)/
	$(INSTALL) -m 755 $(B)/elastic-agent $(DESTDIR)$(libexecdir)/elasticd/
	$(if $(MODULES),$(INSTALL) -m 755 $(MODULES) $(DESTDIR)$(libexecdir)/elasticd/)
	$(INSTALL) -m 755 $(B)/libelasticd.so.0 $(DESTDIR)$(libdir)/
	ln -sf libelasticd.so.0 $(DESTDIR)$(libdir)/libelasticd.so
	$(INSTALL) -m 644 $(B)/libelasticd.a $(DESTDIR)$(libdir)/
	$(INSTALL) -m 644 worker/elasticd.h worker/elasticd_queue.h $(DESTDIR)$(includedir)/
	$(call pc,$(prefix),$(libdir),$(includedir)) > $(DESTDIR)$(libdir)/pkgconfig/elasticd.pc
	chmod 644 $(DESTDIR)$(libdir)/pkgconfig/elasticd.pc
	$(if $(PYTHONDIR),$(INSTALL) -d $(DESTDIR)$(PYTHONDIR)/elasticd)
	$(if $(PYTHONDIR),$(INSTALL) -m 644 worker/python/elasticd/*.py worker/python/elasticd/py.typed \
	  $(DESTDIR)$(PYTHONDIR)/elasticd/)
	for f in $(MANUALS); do t=$(DESTDIR)$(mandir)/man$${f##*.}/$${f##*/}; \
	  sed 's|/etc/elasticd|$(sysconfdir)/elasticd|g' $$f > $$t && chmod 644 $$t || exit 1; done
	unit() { sed 's|@sbindir@|$(sbindir)|g' etc/elasticd.$$1.in > $(DESTDIR)$$2 && chmod 644 $(DESTDIR)$$2; }; \
	for u in service socket; do unit $$u $(systemdsystemunitdir)/elasticd.$$u && \
	  unit user.$$u $(systemddir)/user/elasticd.$$u || exit 1; done
	for d in $(systemdsystemunitdir) $(systemddir)/user; do \
	  $(INSTALL) -m 644 etc/elasticd.slice $(DESTDIR)$$d/ || exit 1; done
	$(INSTALL) -m 644 etc/elasticd.preset $(DESTDIR)$(systemddir)/system-preset/80-elasticd.preset
	$(INSTALL) -m 644 etc/elasticd.user.preset $(DESTDIR)$(systemddir)/user-preset/80-elasticd.preset
	$(INSTALL) -m 644 etc/elasticd.catalog $(DESTDIR)$(systemddir)/catalog/
	$(INSTALL) -m 644 etc/elasticd.sysusers $(DESTDIR)$(prefix)/lib/sysusers.d/elasticd.conf
	$(INSTALL) -m 644 etc/elasticd.tmpfiles $(DESTDIR)$(prefix)/lib/tmpfiles.d/elasticd.conf
	test -e $(DESTDIR)$(sysconfdir)/elasticd/elasticd.conf || \
	  $(INSTALL) -m 644 etc/elasticd.conf $(DESTDIR)$(sysconfdir)/elasticd/elasticd.conf
	cd $(DESTDIR)$(datadir) && complete() { $(abspath $(B))/elasticctl completion $$1 > $$2 && chmod 644 $$2; } && \
	  complete bash bash-completion/completions/elasticctl && complete zsh zsh/site-functions/_elasticctl && \
	  complete fish fish/vendor_completions.d/elasticctl.fish

# A configuration that was changed stays, and so does a directory that has files of others.
MANUALS := $(wildcard man/*.[13578])
INSTALLED = $(bindir)/elasticctl $(sbindir)/elasticd \
	$(addprefix $(libexecdir)/elasticd/,elastic-agent link_tls.so) \
	$(addprefix $(libdir)/,libelasticd.so.0 libelasticd.so libelasticd.a pkgconfig/elasticd.pc) \
	$(addprefix $(includedir)/,elasticd.h elasticd_queue.h) \
	$(foreach f,$(MANUALS),$(mandir)/man$(subst .,,$(suffix $f))/$(notdir $f)) \
	$(addprefix $(systemdsystemunitdir)/elasticd.,service socket slice) \
	$(addprefix $(systemddir)/user/elasticd.,service socket slice) \
	$(addprefix $(systemddir)/,system-preset/80-elasticd.preset user-preset/80-elasticd.preset) \
	$(systemddir)/catalog/elasticd.catalog \
	$(addprefix $(prefix)/lib/,sysusers.d/elasticd.conf tmpfiles.d/elasticd.conf) \
	$(datadir)/bash-completion/completions/elasticctl \
	$(datadir)/zsh/site-functions/_elasticctl \
	$(datadir)/fish/vendor_completions.d/elasticctl.fish \
	$(if $(PYTHONDIR),$(PYTHONDIR)/elasticd)
.PHONY: uninstall
uninstall:
	rm -rf $(addprefix $(DESTDIR),$(INSTALLED))
	! cmp -s etc/elasticd.conf $(DESTDIR)$(sysconfdir)/elasticd/elasticd.conf || \
	  rm $(DESTDIR)$(sysconfdir)/elasticd/elasticd.conf
	-rmdir --ignore-fail-on-non-empty $(addprefix $(DESTDIR),$(libexecdir)/elasticd $(sysconfdir)/elasticd)

.PHONY: clean distclean help
clean:
	rm -rf $(B)/obj $(B)/gen $(B)/*.a $(LIBRARY) $(MODULES) $(PROGRAMS) $(B)/examples $(B)/tests

distclean:
	rm -rf build build-*/ configure autom4te.cache

help:
	@echo 'make                programs and examples, in $(B)/'
	@echo 'make check          style, unit and most end-to-end tests'
	@echo 'make check-ci       all of these, and under sanitizers what abuses, stresses or parses'
	@echo 'make check-asan     unit and end-to-end tests under address and undefined sanitizers'
	@echo 'make check-valgrind unit tests under valgrind'
	@echo 'make check-tsan     tests of the library for workers under the thread sanitizer'
	@echo 'make lint           format, style rules, man pages, no warnings of the compiler'
	@echo 'make check-all      all of these with one total, before a release'
	@echo 'make analyze        clang static analyser'
	@echo 'make fuzz           each libFuzzer target for FUZZ_SECONDS (20)'
	@echo 'make bench          figures beside their peers, table and JSON'
	@echo 'make coverage       line coverage of unit and end-to-end tests'
	@echo 'make dist           the tarball of this version; distcheck tries it, deb, rpm and wheel build from it'
	@echo 'make install        DESTDIR and the GNU directories are honoured; PYTHONDIR for the package'
	@echo 'Variables: B=DIR  V=1  WERROR=1  SANITIZE=address,undefined  JOBS=N suites side by side'
