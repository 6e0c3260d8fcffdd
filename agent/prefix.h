/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What stands before a worker's line on the console, and other texts that name a worker. By default
 * it is the address of the worker, and what "elasticctl logs" puts there too. Templates
 * have ${role}, ${index} (within the role), ${rank}, ${local_rank} and ${host} (also ${role_name},
 * torchelastic's name, and all of them without braces); "$$" is a dollar sign, and what is not
 * known stays as it is. Pure.
 */

#include <stdbool.h>

#define PREFIX_DEFAULT "[${role}:${index}] "

struct prefix_vars {
	const char *role, *host;
	int index, rank, local_rank;
};

/* Fills in tmpl (NULL: PREFIX_DEFAULT). Returns owned, NULL without memory. */
char *prefix_expand(const char *tmpl, const struct prefix_vars *vars);

/* The same in a colour of its rank, for terminals. Returns owned, NULL without memory. */
char *prefix_colour(const char *prefix, int rank);
