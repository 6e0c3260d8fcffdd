# SPDX-License-Identifier: Apache-2.0
# The library, and what it takes from common/, compiled again so that it can be loaded anywhere.
worker_SRC := \
	worker/agent/group_calls.c \
	worker/agent/pipeline_calls.c \
	worker/agent/preemption_calls.c \
	worker/agent/queue_answers.c \
	worker/agent/queue_calls.c \
	worker/agent/repeated_calls.c \
	worker/agent/store_calls.c \
	worker/agent/streams.c \
	worker/agent/work_calls.c \
	worker/api/connect.c \
	worker/api/error_file.c \
	worker/api/log_line.c \
	worker/api/open.c \
	worker/api/pipeline.c \
	worker/api/preemption.c \
	worker/api/queue.c \
	worker/api/step.c \
	worker/api/store.c \
	worker/api/work.c \
	worker/base/answer_json.c \
	worker/base/calls.c \
	worker/base/connection.c \
	worker/base/failure.c \
	worker/base/message.c \
	worker/base/pool.c \
	worker/base/private_agent.c \
	worker/base/process_id.c \
	worker/base/values.c \
	worker/base/write_behind.c \
	common/base/error.c \
	common/base/file.c \
	common/base/paths.c \
	common/base/printable.c \
	common/base/private_dir.c \
	common/base/status.c \
	common/base/user_name.c \
	common/text/base64.c \
	common/text/json.c \
	common/text/json_scan.c \
	common/text/json_writer.c \
	common/varlink/frame.c \
	common/varlink/message.c \
	common/varlink/socket.c
