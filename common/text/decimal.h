/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Numbers as text where a format string costs too much. Pure. */

#include <stddef.h>
#include <stdint.h>

enum { DECIMAL_MAX = 20 }; /* characters of any int64_t */

/* Writes n to to, without a NUL; returns its length, at most DECIMAL_MAX. */
static inline size_t decimal(int64_t n, char *to)
{
	uint64_t left = n < 0 ? -(uint64_t)n : (uint64_t)n;
	char text[DECIMAL_MAX], *at = text + DECIMAL_MAX;
	size_t len;

	do
		*--at = (char)('0' + left % 10);
	while (left /= 10);
	if (n < 0)
		*--at = '-';
	len = (size_t)(text + DECIMAL_MAX - at);
	for (size_t i = 0; i < len; i++)
		to[i] = at[i];
	return len;
}
