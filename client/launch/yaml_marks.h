/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where each value of a YAML text is, by the path that errors of a specification use
 * ("roles[0].env.A"). Called by job_file.c.
 */

#include "common/base/cleanup.h"

#include <stddef.h>

struct yaml_mark {
	char *path;
	size_t line, column; /* from 1: of the key, or of an array's element */
};

struct yaml_marks {
	struct yaml_mark *items;
	size_t n;
};

/* yaml.c: reads the text again, which is only worth it after an error, up to the first YAML error.
 * Returns 0 with ret to be freed by yaml_marks_fini(), or -ENOMEM. Built without libyaml it finds
 * no marks. */
_must_check_ int yaml_marks_read(const char *text, size_t len, struct yaml_marks *ret);
void yaml_marks_fini(struct yaml_marks *m);

/* The path whose mark is there, or NULL. Borrowed. */
const char *yaml_marks_path(const struct yaml_marks *m, size_t line, size_t column);

/* The mark of path, else that of the nearest value around it, or NULL. Borrowed. */
const struct yaml_mark *yaml_marks_find(const struct yaml_marks *m, const char *path);
