# SPDX-License-Identifier: Apache-2.0
common_SRC := \
	common/varlink_frame.c \
	common/varlink_idl.c \
	common/varlink_message.c \
	common/varlink_socket.c \
	common/varlink_validate.c \
	common/spec.c \
	common/spec_check.c \
	common/spec_describe.c \
	common/spec_keys.c \
	common/spec_limits.c \
	common/spec_list.c \
	common/spec_policy.c \
	common/spec_resolve.c \
	common/spec_scalar.c \
	common/spec_string.c \
	common/spec_walk.c \
	common/duration.c \
	common/quote.c \
	common/ranks.c \
	common/scan.c \
	common/signals.c \
	common/size.c \
	common/stdmap.c \
	common/paths.c \
	common/file.c \
	common/json.c \
	common/loop.c \
	common/printable.c \
	common/report.c \
	common/error.c \
	common/log.c \
	common/proc.c \
	common/sweep.c
