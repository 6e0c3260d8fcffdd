// SPDX-License-Identifier: Apache-2.0
/* Bytes with a format, and errors, which many tasks may share. */
#include "agent/queue/machine/private.h"
#include "common/base/printable.h"

#include <stdarg.h>

struct queue_blob *queue_blob_new(const struct queue_bytes *b)
{
	size_t format = b->format ? strlen(b->format) : 0;
	struct queue_blob *n = malloc(sizeof(*n) + b->len + (format ? format + 1 : 0));

	if (!n)
		return NULL;
	n->len = (uint32_t)b->len & 0xffffff;
	n->format_len = format & 0xff;
	if (b->len)
		memcpy(n->data, b->data, b->len);
	if (format)
		memcpy(n->data + b->len, b->format, format + 1);
	return n;
}

struct queue_bytes queue_blob_bytes(const struct queue_blob *b)
{
	if (!b)
		return (struct queue_bytes){ "", 0, "" };
	return (struct queue_bytes){ b->data, b->len, b->format_len ? b->data + b->len : "" };
}

bool queue_bytes_ok(const struct queue_bytes *b)
{
	return b->len <= QUEUE_VALUE_MAX &&
	       (!b->format || strnlen(b->format, QUEUE_FORMAT_MAX + 1) <= QUEUE_FORMAT_MAX);
}

/* The length at which text is cut: at most max, between characters. */
static size_t text_cut(const char *text, size_t max)
{
	size_t n = strnlen(text, max + 1);

	return n <= max ? n : printable_cut(text, max);
}

struct queue_err *queue_err_new(
	enum status code, const char *message, const char *details, int worker, int64_t task)
{
	size_t m = text_cut(message ? message : "", QUEUE_TEXT_MAX);
	size_t d = text_cut(details ? details : "", QUEUE_DETAILS_MAX);
	struct queue_err *e = malloc(sizeof(*e) + m + d + 2);
	char *more;

	if (!e)
		return NULL;
	*e = (struct queue_err){ 1, code, worker, task, 0, NULL };
	if (m)
		memcpy(e->message, message, m);
	e->message[m] = '\0';
	more = e->message + m + 1;
	if (d)
		memcpy(more, details, d);
	more[d] = '\0';
	e->details = more;
	return e;
}

struct queue_err *queue_err_copy(const struct queue_error *e)
{
	return queue_err_new(e->code, e->message, e->details, e->worker, e->task);
}

struct queue_err *queue_err_sure(enum status code, struct queue_err *e)
{
	static const char text[] = "out of memory for the details";
	static union {
		struct queue_err e;
		char room[sizeof(struct queue_err) + sizeof(text)];
	} bare[STATUS_UNAUTHENTICATED + 1];
	struct queue_err *s;

	if (e)
		return e;
	s = &bare[(unsigned)code <= STATUS_UNAUTHENTICATED ? code : STATUS_UNKNOWN].e;
	/* Always the same values. */
	s->code = code;
	s->worker = -1;
	s->task = -1;
	s->details = "";
	memcpy(s->message, text, sizeof(text));
	return s;
}

struct queue_err *queue_err_printf(enum status code, int worker, int64_t task, const char *fmt, ...)
{
	/* One byte more than an error has, so that queue_err_new() cuts a text that is too long. */
	char text[QUEUE_TEXT_MAX + 2];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return queue_err_sure(code, queue_err_new(code, text, "", worker, task));
}

struct queue_err *queue_err_ref(struct queue_err *e)
{
	if (e && e->refs)
		e->refs++;
	return e;
}

void queue_err_unref(struct queue_err *e)
{
	if (e && e->refs && !--e->refs)
		free(e);
}

struct queue_error queue_err_view(const struct queue_err *e)
{
	if (!e)
		return (struct queue_error){ STATUS_OK, "", "", -1, -1 };
	return (struct queue_error){ e->code, e->message, e->details, e->worker, e->task };
}

size_t queue_err_len(const struct queue_err *e)
{
	return strlen(e->message) + strlen(e->details);
}
