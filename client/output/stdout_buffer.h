/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Standard output of a program with a loop: keeps what is written until the reader takes it, so
 * that a slow reader never blocks the loop; a callback reports a reader that is gone. The
 * descriptor stays blocking (other processes share it): each write is small enough for a ready
 * pipe. Callers check stdout_buffer_full() and wait, so memory stays bounded.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stddef.h>

struct stdout_buffer;

/* error: a negative errno of writing, -EPIPE if the reader is gone. Runs once. */
typedef void (*stdout_buffer_gone_fn)(void *arg, int error);

/* drained runs whenever everything is written. Returns 0 or a negative errno. */
_must_check_ int stdout_buffer_new(struct loop *loop, int fd, loop_fn drained,
	stdout_buffer_gone_fn gone, void *arg, struct stdout_buffer **ret);
struct stdout_buffer *stdout_buffer_free(struct stdout_buffer *o);
DEFINE_CLEANUP(struct stdout_buffer *, stdout_buffer_free)

/* Writes data on the loop's next turn. -ENOMEM: nothing is written. After gone ran, drops it. */
_must_check_ int stdout_buffer_write(struct stdout_buffer *o, const void *data, size_t len);

/* Whether the caller should wait for drained before it writes more. */
bool stdout_buffer_full(const struct stdout_buffer *o);
bool stdout_buffer_empty(const struct stdout_buffer *o);
