/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where worker.sock and the board of an agent are. */

#include "common/cleanup.h"
#include "common/error.h"

#include <stdbool.h>

/* Whether a socket in dir has an address that every program can write: at most 107 bytes. */
bool worker_dir_fits(const char *dir);

/*
 * Makes a directory for this agent alone, in $XDG_RUNTIME_DIR, $TMPDIR or /tmp. Returns 0
 * and an owned path; whoever made it removes it. Or a negative errno, with what was tried.
 */
_must_check_ int worker_dir_new(char **ret, struct error *err);
