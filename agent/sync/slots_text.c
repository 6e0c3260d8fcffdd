/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sync/slots_text.h"

#include "common/base/printable.h"

#include <stdio.h>
#include <string.h>

enum { SLOTS_MORE = sizeof(" and 4294967295 more") };

static size_t slots_cut(const char *text, size_t max)
{
	size_t len = strlen(text);

	return len > max ? printable_cut(text, max) : len;
}

void slots_append(char *buf, size_t size, const char *text)
{
	size_t used = strlen(buf);
	size_t n = slots_cut(text, size - 1 - used);

	memcpy(buf + used, text, n);
	buf[used + n] = '\0';
}

void slots_append_cut(char *buf, size_t size, const char *text, size_t max)
{
	size_t used = strlen(buf);
	size_t n = slots_cut(text, max);

	if (used + n + 4 > size) {
		slots_append(buf, size, text);
		return;
	}
	memcpy(buf + used, text, n);
	strcpy(buf + used + n, text[n] ? "..." : "");
}

void slots_append_names(
	char *buf, size_t size, const int *slots, size_t n, slots_name_fn name, void *arg)
{
	size_t used = strlen(buf), i;

	for (i = 0; i < n; i++) {
		const char *text = name(arg, slots[i]);
		size_t need = strlen(text) + (i > 0 ? 2 : 0);

		if (used + need + (i + 1 < n ? SLOTS_MORE : 1) > size)
			break;
		used += (size_t)sprintf(buf + used, "%s%s", i > 0 ? ", " : "", text);
	}
	if (i < n)
		snprintf(buf + used, size - used, i > 0 ? " and %zu more" : "%zu workers", n - i);
}
