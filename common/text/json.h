/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small helpers around jansson: setters that own what they are given, getters with a default, and a
 * strict parser whose errors say where. Pure but for json_read_file().
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Nesting that json_parse() accepts. */
enum { JSON_DEPTH_MAX = 64, JSON_UNITS_MAX = 3 << 20 };

/*
 * The setters return 0 or -ENOMEM. obj and value may be NULL, from a constructor that failed: that
 * is -ENOMEM too.
 */

/* Takes value, also when it fails. */
int json_put(json_t *obj, const char *key, json_t *value);
/* A copy of s, its invalid UTF-8 replaced by U+FFFD. NULL: puts nothing. */
int json_put_string(json_t *obj, const char *key, const char *s);
int json_put_int(json_t *obj, const char *key, int64_t n);
/* Puts the member "note", for people: behind the one that is there, if any. */
int json_put_note(json_t *obj, const char *note);
/* Appends to an array; takes value, also when it fails. */
int json_add(json_t *array, json_t *value);

/* A JSON string of len bytes at s, invalid UTF-8 and NUL replaced by U+FFFD. Returns owned. */
json_t *json_string_lossy(const char *s, size_t len);
/* The same of a whole string; NULL: NULL. */
json_t *json_text(const char *s);

/* The member if it has that type, else def (obj may be NULL or no object). Returns borrowed. */
const char *json_get_string(const json_t *obj, const char *key, const char *def);
int64_t json_get_int(const json_t *obj, const char *key, int64_t def);
bool json_get_bool(const json_t *obj, const char *key, bool def);
/* The member if it has that type, else NULL. Returns borrowed. */
json_t *json_get_object(const json_t *obj, const char *key);
json_t *json_get_array(const json_t *obj, const char *key);

/* "object", "array", "string", "integer", "number", "boolean" or "null", with its article. */
const char *json_type_name(const json_t *value);

/*
 * The cost of parsing text: a unit is about 32 bytes, and a quarter of a microsecond. A
 * short text can have very many values: "{}," costs a hundred times its length.
 */
size_t json_units(const char *text, size_t len);

/*
 * Parses one object or array: no duplicate keys, nothing after it, nesting up to JSON_DEPTH_MAX, at
 * most JSON_UNITS_MAX of values. ret is owned. Returns 0, -EINVAL with "line L, column C: ...", or
 * -ENOMEM.
 */
_must_check_ int json_parse(const char *text, size_t len, json_t **ret, struct error *err);
/* The same, and -EINVAL for an array. */
_must_check_ int json_parse_object(const char *text, size_t len, json_t **ret, struct error *err);
/* The object in a file of at most max_bytes (0: any); errors begin with its path. Also returns the
 * errors of file_read(). */
_must_check_ int json_read_file(
	const char *path, size_t max_bytes, json_t **ret, struct error *err);

/* Compact text on one line, NUL-ended, its length in ret_len where that is not NULL. Returns owned,
 * or NULL without memory. */
char *json_dump_text(const json_t *value, size_t *ret_len);
