/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Divides things in a row into nearly equal shares: the first ones have one more. */

#include <stddef.h>

/* Where the place-th of n shares of count things begins. It ends where the next one begins. */
static inline size_t share_begin(size_t count, size_t n, size_t place)
{
	size_t more = count % n;

	return place * (count / n) + (place < more ? place : more);
}
