/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch/yaml_marks.h"

#include <stdlib.h>
#include <string.h>

void yaml_marks_fini(struct yaml_marks *m)
{
	for (size_t i = 0; i < m->n; i++)
		free(m->items[i].path);
	free(m->items);
	*m = (struct yaml_marks){ 0 };
}

const char *yaml_marks_path(const struct yaml_marks *m, size_t line, size_t column)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->items[i].line == line && m->items[i].column == column && *m->items[i].path)
			return m->items[i].path;
	return NULL;
}

const struct yaml_mark *yaml_marks_find(const struct yaml_marks *m, const char *path)
{
	const struct yaml_mark *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < m->n; i++) {
		const char *own = m->items[i].path;
		size_t len = strlen(own);

		if (strncmp(path, own, len) || (path[len] && len && !strchr(".[", path[len])))
			continue;
		if (best && len <= most)
			continue;
		best = &m->items[i];
		most = len;
	}
	return best;
}
