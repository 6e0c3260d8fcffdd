/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/store/kv_private.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Writes what fits into room bytes. Returns the whole length, without the NUL. */
static size_t normalise(const char *key, char *buf, size_t room)
{
	size_t n = 0;

	for (; *key; key++) {
		if (*key == '/' && (n == 0 || key[1] == '/' || !key[1]))
			continue;
		if (n < room)
			buf[n] = *key;
		n++;
	}
	buf[n < room ? n : room - 1] = '\0';
	return n;
}

char *kv_normalise(const char *key)
{
	size_t room = strlen(key) + 1;
	char *buf = malloc(room);

	if (buf)
		normalise(key, buf, room);
	return buf;
}

int kv_key(const char *key, bool empty, char *buf, struct error *err)
{
	size_t n = normalise(key, buf, KV_KEY_MAX + 1);

	if (n > KV_KEY_MAX)
		return error_field(err, -EINVAL, "key", "it has %zu bytes, expected at most %d", n,
			(int)KV_KEY_MAX);
	if (n == 0 && !empty)
		return error_field(
			err, -EINVAL, "key", "expected at least one character besides \"/\"");
	return (int)n;
}

char *kv_join(char *buf, const char *prefix, const char *key, const char *tail)
{
	stpcpy(stpcpy(stpcpy(buf, prefix), key), tail);
	return buf;
}

const char *kv_own(const struct kv *kv, const char *key)
{
	size_t persistent = sizeof(KV_PERSISTENT) - 1;

	if (strncmp(key, kv->prefix, kv->prefix_len) == 0)
		return key + kv->prefix_len;
	return strncmp(key, KV_PERSISTENT, persistent) == 0 ? key + persistent : NULL;
}
