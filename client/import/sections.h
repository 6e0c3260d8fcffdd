/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The sections of supervisord's configuration and of the files that it includes, with the place of
 * each key. inih would not do: it cuts lines at 200 bytes, where commands are often longer, and the
 * names of sections at 50. As Python's configparser reads it: "key = value" or "key: value",
 * indented lines continue a value, " ;" and " #" begin comments, the last of several keys of one
 * name counts.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct section_key {
	char *name; /* in lower case */
	char *value;
	int line;
	bool used; /* for the caller */
};

struct section {
	char *name; /* "program:x" */
	char *file; /* absolute */
	int line;
	struct section_key *keys;
	size_t n;
	/* For the caller: */
	int64_t rank; /* lower ones start before */
	bool starts;  /* by itself */
};

struct sections {
	struct section *items;
	size_t n;
};

/* Takes a line of text for people: "FILE:LINE: ...". */
typedef void (*sections_problem_fn)(void *arg, const char *file, int line, const char *text);

/* Adds the sections of text; lines that are none of the above are problems. -ENOMEM. */
_must_check_ int sections_parse(
	struct sections *s, const char *file, const char *text, sections_problem_fn fn, void *arg);
/* Reads a file, and those that its section [include] names. A negative errno with err where path
 * itself cannot be read; others are problems. */
_must_check_ int sections_read(
	struct sections *s, const char *path, sections_problem_fn fn, void *arg, struct error *err);
void sections_fini(struct sections *s);

/* The last section of that name, or NULL; and its key, or NULL. */
struct section *sections_find(const struct sections *s, const char *name);
struct section_key *section_find(struct section *s, const char *name);
