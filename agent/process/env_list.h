/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A worker's environment: a list of "NAME=value". A later entry replaces an earlier one of the same
 * name. */

#include "common/base/cleanup.h"

#include <stddef.h>

struct env {
	char **vars; /* NULL-ended, ready for execve() */
	size_t n, cap;
};

void env_fini(struct env *e);

/* Each returns 0 or -ENOMEM. env_put takes "NAME=value" (borrowed); env_add a whole NULL-ended
 * list, which may be NULL. */
_must_check_ int env_put(struct env *e, const char *entry);
_must_check_ int env_add(struct env *e, char *const *list);
_must_check_ int env_setf(struct env *e, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Removes name, if it is there. */
void env_unset(struct env *e, const char *name);

/* Borrowed value, or NULL. */
const char *env_get(const struct env *e, const char *name);
