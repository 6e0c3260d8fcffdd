/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The directory for worker.sock and the board of an agent that elasticd has not started. */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#define WORKER_SOCKET "worker.sock"

/*
 * Makes a directory for this agent alone, where no other user can write: in $XDG_RUNTIME_DIR,
 * /run/user/<uid> (root: /run), $TMPDIR or $XDG_STATE_HOME/elasticd/run, the first that is private
 * and short enough, else in /tmp, where programs that tidy up may take it. Returns 0 and an owned
 * path, which the caller removes, or a negative errno with what was tried.
 */
_must_check_ int sharing_dir_new(char **ret, struct error *err);
