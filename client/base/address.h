/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How people address workers: "job", "job/2", "job/0,3-7" (global ranks), "job/role:1" and
 * "job/role:0,2-3" (indexes within a role), "job/role" (all of it). Pure.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>

struct address {
	char *job;
	char *ranks;   /* a checked set in its shortest form, or NULL: all */
	char *role;    /* or NULL */
	char *indexes; /* of role; NULL: all of it */
};

/* Returns 0, -EINVAL or -ENOMEM with err; ret is untouched then. */
_must_check_ int address_parse(const char *text, struct address *ret, struct error *err);
void address_fini(struct address *a);

/*
 * The set of global ranks that a names: NULL in ret for all. job is an io.elasticd.Manager.Job
 * object (borrowed); without a role it may be NULL, if the agent will check that the ranks exist.
 * Returns 0 with owned text, -ENOENT if a worker does not exist, -ENOMEM.
 */
_must_check_ int address_ranks(
	const struct address *a, const json_t *job, char **ret, struct error *err);
