/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the closed parts of a rotated log hold, so that a reader can say what is missing where some
 * of them were removed: one record for each part (number, lines, bytes; 64 bits each,
 * little-endian) in a file beside the log. log_file.c writes it, log_source.c reads it.
 */

#include <stdint.h>

struct log_missing {
	int parts;   /* that are not there; 0: nothing is missing */
	int unknown; /* of them, those that have no record */
	int64_t lines, bytes;
};

/* Adds the record of a part of the log at path ("stdout.log": to "stdout.parts"). Where that cannot
 * be done, the part is an unknown one. */
void log_parts_add(const char *path, int number, int64_t lines, int64_t bytes);

/* What the parts between after and before, both excluded, held. */
struct log_missing log_parts_missing(const char *path, int after, int before);
