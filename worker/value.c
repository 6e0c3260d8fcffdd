/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/private.h"

#include "common/base64.h"
#include "common/json.h"
#include "common/printable.h"

#include <errno.h>
#include <string.h>

bool text_valid(const char *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		unsigned c;
		int n = (unsigned char)s[i] < 0x80 ? 1 : printable_utf8(s + i, len - i, &c);

		if (n <= 0)
			return false;
		i += (size_t)n;
	}
	return true;
}

/* "//a//b/" becomes "a/b". */
char *key_normalise(const char *key)
{
	char *copy = malloc(strlen(key) + 1), *to = copy;

	if (!copy)
		return NULL;
	for (; *key; key++)
		if (*key != '/')
			*to++ = *key;
		else if (to > copy && to[-1] != '/')
			*to++ = '/';
	if (to > copy && to[-1] == '/')
		to--;
	*to = '\0';
	return copy;
}

/* As text it must be UTF-8 without NUL, and not much longer with its escapes than as base64. */
static bool value_is_text(const char *s, size_t len)
{
	size_t escapes = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];

		if (!c)
			return false;
		escapes += c < 0x20 ? 5 : c == '"' || c == '\\';
	}
	return escapes <= len / 3 + 64 && text_valid(s, len);
}

int value_put(json_t *parameters, const void *value, size_t len)
{
	_cleanup_free_ char *text = NULL;

	if (value_is_text(value, len))
		return json_put(parameters, "value", json_stringn_nocheck(value, len));
	text = malloc(base64_length(len) + 1);
	if (!text)
		return -ENOMEM;
	base64_encode(value, len, text);
	return json_put(parameters, "base64", json_stringn_nocheck(text, base64_length(len)));
}

int value_take(const json_t *entry, void **ret, size_t *ret_len)
{
	const json_t *text = json_object_get(entry, "value");
	const json_t *base64 = json_object_get(entry, "base64");
	char *copy;

	if (json_is_string(text)) {
		size_t len = json_string_length(text);

		copy = malloc(len + 1);
		if (!copy)
			return -ENOMEM;
		memcpy(copy, json_string_value(text), len);
		copy[len] = '\0';
		*ret_len = len;
	} else if (json_is_string(base64)) {
		return base64_decode(
			json_string_value(base64), json_string_length(base64), ret, ret_len);
	} else {
		return -EBADMSG;
	}
	*ret = copy;
	return 0;
}

char *text_take(const json_t *obj, const char *key)
{
	return strdup(json_get_string(obj, key, ""));
}

void text_cut(char *to, size_t size, const char *from)
{
	size_t len = strlen(from);

	if (len >= size)
		for (len = size - 1; len && ((unsigned char)from[len] & 0xc0) == 0x80;)
			len--;
	memcpy(to, from, len);
	to[len] = '\0';
}
