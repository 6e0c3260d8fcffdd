/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Converts bytes and their format from the command line, files and lines into calls of
 * io.elasticd.Queue, and back for people and programs. Pure but for payload_read().
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Removes a byte order mark and white space, and checks that the rest is one JSON value. Returns 0,
 * -ENODATA if nothing is left, or -EINVAL with the place. */
_must_check_ int payload_check_json(const char **data, size_t *len, struct error *err);

/* Adds value (key "value" or "payload") or base64, and the format where it is not NULL or "", to
 * p. Takes and returns p; NULL without memory. */
json_t *payload_put(json_t *p, const char *key, const void *data, size_t len, const char *format);

/* The bytes of an object with key or base64; owned, with a NUL after them. Returns 0, -EINVAL or
 * -ENOMEM; 0 with NULL if it has neither. */
_must_check_ int payload_get(const json_t *from, const char *key, char **ret, size_t *ret_len);

/* All of a file, "-" being standard input; at most max bytes: -EFBIG. Returns 0 with owned bytes,
 * or a negative errno with err. */
_must_check_ int payload_read(
	const char *path, size_t max, char **ret, size_t *ret_len, struct error *err);

/*
 * An Outcome or an Answer as one object for programs, on one line without a newline: empty members
 * are left out, and a value whose format is "json" is inserted as it is, with its numbers
 * unchanged. Returns owned, NULL without memory; ret_len may be NULL.
 */
char *payload_result(const json_t *outcome, size_t *ret_len);

/* "Internal: out of luck, on worker:1" of a TaskError. Returns owned, NULL without memory. */
char *payload_error(const json_t *error);
