/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The prefix of a worker's lines on the console, and other texts that name a worker. The default is
 * the worker's address, as in "elasticctl logs". Templates have ${role}, ${index} (within the
 * role), ${rank}, ${local_rank} and ${host} (also ${role_name}, torchelastic's name, and all of
 * them without braces); "$$" is a dollar sign, and unknown names stay as they are. Pure.
 */

#include <stdbool.h>

#define PREFIX_DEFAULT "[${role}:${index}] "

struct prefix_vars {
	const char *role, *host;
	int index, rank, local_rank;
};

/* Fills in tmpl (NULL: PREFIX_DEFAULT). Returns owned, NULL without memory. */
char *prefix_expand(const char *tmpl, const struct prefix_vars *vars);

/* The same in a colour chosen by rank, for terminals. Returns owned, NULL without memory. */
char *prefix_colour(const char *prefix, int rank);
