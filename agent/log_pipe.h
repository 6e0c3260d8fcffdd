/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A stream that goes through the agent: it reads the worker's pipe and writes the file, with time
 * stamps, and rotates it; or there is no file, and the lines go to the console only.
 * The worker is never held up by a full disk: what cannot be written waits in a bounded buffer,
 * what is beyond it is counted and dropped, and a line in the file says so once there is room
 * again. A console without files holds a worker up as long as it takes something; one that stands
 * still loses lines.
 */

#include "agent/log_compress.h"
#include "agent/tee.h"
#include "common/cleanup.h"
#include "common/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct log_pipe;

enum {
	LOG_PIPE_BACKLOG = 256 * 1024, /* bytes that wait for a full disk */
	LOG_PIPE_RETRY_MS = 1000,
	LOG_PIPE_STALL_MS = 1000, /* a console that takes nothing for so long stands still */
	LOG_PIPE_RECENT = 8192,	  /* bytes kept of a stream without file */
};

struct log_pipe_options {
	const char *path; /* copied; NULL: no file */
	int rank;	  /* for hooks */
	bool timestamps;
	int64_t max_size; /* 0: no rotation */
	int keep;
	struct log_compress *compress; /* borrowed */
	/* The disk has become full for the file, or has room again. */
	void (*full)(void *arg, int rank, const char *path, bool full);
	/* Another failure, once: the rest of the stream is dropped. */
	void (*failed)(void *arg, int rank, const char *path, int error);
	/* Somebody removed or moved the file; it was begun anew. */
	void (*vanished)(void *arg, int rank, const char *path);
	void *arg;
};

/* Opens the file and the pipe; ret_fd is the worker's end (owned by the caller). Returns 0 or a
 * negative errno. */
_must_check_ int log_pipe_new(
	struct loop *loop, const struct log_pipe_options *opt, int *ret_fd, struct log_pipe **ret);
/* Reads what is in the pipe, writes what the disk takes, and closes. The tee stays. */
struct log_pipe *log_pipe_free(struct log_pipe *p);

/* The stream that follows the file, or is fed where there is none; it ends after the pipe. */
void log_pipe_set_tee(struct log_pipe *p, struct tee_stream *tee);

/* Reads what is in the pipe now. */
void log_pipe_drain(struct log_pipe *p);
/* The console may have room again. */
void log_pipe_ready(struct log_pipe *p);

/* The last lines of a stream without file; borrowed until the next read. */
const char *log_pipe_recent(const struct log_pipe *p, size_t *ret_len);
