# SPDX-License-Identifier: Apache-2.0
common_SRC := \
	common/duration.c \
	common/quote.c \
	common/ranks.c \
	common/scan.c \
	common/signals.c \
	common/size.c \
	common/stdmap.c \
	common/paths.c \
	common/loop.c \
	common/printable.c \
	common/report.c \
	common/error.c \
	common/log.c \
	common/proc.c \
	common/sweep.c
