/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the store as JSON text, written in one pass: training programs wait for these answers
 * most, so no tree is built first.
 */
#include "agent/sharing/private.h"
#include "common/text/decimal.h"

#include <assert.h>
#include <string.h>

void sharing_text_bytes(struct json_writer *t, const char *key, const void *data, size_t len)
{
	size_t before = t->len;

	json_write(t, "\"", 1);
	json_write(t, key, strlen(key));
	json_write(t, "\":", 2);
	if (json_write_string(t, data, len) == 0)
		return;
	t->len = before;
	json_write(t, "\"base64\":", 9);
	json_write_base64(t, data, len);
}

void sharing_text_entry(struct json_writer *t, const struct store_entry *e, bool change)
{
	json_write(t, "{\"key\":", 7);
	/* Workers' keys come as JSON strings and are UTF-8. */
	if (json_write_string(t, e->key, strlen(e->key)) < 0)
		json_write(t, "\"?\"", 3);
	if (e->value || !change) {
		json_write(t, ",", 1);
		sharing_text_bytes(t, "value", e->value, e->len);
	}
	json_write(t, ",\"revision\":", 12);
	json_write_int(t, e->revision);
	if (change && e->value)
		json_write(t, ",\"deleted\":false", 16);
	else if (change)
		json_write(t, ",\"deleted\":true", 15);
	json_write(t, "}", 1);
}

int sharing_reply_int(struct varlink_call *call, const char *name, int64_t n)
{
	char text[64 + DECIMAL_MAX], *to = text;
	size_t len = strlen(name);

	assert(len < 32);
	to = mempcpy(mempcpy(mempcpy(to, "{\"", 2), name, len), "\":", 2);
	to += decimal(n, to);
	*to++ = '}';
	return varlink_reply_text(call, text, (size_t)(to - text));
}

int sharing_text_reply(struct varlink_call *call, const struct json_writer *t)
{
	if (t->failed)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	if (t->len > SHARING_REPLY_BYTES)
		return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"the answer has %zu bytes, at most %d are sent", t->len,
			SHARING_REPLY_BYTES);
	return varlink_reply_text(call, t->data, t->len);
}
