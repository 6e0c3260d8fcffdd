# SPDX-License-Identifier: Apache-2.0
# The library, and what it takes from common/, compiled again so that it can be loaded anywhere.
worker_SRC := \
	worker/alone.c \
	worker/answer.c \
	worker/control.c \
	worker/queue.c \
	worker/work.c \
	worker/writer.c \
	worker/remote_ask.c \
	worker/remote_queue.c \
	worker/remote_queue_answer.c \
	worker/remote_work.c \
	common/base/paths.c \
	common/base/private_dir.c \
	common/base/user_name.c \
	worker/api.c \
	worker/beat.c \
	worker/calls.c \
	worker/connection.c \
	worker/errorfile.c \
	worker/failure.c \
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
	common/text/base64.c \
	common/base/error.c \
	common/base/file.c \
	common/text/json_scan.c \
	common/text/json_writer.c \
	common/text/json.c \
	common/base/printable.c \
	common/base/status.c \
	common/varlink/frame.c \
	common/varlink/message.c \
	common/varlink/socket.c
