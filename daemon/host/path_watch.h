/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits until a path appears, however many of its directories are missing. Wakes the process only
 * when the next missing component is created.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

struct path_watch;

/* Calls fn each time when path (copied, absolute) is created; never for a path that exists already.
 * fn may free it. 0 or a negative errno. */
_must_check_ int path_watch_new(
	struct loop *loop, const char *path, loop_fn fn, void *arg, struct path_watch **ret);
struct path_watch *path_watch_free(struct path_watch *a);
