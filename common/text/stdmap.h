/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Which of a worker's two standard streams something applies to, by local rank: a number 0..3 for
 * all ranks, or "rank:number,..." for any ranks (the others get 0). Bit 0 is stdout, bit 1 stderr.
 */

#include "common/base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { STD_NONE = 0, STD_OUT = 1, STD_ERR = 2, STD_BOTH = 3 };

struct std_map {
	int def;
	struct std_map_item {
		int rank;
		int value;
	} * items; /* sorted by rank */
	size_t n_items;
};

/* Parses text; field names it in errors. On failure map is untouched. Returns 0, -EINVAL, -ENOMEM.
 */
int std_map_parse(struct std_map *map, const char *text, const char *field, struct error *err)
	__attribute__((warn_unused_result));
void std_map_fini(struct std_map *map);
int std_map_get(const struct std_map *map, int rank);
/* Whether no rank has any stream. */
bool std_map_empty(const struct std_map *map);
/* "3" or "0:1,12:3"; returns owned. */
char *std_map_to_string(const struct std_map *map);
