/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which hosts stand near each other: those that share first parts of their topology. Pure. Parts
 * are as topology_parts() of common/text/topology.h gives them.
 */

#include "common/text/topology.h"

#include <stddef.h>
#include <stdint.h>

/* The natural order of the first `depth` parts, one after the other; a topology with fewer parts
 * comes first. 0: these are the same. */
int topology_compare(const char *a, const char *b, int depth);
/* Bytes of parts, with the empty one. */
size_t topology_bytes(const char *parts);

/* A place that a host has left. */
struct topology_vacancy {
	int rank;
	const char *parts; /* of that host; borrowed */
};

/* A host without a place. */
struct topology_spare {
	const char *parts; /* borrowed */
	uint64_t turn;	   /* of those that are equally near, the one with the lowest comes first */
	void *owner;
	int rank; /* result: of the place that it gets; -1: none of these */
};

/*
 * Gives vacancies to spares that share at least the first part with the host that was there, to
 * those first that share most. Both arrays change their order, and vacancies loses those that were
 * given away: returns how many are left. Costs some (n + m) log (n + m).
 */
int topology_match(struct topology_vacancy *vacancies, int n, struct topology_spare *spares, int m);
