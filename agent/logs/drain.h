/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Waits until everything in the log files has left through the tee and the console. */

#include "agent/logs/tee.h"
#include "common/base/cleanup.h"
#include "common/loop/loop.h"

struct log_drains;

/* tee and console (borrowed) may be NULL: there is nothing to wait for there. */
_must_check_ int log_drains_new(
	struct loop *loop, struct tee *tee, struct console *console, struct log_drains **ret);
/* Drops the waits without calling back. */
struct log_drains *log_drains_free(struct log_drains *d);

/* Marks the present ends of the files, and calls fn when all up to there is out, when nothing was
 * read or written for timeout_ms, or soon after most_ms. fn may free the drains, and is never
 * called from inside log_drains_add(). */
_must_check_ int log_drains_add(
	struct log_drains *d, uint64_t timeout_ms, uint64_t most_ms, loop_fn fn, void *arg);

/* Ends all waits soon, present and future. */
void log_drains_end(struct log_drains *d);

/* The tee or console has read or written something: checks later in this turn of the loop. */
void log_drains_progress(struct log_drains *d);
