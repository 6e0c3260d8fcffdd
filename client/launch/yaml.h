/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Converts job files from YAML as people write it (JSON is YAML too) to JSON. One document; plain
 * scalars mean what YAML 1.2's core schema says, so yes, no, on and off are strings; anchors and
 * aliases are copied; merge keys, duplicate keys, own tags and numbers that JSON cannot hold are
 * refused. Errors say "file:line:column: ...". Built without libyaml it reads only JSON.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stddef.h>

enum {
	YAML_DEPTH_MAX = 64,
	YAML_NODES_MAX = 256 * 1024, /* after aliases are copied */
	YAML_BYTES_MAX = 4 * 1024 * 1024
};

/* A problem that leaves the rest of the text readable. */
struct yaml_problem {
	size_t line, column; /* from 1 */
	char *text;
};
struct yaml_problems {
	struct yaml_problem *items;
	size_t n;
};
void yaml_problems_fini(struct yaml_problems *p);

/*
 * Parses len bytes of text; name stands for the file in errors. ret is owned. Adds duplicate keys
 * to problems, whose texts name no key, and skips them; always free problems with
 * yaml_problems_fini(). Returns 0, -EINVAL, -EMSGSIZE or -ENOMEM with err.
 */
_must_check_ int yaml_parse(const char *text, size_t len, const char *name, json_t **ret,
	struct yaml_problems *problems, struct error *err);

/* Reads a file ("-": standard input), up to one byte more than yaml_parse() accepts. ret is owned.
 * Returns 0 or a negative errno with err. */
_must_check_ int yaml_read(const char *path, char **ret, size_t *ret_len, struct error *err);
