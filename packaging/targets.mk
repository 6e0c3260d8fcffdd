# SPDX-License-Identifier: Apache-2.0
# The targets for packagers: included by the Makefile. packaging/README.md says what they need.
OUT ?= $(B)/dist
TARBALL := $(OUT)/elasticd-$(VERSION).tar.gz

.PHONY: dist distcheck
dist:
	@packaging/dist $(VERSION) $(OUT)
distcheck: dist
	@packaging/distcheck $(TARBALL)
	@PYTHON=$(PYTHON) packaging/reproducible $(TARBALL)

.PHONY: deb
deb: dist
	@packaging/build-deb $(TARBALL) $(OUT)

.PHONY: wheel
wheel: dist
	@PYTHON=$(PYTHON) packaging/build-wheel $(TARBALL) $(OUT)

.PHONY: rpm
rpm: dist
	@packaging/build-rpm $(TARBALL) $(OUT)

.PHONY: sbom
sbom: programs
	@mkdir -p $(OUT)
	@packaging/sbom $(VERSION) $(B) > $(OUT)/elasticd-$(VERSION).spdx.json
	@echo $(OUT)/elasticd-$(VERSION).spdx.json
