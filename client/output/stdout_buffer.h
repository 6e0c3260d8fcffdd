/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Standard output of a program with a loop: keeps what is written until the reader takes it, so
 * that a slow reader never blocks the loop; a callback reports a reader that is gone. The
 * descriptor stays blocking (other processes share it): each write is small enough for a ready
 * pipe. Callers check outlet_full() and wait, so memory stays bounded.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stddef.h>

struct outlet;

/* error: a negative errno of writing, -EPIPE if the reader is gone. Runs once. */
typedef void (*outlet_gone_fn)(void *arg, int error);

/* drained runs whenever everything is written. Returns 0 or a negative errno. */
_must_check_ int outlet_new(struct loop *loop, int fd, loop_fn drained, outlet_gone_fn gone,
	void *arg, struct outlet **ret);
struct outlet *outlet_free(struct outlet *o);
DEFINE_CLEANUP(struct outlet *, outlet_free)

/* Writes data on the loop's next turn. -ENOMEM: nothing is written. After gone ran, drops it. */
_must_check_ int outlet_write(struct outlet *o, const void *data, size_t len);

/* Whether the caller should wait for drained before it writes more. */
bool outlet_full(const struct outlet *o);
bool outlet_empty(const struct outlet *o);
