/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Waits until a file is made or changed, however many of its directories are missing. The kernel
 * reports changes (agent/files/inotify.h), so nothing looks at intervals; and what the file was
 * before is remembered, so that no clock says what is new: those of file systems differ.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

struct ready_file;

/* path is absolute. fn runs once the file is there and not as it is now, never inside this call.
 * -ENOMEM. */
_must_check_ int ready_file_new(
	struct loop *loop, const char *path, loop_fn fn, void *arg, struct ready_file **ret);
struct ready_file *ready_file_free(struct ready_file *f);
