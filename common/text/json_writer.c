/* SPDX-License-Identifier: Apache-2.0 */
#include "common/text/json_writer.h"

#include "common/base/printable.h"
#include "common/text/base64.h"
#include "common/text/decimal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void json_writer_fini(struct json_writer *w)
{
	free(w->data);
	*w = (struct json_writer){ .data = NULL };
}

static char *text_room(struct json_writer *w, size_t len)
{
	size_t room = w->room ? w->room : 256;
	char *grown;

	if (w->failed)
		return NULL;
	if (w->room - w->len >= len)
		return w->data + w->len;
	while (room - w->len < len)
		room *= 2;
	grown = realloc(w->data, room);
	if (!grown) {
		w->failed = true;
		return NULL;
	}
	w->data = grown;
	w->room = room;
	return w->data + w->len;
}

void json_write(struct json_writer *w, const char *text, size_t len)
{
	char *out = text_room(w, len);

	if (!out)
		return;
	memcpy(out, text, len);
	w->len += len;
}

void json_write_format(struct json_writer *w, const char *fmt, ...)
{
	char text[256];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	json_write(w, text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1);
}

void json_write_int(struct json_writer *w, int64_t n)
{
	char text[DECIMAL_MAX];

	json_write(w, text, decimal(n, text));
}

static void text_escape(struct json_writer *w, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";
	const char out[] = { '\\', 'u', '0', '0', digits[c >> 4], digits[c & 15] };
	const char quoted[] = { '\\', (char)c };

	if (c == '"' || c == '\\')
		json_write(w, quoted, sizeof(quoted));
	else
		json_write(w, out, sizeof(out));
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

/* Writes a string. Each byte that is no text becomes U+FFFD where lossy is set, else returns false.
 */
static bool write_string(struct json_writer *w, const char *s, size_t len, bool lossy)
{
	const char *end = s + len;

	json_write(w, "\"", 1);
	while (s < end) {
		bool bad = false;
		size_t plain = plain_length(s, (size_t)(end - s), &bad);

		json_write(w, s, plain);
		s += plain;
		if (s == end)
			break;
		bad |= !*s;
		if (bad && !lossy)
			return false;
		if (bad)
			json_write(w, "\xef\xbf\xbd", 3);
		else
			text_escape(w, (unsigned char)*s);
		s++;
	}
	json_write(w, "\"", 1);
	return true;
}

int json_write_string(struct json_writer *w, const char *s, size_t len)
{
	size_t before = w->len;

	if (write_string(w, s, len, false))
		return 0;
	w->len = before;
	return -EILSEQ;
}

void json_write_lossy(struct json_writer *w, const char *s, size_t len)
{
	(void)write_string(w, s, len, true);
}

void json_write_text(struct json_writer *w, const char *s)
{
	json_write_lossy(w, s, strlen(s));
}

void json_write_base64(struct json_writer *w, const void *data, size_t len)
{
	size_t n = base64_length(len);
	char *out;

	json_write(w, "\"", 1);
	out = text_room(w, n);
	if (out) {
		base64_encode(data, len, out);
		w->len += n;
	}
	json_write(w, "\"", 1);
}
