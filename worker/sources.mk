# SPDX-License-Identifier: Apache-2.0
# The library, and what it takes from common/, compiled again so that it can be loaded anywhere.
worker_SRC := \
	worker/api.c \
	worker/beat.c \
	worker/calls.c \
	worker/connection.c \
	worker/errorfile.c \
	worker/failure.c \
	worker/local.c \
	worker/local_group.c \
	worker/local_kv.c \
	worker/local_preempt.c \
	worker/local_watch.c \
	worker/logline.c \
	worker/message.c \
	worker/open.c \
	worker/pipeline.c \
	worker/pool.c \
	worker/preempt.c \
	worker/process.c \
	worker/remote.c \
	worker/remote_group.c \
	worker/remote_pipeline.c \
	worker/remote_preempt.c \
	worker/remote_stream.c \
	worker/value.c \
	common/base64.c \
	common/error.c \
	common/file.c \
	common/flat.c \
	common/json.c \
	common/printable.c \
	common/status.c \
	common/varlink_frame.c \
	common/varlink_message.c \
	common/varlink_socket.c
