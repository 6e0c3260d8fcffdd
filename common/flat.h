/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Reads small JSON objects in place, without memory of its own: members of plain ASCII names whose
 * values are null, booleans, integers and strings without escapes, written without white space, no
 * name twice. That is what hot calls are made of; whatever else JSON may have is left to a parser
 * of all of it. What is taken here means the same to such a parser. Pure.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLAT_FIELDS = 8 };

enum flat_kind { FLAT_NULL, FLAT_BOOL, FLAT_INT, FLAT_STRING };

struct flat_field {
	const char *name; /* borrowed from the text, as is string; not NUL-ended */
	size_t name_len;
	enum flat_kind kind;
	int64_t number; /* of a boolean 0 or 1 */
	char *string;
	size_t len;
};

struct flat {
	size_t n;
	struct flat_field fields[FLAT_FIELDS];
};

/* Reads the object that begins at text, which has a NUL somewhere behind it. Returns what follows
 * it, or NULL where there is anything but such an object; the text is unchanged. */
char *flat_scan(char *text, struct flat *ret);

/* The same for one string, from its quote on. */
char *flat_scan_string(char *text, char **ret, size_t *ret_len);

/* Puts a NUL behind each string, in place of its last quote: the text can not be read again. */
void flat_seal(struct flat *f);

/* The member of that name, NULL where there is none or it is null. */
const struct flat_field *flat_get(const struct flat *f, const char *name);

/* As flat_get(), for one kind: its value, or what is said for where it is missing. */
const char *flat_text(const struct flat *f, const char *name, const char *missing);
int64_t flat_int(const struct flat *f, const char *name, int64_t missing);
bool flat_bool(const struct flat *f, const char *name);
