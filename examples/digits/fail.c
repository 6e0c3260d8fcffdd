/* SPDX-License-Identifier: Apache-2.0 */
#include "examples/digits/fail.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static int fail_rank = -1;

void fail_set_rank(int rank)
{
	fail_rank = rank;
}

void fail(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (fail_rank >= 0)
		fprintf(stderr, "digits: rank %d: %s\n", fail_rank, text);
	else
		fprintf(stderr, "digits: %s\n", text);
	exit(EXIT_FAILURE);
}
