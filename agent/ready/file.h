/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits for a file that was made or written after a time, however many of its directories are
 * missing. The kernel reports changes (agent/files/inotify.h), so nothing looks at intervals.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <time.h>

struct ready_file;

/* path is absolute. since: of CLOCK_REALTIME_COARSE, by which the kernel stamps files. fn runs once
 * the file is there, never inside this call. -ENOMEM. */
_must_check_ int ready_file_new(struct loop *loop, const char *path, const struct timespec *since,
	loop_fn fn, void *arg, struct ready_file **ret);
struct ready_file *ready_file_free(struct ready_file *f);
