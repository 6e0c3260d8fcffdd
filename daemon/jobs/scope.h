/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A systemd scope for each job, so that the service can be stopped and restarted while jobs go on.
 * Speaks to systemd by D-Bus in the loop, never blocks, and closes its connection while no request
 * is open. Without systemd, or built without it, jobs get no scopes.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"
#include "common/spec/spec.h"

#include <stdbool.h>
#include <sys/types.h>

struct scopes;
struct scope_request;

/* error is NULL if pid is in its scope now, else why it is not. Never called from within
 * scope_begin(). */
typedef void (*scope_fn)(void *arg, const char *error);

/* slice is copied. Returns 0 with an owned object also where there is no systemd. */
_must_check_ int scopes_new(struct loop *loop, bool system, const char *slice, struct scopes **ret);
struct scopes *scopes_free(struct scopes *s);
DEFINE_CLEANUP(struct scopes *, scopes_free)

/* True where systemd runs and may be asked. */
bool scopes_available(const struct scopes *s);

/* One scope; all is copied. */
struct scope_unit {
	const char *name, *run, *user; /* of the job */
	pid_t pid;
	const struct spec_resources *resources; /* NULL: no limits */
};

/* Puts the process into elasticd-<run>.scope, which has the job's limits. The answer comes within a
 * few seconds. Returns 0 or a negative errno. */
_must_check_ int scope_begin(struct scopes *s, const struct scope_unit *u, scope_fn fn, void *arg,
	struct scope_request **ret);
/* Drops the request: fn will not run. */
struct scope_request *scope_cancel(struct scope_request *q);

/* True for the directory of a scope's cgroup. */
bool scope_owns(const char *cgroup_dir);
