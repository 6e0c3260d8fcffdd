/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/topology.h"

#include <stdlib.h>
#include <string.h>

static bool topology_letter(char c)
{
	return c > ' ' && c < 0x7f && !strchr("/\"'\\", c);
}

bool topology_is(const char *text)
{
	int parts = 1;
	size_t len = 0; /* of the last part */

	if (strlen(text) >= TOPOLOGY_TEXT_MAX)
		return false;
	for (const char *p = text; *p; p++) {
		if (*p == '/' && len) {
			parts++;
			len = 0;
		} else if (topology_letter(*p)) {
			len++;
		} else {
			return false;
		}
	}
	return len && parts <= TOPOLOGY_PARTS_MAX;
}

char *topology_parts(const char *text)
{
	size_t len = strlen(text);
	char *parts = calloc(len + 2, 1);

	for (size_t i = 0; parts && i < len; i++)
		parts[i] = text[i] == '/' ? '\0' : text[i];
	return parts;
}
