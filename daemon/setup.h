/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Prepares elasticd's surroundings: makes its directories, checks that no other elasticd uses them,
 * opens its sockets. */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/base/paths.h"
#include "common/varlink/server.h"
#include "daemon/config/config.h"

#include <stdbool.h>

/* Makes the runtime, state and log directories; refuses a runtime directory that belongs to another
 * user. */
_must_check_ int setup_dirs(
	const struct paths *p, const char *log_dir, bool system, struct error *err);

/*
 * Locks <dir>/elasticd.lock for this process. Returns a descriptor that holds the lock, or
 * -EADDRINUSE with err naming the holder, after waiting shortly for a holder that is about to
 * leave.
 */
_must_check_ int setup_lock(const char *dir, struct error *err);

/* Serves the sockets that were passed, else binds the control socket with the configured mode and
 * group. */
_must_check_ int setup_listen(struct varlink_server *server, const struct paths *p,
	const struct config *c, bool system, struct error *err);

/* Removes runtime directories of jobs that keep() does not know. */
void setup_clean_runtime(
	const char *runtime_dir, bool (*keep)(const char *name, void *arg), void *arg);
