/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Keys, texts and values between C and JSON. Pure. */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether these bytes are UTF-8. */
bool text_valid(const char *s, size_t len);
/* Copies as much of from as fits, with its NUL, and no part of a character. */
void text_cut(char *to, size_t size, const char *from);
/* An owned copy of a string of a JSON object, "" where there is none; NULL without memory. */
char *text_take(const json_t *obj, const char *key);

/* "//a//b/" becomes "a/b". Owned; NULL without memory. */
char *key_normalise(const char *key);

/* Whether a value travels as text: it is UTF-8 without NUL, and with its escapes not much longer
 * than as base64. */
bool value_is_text(const char *value, size_t len);
/* An owned copy with a NUL behind it. 0 or -ENOMEM. */
_must_check_ int value_copy(const char *text, size_t len, void **ret, size_t *ret_len);
/* The value of an Entry or a Change, owned, with a NUL behind it. 0, -EBADMSG or -ENOMEM. */
_must_check_ int value_take(const json_t *entry, void **ret, size_t *ret_len);
