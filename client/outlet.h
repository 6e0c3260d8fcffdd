/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Standard output of a program with a loop: what is written is kept until a reader takes it, so
 * that a slow one never keeps the loop from its signals, and one that goes away is a callback. The
 * descriptor stays as it is (others share it): each write is one that a ready pipe takes whole.
 * Callers look at outlet_full() and wait for room, so what is kept stays bounded.
 */

#include "common/cleanup.h"
#include "common/loop.h"

#include <stddef.h>

struct outlet;

/* error: a negative errno of writing, -EPIPE where nobody reads any more. Runs once. */
typedef void (*outlet_gone_fn)(void *arg, int error);

/* drained runs whenever all is written that was kept. Returns 0 or a negative errno. */
_must_check_ int outlet_new(struct loop *loop, int fd, loop_fn drained, outlet_gone_fn gone,
	void *arg, struct outlet **ret);
struct outlet *outlet_free(struct outlet *o);
DEFINE_CLEANUP(struct outlet *, outlet_free)

/* Written when the loop turns. Without memory it is -ENOMEM, and nothing is kept of it. After gone
 * it is dropped. */
_must_check_ int outlet_write(struct outlet *o, const void *data, size_t len);

/* Whether a caller should wait until it is drained. */
bool outlet_full(const struct outlet *o);
bool outlet_empty(const struct outlet *o);
