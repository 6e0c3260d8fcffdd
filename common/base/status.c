/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/status.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct {
	int number;
	const char *name;
} status_table[] = {
#define X(name, number, text) { number, text },
	STATUS_CODES(X)
#undef X
};

enum { STATUS_N = sizeof(status_table) / sizeof(status_table[0]) };

const char *status_name(enum status s)
{
	for (size_t i = 0; i < STATUS_N; i++)
		if (status_table[i].number == (int)s)
			return status_table[i].name;
	return "Unknown";
}

/* "DEADLINE_EXCEEDED" and "DeadlineExceeded" are the same name. */
static bool status_same(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (*a == '_')
			a++;
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
			return false;
		if (!*a)
			return true;
	}
}

int status_from_name(const char *name)
{
	const char *dot = strrchr(name, '.');

	for (size_t i = 0; i < STATUS_N; i++)
		if (status_same(dot ? dot + 1 : name, status_table[i].name))
			return status_table[i].number;
	return -1;
}
