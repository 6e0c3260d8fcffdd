/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A log file that the agent writes: stamps, rotation, and a full disk. Knows no loop: while
 * log_file_full(), the owner calls log_file_retry().
 */

#include "agent/logs/compress.h"
#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct log_file;

struct log_file_options {
	const char *path; /* copied */
	bool timestamps;
	int64_t max_size;	       /* 0: no rotation */
	int keep;		       /* closed parts besides head and tail */
	size_t backlog;		       /* bytes kept in memory while the disk is full */
	struct log_compress *compress; /* borrowed, or NULL */
	/* A new file was begun; fd (taken) is open on it for reading. May be NULL. */
	void (*rotated)(void *arg, int fd);
	/* The file was removed or moved, and a new one begun under its name. May be NULL. */
	void (*vanished)(void *arg, const char *path);
	void *arg;
};

/* A file that is there and not empty is closed as a part, which is never removed. Returns 0 or a
 * negative errno. */
_must_check_ int log_file_new(const struct log_file_options *opt, struct log_file **ret);
/* Writes as much of what is waiting as the disk takes, and closes. */
struct log_file *log_file_free(struct log_file *f);

/* Adds bytes that came at real_us. A full disk is no error. After any other failure (negative
 * errno) the file is closed and takes nothing more. */
_must_check_ int log_file_write(struct log_file *f, const char *data, size_t len, uint64_t real_us);

/* Bytes are waiting for room on the disk, or were dropped. */
bool log_file_full(const struct log_file *f);
/* Tries again. Returns as log_file_write(). */
_must_check_ int log_file_retry(struct log_file *f, uint64_t real_us);
