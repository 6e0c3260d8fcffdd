/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Counts of what each closed part of a rotated log holds, so that a reader can say how much is
 * missing where rotation removed some. A file beside the log has one record per part: number,
 * lines, bytes, 64 bits each, little-endian. log_file.c writes it, source.c reads it.
 */

#include <stdint.h>

struct log_missing {
	int parts;   /* removed parts; 0: nothing is missing */
	int unknown; /* how many of them have no record */
	int64_t lines, bytes;
};

/* Adds a part's record for the log at path ("stdout.log": to "stdout.parts"). When that fails, the
 * part counts as unknown. */
void log_part_counts_add(const char *path, int number, int64_t lines, int64_t bytes);

/* Sums up the parts whose numbers lie between after and before, both excluded. */
struct log_missing log_part_counts_missing(const char *path, int after, int before);
