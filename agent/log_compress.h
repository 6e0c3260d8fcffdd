/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compresses closed log files, one child process of the lowest priority for each, at most two at a
 * time. A file is replaced (stdout.log.3 -> stdout.log.3.zst) only when its compressed form is
 * complete; if anything goes wrong it stays as it is. Without libzstd it does nothing.
 */

#include "common/cleanup.h"

#include <stdbool.h>
#include <sys/types.h>

struct log_compress;

_must_check_ int log_compress_new(struct log_compress **ret);
/* Kills and reaps children that still work; their files stay uncompressed. */
struct log_compress *log_compress_free(struct log_compress *c);
DEFINE_CLEANUP(struct log_compress *, log_compress_free)

/* Never fails: what cannot be compressed stays. */
void log_compress_add(struct log_compress *c, const char *path);

/* The children that work now; borrowed until the next call. Returns how many. */
size_t log_compress_pids(const struct log_compress *c, const pid_t **ret);
/* A child was reaped; ok: it exited with 0. False when it is none of ours. */
bool log_compress_exited(struct log_compress *c, pid_t pid, bool ok);
