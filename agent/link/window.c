/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/link/window.h"

#include "agent/link/message.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

void link_window_fini(struct link_window *w)
{
	varlink_buffer_fini(&w->kept);
	*w = (struct link_window){ .last = 0 };
}

int link_window_write(struct link_window *w, const char *method, const char *body, size_t len)
{
	int r = link_message_write(&w->kept, method, w->last + 1, w->seen, body, len);

	if (r == 0)
		w->last++;
	return r;
}

int link_window_put(struct link_window *w, const char *method, json_t *body)
{
	int r = link_message_put(&w->kept, method, w->last + 1, w->seen, body);

	if (r == 0)
		w->last++;
	return r;
}

size_t link_window_bytes(const struct link_window *w)
{
	return varlink_buffer_len(&w->kept);
}

int link_window_take(struct link_window *w, struct varlink_buffer *out, size_t max)
{
	const char *begin = w->kept.data + w->kept.begin + w->taken_bytes, *at = begin;
	size_t left = varlink_buffer_len(&w->kept) - w->taken_bytes;
	size_t have = varlink_buffer_len(out);
	int64_t n = w->on_wire;
	int r;

	if (!left)
		return 0;
	while (left && have + (size_t)(at - begin) < max) {
		const char *end = (const char *)memchr(at, '\0', left) + 1;

		left -= (size_t)(end - at);
		at = end;
		n++;
	}
	r = varlink_buffer_append(out, begin, (size_t)(at - begin));
	if (r < 0)
		return r;
	w->taken_bytes += (size_t)(at - begin);
	w->on_wire = n;
	if (n > w->taken)
		w->taken = n;
	return 0;
}

/* Forgets the messages up to ack. */
static void drop_acknowledged(struct link_window *w, int64_t ack)
{
	struct varlink_buffer *b = &w->kept;
	size_t before = b->begin, gone;

	for (; w->acked < ack; w->acked++)
		b->begin =
			(size_t)((const char *)memchr(b->data + b->begin, '\0', b->end - b->begin) +
				 1 - b->data);
	gone = b->begin - before;
	w->taken_bytes -= gone < w->taken_bytes ? gone : w->taken_bytes;
	if (w->on_wire < w->acked)
		w->on_wire = w->acked;
	if (b->begin == b->end)
		varlink_buffer_fini(b);
}

int link_window_resume(struct link_window *w, int64_t resume, struct error *err)
{
	if (resume < w->acked || resume > w->taken)
		return error_field(err, -EPROTO, "parameters.resume",
			"expected %" PRId64 " to %" PRId64 ", got %" PRId64, w->acked, w->taken,
			resume);
	drop_acknowledged(w, resume);
	w->taken_bytes = 0;
	w->on_wire = w->acked;
	w->unacknowledged_bytes = 0;
	return 0;
}

int link_window_receive(
	struct link_window *w, int64_t n, int64_t ack, size_t len, struct error *err)
{
	if (ack > w->taken)
		return error_field(err, -EPROTO, "parameters.ack",
			"expected at most %" PRId64 ", got %" PRId64, w->taken, ack);
	if (n > w->seen + 1)
		return error_field(err, -EPROTO, "parameters.n",
			"expected %" PRId64 ", got %" PRId64, w->seen + 1, n);
	if (ack > w->acked)
		drop_acknowledged(w, ack);
	if (!n)
		return 1;
	w->unacknowledged_bytes += len;
	if (n <= w->seen)
		return 0;
	w->seen = n;
	return 1;
}

void link_window_acknowledged(struct link_window *w)
{
	w->unacknowledged_bytes = 0;
}
