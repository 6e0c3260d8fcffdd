/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of the store as JSON text, written in one pass: the answers that a training program waits
 * for most are not built as trees first.
 */
#include "agent/worker_private.h"
#include "common/base64.h"
#include "common/decimal.h"
#include "common/printable.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>

void worker_text_fini(struct worker_text *t)
{
	free(t->data);
	*t = (struct worker_text){ .data = NULL };
}

static char *text_room(struct worker_text *t, size_t len)
{
	size_t room = t->room ? t->room : 256;
	char *grown;

	if (t->failed)
		return NULL;
	if (t->room - t->len >= len)
		return t->data + t->len;
	while (room - t->len < len)
		room *= 2;
	grown = realloc(t->data, room);
	if (!grown) {
		t->failed = true;
		return NULL;
	}
	t->data = grown;
	t->room = room;
	return t->data + t->len;
}

void worker_text_add(struct worker_text *t, const char *text, size_t len)
{
	char *out = text_room(t, len);

	if (!out)
		return;
	memcpy(out, text, len);
	t->len += len;
}

void worker_text_printf(struct worker_text *t, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	worker_text_add(t, text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void worker_text_int(struct worker_text *t, int64_t n)
{
	char text[DECIMAL_MAX];

	worker_text_add(t, text, decimal(n, text));
}

static void text_escape(struct worker_text *t, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	const char out[] = { '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15] };
	const char quoted[] = { '\\', (char)c };

	if (c == '"' || c == '\\')
		worker_text_add(t, quoted, sizeof(quoted));
	else
		worker_text_add(t, out, sizeof(out));
}

/* The length of what begins at s and can be copied as it is; *ret_bad: what follows is no text. */
static size_t plain_length(const char *s, size_t n, bool *ret_bad)
{
	size_t i = 0;

	while (i < n) {
		unsigned char c = (unsigned char)s[i];
		unsigned point;
		int bytes = 1;

		if (c < 0x80) {
			if (c < ' ' || c == '"' || c == '\\')
				break;
		} else {
			bytes = printable_utf8(s + i, n - i, &point);
		}
		if (bytes == 0) {
			*ret_bad = true;
			break;
		}
		i += (size_t)bytes;
	}
	return i;
}

int worker_text_string(struct worker_text *t, const char *s, size_t len)
{
	size_t before = t->len, plain;
	bool bad = false;

	worker_text_add(t, "\"", 1);
	while (len) {
		plain = plain_length(s, len, &bad);
		worker_text_add(t, s, plain);
		s += plain;
		len -= plain;
		if (bad || (len && !*s)) {
			t->len = before;
			return -EILSEQ;
		}
		if (len) {
			text_escape(t, (unsigned char)*s);
			s++;
			len--;
		}
	}
	worker_text_add(t, "\"", 1);
	return 0;
}

void worker_text_bytes(struct worker_text *t, const char *key, const void *data, size_t len)
{
	static const char base64[] = "\"base64\":\"";
	size_t before = t->len, n = base64_length(len);
	char *out;

	worker_text_add(t, "\"", 1);
	worker_text_add(t, key, strlen(key));
	worker_text_add(t, "\":", 2);
	if (worker_text_string(t, data, len) == 0)
		return;
	t->len = before;
	worker_text_add(t, base64, sizeof(base64) - 1);
	out = text_room(t, n);
	if (out) {
		base64_encode(data, len, out);
		t->len += n;
	}
	worker_text_add(t, "\"", 1);
}

void worker_text_entry(struct worker_text *t, const struct store_entry *e, bool change)
{
	worker_text_add(t, "{\"key\":", 7);
	/* Workers' keys come as JSON strings and are UTF-8. */
	if (worker_text_string(t, e->key, strlen(e->key)) < 0)
		worker_text_add(t, "\"?\"", 3);
	if (e->value || !change) {
		worker_text_add(t, ",", 1);
		worker_text_bytes(t, "value", e->value, e->len);
	}
	worker_text_add(t, ",\"revision\":", 12);
	worker_text_int(t, e->revision);
	if (change && e->value)
		worker_text_add(t, ",\"deleted\":false", 16);
	else if (change)
		worker_text_add(t, ",\"deleted\":true", 15);
	worker_text_add(t, "}", 1);
}

int worker_reply_int(struct varlink_call *call, const char *name, int64_t n)
{
	char text[64 + DECIMAL_MAX], *to = text;
	size_t len = strlen(name);

	assert(len < 32);
	to = mempcpy(mempcpy(mempcpy(to, "{\"", 2), name, len), "\":", 2);
	to += decimal(n, to);
	*to++ = '}';
	return varlink_reply_text(call, text, (size_t)(to - text));
}

int worker_text_reply(struct varlink_call *call, const struct worker_text *t)
{
	if (t->failed)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	if (t->len > WORKERS_REPLY_BYTES)
		return worker_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"the answer has %zu bytes, at most %d are sent", t->len,
			WORKERS_REPLY_BYTES);
	return varlink_reply_text(call, t->data, t->len);
}
