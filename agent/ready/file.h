/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits until a file is made or changed, however many of its directories are missing. The kernel
 * reports changes (agent/files/inotify.h), so it does not poll. It compares the file with what it
 * was before, and not with a clock: file systems have clocks of their own.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

struct ready_file;

/* path is absolute. fn runs once, when the file is there and differs from what it is now, never
 * inside this call. 0 or -ENOMEM. */
_must_check_ int ready_file_new(
	struct loop *loop, const char *path, loop_fn fn, void *arg, struct ready_file **ret);
struct ready_file *ready_file_free(struct ready_file *f);
