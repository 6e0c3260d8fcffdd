/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Waiting until all that the log files hold now has left through the tee and the console. */

#include "agent/tee.h"
#include "common/cleanup.h"
#include "common/loop.h"

struct log_drains;

/* tee and console (borrowed) may be NULL: then there is nothing to wait for. */
_must_check_ int log_drains_new(
	struct loop *loop, struct tee *tee, struct console *console, struct log_drains **ret);
/* Those that wait are not called any more. */
struct log_drains *log_drains_free(struct log_drains *d);

/* Marks the files' ends; fn is called when they were reached, or when for timeout_ms nothing was
 * read or written, or soon after most_ms. It may free the drains. Never calls from inside. */
_must_check_ int log_drains_add(
	struct log_drains *d, uint64_t timeout_ms, uint64_t most_ms, loop_fn fn, void *arg);

/* Nobody waits any more, now or later. */
void log_drains_end(struct log_drains *d);

/* Something was read or written: looks in this turn of the loop, not at once. */
void log_drains_progress(struct log_drains *d);
