/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stream that goes through the agent. The agent reads the worker's pipe and writes the file, with
 * stamps and rotation, or, without files, hands the lines to the console only. A full disk never
 * holds a worker up: what cannot be written waits in a bounded buffer, bytes beyond it are dropped
 * and counted, and a line in the file says how many once there is room. Without files, a slow
 * console holds the worker up; a console that takes nothing at all for LOG_PIPE_STALL_MS loses
 * lines instead.
 */

#include "agent/logs/compress.h"
#include "agent/logs/tee.h"
#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct log_pipe;

/* A console that takes nothing for so long is stalled. */
enum { LOG_PIPE_STALL_MS = 1000 };

struct log_pipe_options {
	const char *path; /* copied; NULL: no file */
	int rank;	  /* for hooks */
	bool timestamps;
	int64_t max_size; /* 0: no rotation */
	int keep;
	struct log_compress *compress; /* borrowed */
	/* The disk has become full for the file, or (full false) has room again. */
	void (*full)(void *arg, int rank, const char *path, bool full);
	/* Another failure, reported once: the rest of the stream is dropped. */
	void (*failed)(void *arg, int rank, const char *path, int error);
	/* The file was removed or moved, and a new one begun under its name. */
	void (*vanished)(void *arg, int rank, const char *path);
	void *arg;
};

/* Opens the file and the pipe; ret_fd is the worker's end (owned by the caller). Returns 0 or a
 * negative errno. */
_must_check_ int log_pipe_new(
	struct loop *loop, const struct log_pipe_options *opt, int *ret_fd, struct log_pipe **ret);
/* Reads what is in the pipe, writes what the disk takes, and closes. The tee stays. */
void log_pipe_end(struct log_pipe *p);
/* As log_pipe_end(), and frees. */
struct log_pipe *log_pipe_free(struct log_pipe *p);

/* Sets the tee that follows the file or, without one, gets the lines. It must outlive the pipe. */
void log_pipe_set_tee(struct log_pipe *p, struct tee_stream *tee);

/* Reads what is in the pipe now. */
void log_pipe_drain(struct log_pipe *p);
/* The console may have room again. */
void log_pipe_console_ready(struct log_pipe *p);

/* The last lines of a stream without file, also after its end; borrowed until the next read. */
const char *log_pipe_recent(const struct log_pipe *p, size_t *ret_len);
