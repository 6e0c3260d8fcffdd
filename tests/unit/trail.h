/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The events of a model so far, for the message of a failure. Included once by each test program.
 */

#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static char trail[4096];

/* Forgets the older half when there is no room. */
static inline __attribute__((format(printf, 1, 2))) void trail_add(const char *fmt, ...)
{
	size_t n = strlen(trail);
	va_list ap;

	if (n + 32 > sizeof(trail)) {
		memmove(trail, trail + sizeof(trail) / 2, n - sizeof(trail) / 2 + 1);
		n = strlen(trail);
	}
	va_start(ap, fmt);
	vsnprintf(trail + n, sizeof(trail) - n, fmt, ap);
	va_end(ap);
}

static inline void wrong(const char *what)
{
	ck_abort_msg("%s, after%s", what, trail);
}
