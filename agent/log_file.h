/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A log file that the agent writes: stamps, rotation, and what happens when the disk is full. Knows
 * no loop: who owns it calls log_file_retry() while log_file_full().
 */

#include "agent/log_compress.h"
#include "common/cleanup.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct log_file;

struct log_file_options {
	const char *path; /* copied */
	bool timestamps;
	int64_t max_size;	       /* 0: no rotation */
	int keep;		       /* closed parts besides head and tail */
	size_t backlog;		       /* bytes that wait for a full disk */
	struct log_compress *compress; /* borrowed, or NULL */
	/* A new file was begun: fd is open on it for reading (taken). NULL: not wanted. */
	void (*rotated)(void *arg, int fd);
	/* Somebody removed or moved the file; it was begun anew. May be NULL. */
	void (*vanished)(void *arg, const char *path);
	void *arg;
};

/* A file that has something in it is closed as a part, which is never removed. Returns 0 or a
 * negative errno. */
_must_check_ int log_file_new(const struct log_file_options *opt, struct log_file **ret);
/* Writes what the disk takes. */
struct log_file *log_file_free(struct log_file *f);

/* Adds bytes that came at real_us. Returns 0, or a negative errno after which the file is closed
 * and takes nothing; a full disk is no error. */
_must_check_ int log_file_write(struct log_file *f, const char *data, size_t len, uint64_t real_us);

/* Bytes are waiting for room on the disk, or were dropped. */
bool log_file_full(const struct log_file *f);
/* Tries again. Returns as log_file_write(). */
_must_check_ int log_file_retry(struct log_file *f, uint64_t real_us);
