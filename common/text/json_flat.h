/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads small JSON objects in place, without allocating: members with plain ASCII names whose
 * values are null, booleans, integers and strings without escapes, without white space and
 * duplicate names. Frequent calls look like this; a full parser has to read everything else, and
 * reads what is accepted here with the same meaning. Pure.
 */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLAT_FIELDS = 12 };

/* FLAT_TREE: an array, an object or a real, which only flat_of() has. */
enum flat_kind { FLAT_NULL, FLAT_BOOL, FLAT_INT, FLAT_STRING, FLAT_TREE };

struct flat_field {
	const char *name; /* borrowed from the text, as is string; may be without a NUL */
	size_t name_len;
	enum flat_kind kind;
	int64_t number; /* of a boolean 0 or 1 */
	char *string;
	size_t len;
	const json_t *tree;
};

struct flat {
	size_t n;
	struct flat_field fields[FLAT_FIELDS];
};

/* Reads the object that begins at text, which has a NUL somewhere after it. Returns the text after
 * the object, or NULL if it is anything else; the text is unchanged. */
char *flat_scan(char *text, struct flat *ret);

/* Replaces the closing quote of each string by a NUL: the text cannot be read again. */
void flat_seal(struct flat *f);

/* The same view of an object that has been parsed, borrowed from it. Members beyond FLAT_FIELDS are
 * left out. */
void flat_of(const json_t *object, struct flat *ret);

/* The member of that name; NULL if it is missing or null. */
const struct flat_field *flat_get(const struct flat *f, const char *name);

/* As flat_get(), for one type: its value, or missing. */
const char *flat_text(const struct flat *f, const char *name, const char *missing);
int64_t flat_int(const struct flat *f, const char *name, int64_t missing);
bool flat_bool(const struct flat *f, const char *name);
const json_t *flat_array(const struct flat *f, const char *name); /* NULL: missing */
