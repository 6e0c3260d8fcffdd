/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Where each value of a YAML text stands, by the path that errors of a specification name it by
 * ("roles[0].env.A"). Reads the text a second time, which only an error makes worth while. Called
 * by job_file.c. Built without libyaml there are none.
 */

#include "common/cleanup.h"

#include <stddef.h>

struct yaml_mark {
	char *path;
	size_t line, column; /* from 1: of the key, or of an array's element */
};

struct yaml_marks {
	struct yaml_mark *items;
	size_t n;
};

/* Up to where the text is YAML. Returns 0 with ret to be freed by yaml_marks_fini(), or -ENOMEM. */
_must_check_ int yaml_marks_read(const char *text, size_t len, struct yaml_marks *ret);
void yaml_marks_fini(struct yaml_marks *m);

/* The mark of path, else that of what it is nearest in; NULL where there is none. Borrowed. */
const struct yaml_mark *yaml_marks_find(const struct yaml_marks *m, const char *path);
