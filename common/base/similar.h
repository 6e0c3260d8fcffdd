/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* How similar two words are, to suggest the right word for a misspelt one. Pure. */

#include <stddef.h>

/* Longer words are similar to none. */
enum { SIMILAR_MAX = 31 };

/* How many letters must be inserted, removed, replaced or swapped to turn a into b; SIMILAR_MAX if
 * one of them is longer than that. */
size_t similar_distance(const char *a, const char *b);

/* The largest distance at which a word as long as this one may still be a misspelling. */
size_t similar_limit(const char *word);
