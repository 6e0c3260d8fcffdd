/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Directories in which no other user can put something, or put something in their place: only
 * there are sockets made and looked for by name. Called by daemon, agent and clients.
 */

#include "common/cleanup.h"
#include "common/error.h"

/*
 * Whether dir and all above it belong to root or the caller, and only these may write there; above
 * dir others may where the sticky bit keeps them from renaming. Returns 0, -ENOENT (also -ENOTDIR)
 * where it is not there, or -EPERM with err, which says whose it is and whose was expected.
 */
_must_check_ int private_dir_check(const char *dir, struct error *err);
