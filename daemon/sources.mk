# SPDX-License-Identifier: Apache-2.0
daemon_SRC := \
	daemon/access.c \
	daemon/config.c \
	daemon/files.c \
	daemon/life.c \
	daemon/record.c
