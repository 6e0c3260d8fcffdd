/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/strings.h"

#include <errno.h>
#include <string.h>

size_t strings_count(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

const char *strings_value(char *const *list, const char *name)
{
	size_t n = strlen(name);

	for (; list && *list; list++)
		if (!strncmp(*list, name, n) && (*list)[n] == '=')
			return *list + n + 1;
	return NULL;
}

char **strings_copy(char *const *list)
{
	size_t n = strings_count(list);
	char **copy = calloc(n + 1, sizeof(*copy));

	for (size_t i = 0; copy && i < n; i++) {
		copy[i] = strdup(list[i]);
		if (!copy[i]) {
			strings_free(copy);
			return NULL;
		}
	}
	return copy;
}

int strings_add(char ***list, size_t *n, const char *word)
{
	char **longer = reallocarray(*list, *n + 2, sizeof(*longer));

	if (!longer)
		return -ENOMEM;
	*list = longer;
	longer[*n] = strdup(word);
	if (!longer[*n])
		return -ENOMEM;
	longer[++*n] = NULL;
	return 0;
}
