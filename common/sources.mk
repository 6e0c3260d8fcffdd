# SPDX-License-Identifier: Apache-2.0
common_SRC := \
	common/error.c \
	common/log.c
