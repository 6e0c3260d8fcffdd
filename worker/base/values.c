/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/base/values.h"

#include "common/base/printable.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdlib.h>
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

bool value_is_text(const char *s, size_t len)
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

int value_copy(const char *text, size_t len, void **ret, size_t *ret_len)
{
	char *copy = malloc(len + 1);

	if (!copy)
		return -ENOMEM;
	memcpy(copy, text, len);
	copy[len] = '\0';
	*ret = copy;
	*ret_len = len;
	return 0;
}

int value_take(const json_t *entry, void **ret, size_t *ret_len)
{
	const json_t *text = json_object_get(entry, "value");
	const json_t *base64 = json_object_get(entry, "base64");

	if (json_is_string(text))
		return value_copy(json_string_value(text), json_string_length(text), ret, ret_len);
	if (json_is_string(base64))
		return base64_decode(
			json_string_value(base64), json_string_length(base64), ret, ret_len);
	return -EBADMSG;
}

char *text_take(const json_t *obj, const char *key)
{
	return strdup(json_get_string(obj, key, ""));
}

void text_cut(char *to, size_t size, const char *from)
{
	size_t len = strlen(from);

	if (len >= size)
		len = printable_cut(from, size - 1);
	memcpy(to, from, len);
	to[len] = '\0';
}
