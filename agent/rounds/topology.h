/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which hosts stand near each other: the more first parts their topologies share, the nearer. Pure.
 * Parts are as topology_parts() of common/text/topology.h returns them.
 */

#include "common/text/topology.h"

#include <stddef.h>
#include <stdint.h>

/* Compares the first depth parts, one after the other, in natural order; a topology with fewer
 * parts comes first. Less than, equal to or greater than 0, as strcmp(). */
int topology_compare(const char *a, const char *b, int depth);
/* Bytes of parts, with the empty one at their end. */
size_t topology_bytes(const char *parts);

/* A place that a host has left. */
struct topology_vacancy {
	int rank;
	const char *parts; /* of that host; borrowed */
};

/* A host without a place. */
struct topology_spare {
	const char *parts; /* borrowed */
	uint64_t turn;	   /* of equally near spares the one with the lowest turn comes first */
	void *owner;
	int rank; /* result: of the place that it gets; -1: none */
};

/*
 * Gives vacancies to spares that share at least the first part with the host that was there; the
 * spares that share most come first. Sorts both arrays, removes the vacancies that it gives away,
 * and returns how many are left. Costs some (n + m) log (n + m).
 */
int topology_match(struct topology_vacancy *vacancies, int n, struct topology_spare *spares, int m);
