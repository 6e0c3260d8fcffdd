/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How alike two words are, so that a misspelt one can be answered by the one that was meant. Pure.
 */

#include <stddef.h>

/* Longer words are like no other. */
enum { SIMILAR_MAX = 31 };

/* How many letters must be put in, left out, replaced or swapped with their neighbour to make b of
 * a; SIMILAR_MAX where one of them is longer than that. */
size_t similar_distance(const char *a, const char *b);

/* The largest distance at which a word of this one's length may still be a misspelling of it. */
size_t similar_limit(const char *word);
