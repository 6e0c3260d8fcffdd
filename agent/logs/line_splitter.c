/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The common case, a whole line inside one block, costs a memchr() and a call. Everything else goes
 * through pend, which holds at most max_piece bytes of the current segment (the bytes since the
 * last "\n" or lone "\r"). Only the byte after a "\r" says whether it ended a line or an update, so
 * cr remembers it.
 */
#include "agent/logs/line_splitter.h"

#include "common/base/printable.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void lines_init(struct lines *l, const struct lines_config *config, lines_fn fn, void *arg)
{
	assert(config->strip <= LINES_STRIP_MAX && config->max_piece >= 8);
	*l = (struct lines){ .config = config, .fn = fn, .arg = arg };
}

void lines_buf_fini(struct lines_buf *b)
{
	free(b->data);
	*b = (struct lines_buf){ 0 };
}

void lines_fini(struct lines *l)
{
	lines_buf_fini(&l->pend);
	lines_buf_fini(&l->update);
}

bool lines_buf_add(struct lines_buf *b, const char *data, size_t n)
{
	if (b->len + n > b->room) {
		size_t room = b->room ? b->room : 128;
		char *p;

		while (room < b->len + n)
			room *= 2;
		p = realloc(b->data, room);
		if (!p)
			return false;
		b->data = p;
		b->room = room;
	}
	if (n > 0)
		memcpy(b->data + b->len, data, n);
	b->len += n;
	return true;
}

void lines_buf_clear(struct lines_buf *b)
{
	b->len = 0;
	if (b->room > 4096)
		lines_buf_fini(b);
}

const char *lines_stamp(const struct lines *l)
{
	return l->config->strip && l->stamp_len == l->config->strip ? l->stamp : NULL;
}

static void drop_update(struct lines *l)
{
	l->waiting = false;
	lines_buf_clear(&l->update);
}

static void emit_piece(struct lines *l, const char *data, size_t n, unsigned flags)
{
	if (!l->open)
		flags |= LINE_START;
	l->open = !(flags & LINE_END);
	/* The text shown now is newer than the update held back. */
	if (l->open)
		drop_update(l);
	l->fn(l->arg, n ? data : "", n, flags);
}

static void emit_pend(struct lines *l, unsigned flags)
{
	emit_piece(l, l->pend.data, l->pend.len, flags);
	lines_buf_clear(&l->pend);
}

static void mark_shown(struct lines *l, uint64_t now_ms)
{
	l->shown = l->ever_shown = true;
	l->shown_ms = now_ms;
	drop_update(l);
}

static bool is_blank(const char *p, size_t n)
{
	while (n > 0 && (*p == ' ' || *p == '\t')) {
		p++;
		n--;
	}
	return n == 0;
}

static bool update_due(const struct lines *l, uint64_t now_ms)
{
	return !l->ever_shown || now_ms - l->shown_ms >= l->config->update_ms;
}

/* The segment in pend was ended by a lone carriage return. */
static void end_update(struct lines *l, uint64_t now_ms)
{
	l->cr = false;
	l->progress = true;
	if (!l->open && is_blank(l->pend.data, l->pend.len)) {
		lines_buf_clear(&l->pend);
	} else if (l->open || update_due(l, now_ms)) {
		emit_pend(l, LINE_END | LINE_UPDATE);
		mark_shown(l, now_ms);
	} else {
		struct lines_buf old = l->update;

		l->update = l->pend;
		l->pend = old;
		l->pend.len = 0;
		l->waiting = true;
	}
}

/* The line ends behind pend and the n bytes at p. */
static void end_line(struct lines *l, const char *p, size_t n)
{
	if (l->pend.len > 0 && n > 0) {
		if (!lines_buf_add(&l->pend, p, n)) {
			emit_pend(l, 0);
			emit_piece(l, p, n, LINE_END);
			goto done;
		}
		n = 0;
	}
	if (l->pend.len > 0) {
		p = l->pend.data;
		n = l->pend.len;
	}
	if (!l->open && l->progress && is_blank(p, n)) {
		/* The update held back is the last text of the line, so hand it out. */
		if (l->waiting)
			emit_piece(l, l->update.data, l->update.len, LINE_END);
		else if (!l->shown)
			emit_piece(l, p, n, LINE_END);
	} else {
		emit_piece(l, p, n, LINE_END);
	}
done:
	lines_buf_clear(&l->pend);
	drop_update(l);
	l->cr = l->progress = l->shown = false;
	l->stamp_len = 0;
}

/* Adds n bytes of text to the segment and hands out what exceeds max_piece. Returns how many bytes
 * at *p the caller must still keep (0, or the rest, with *p moved there). */
static size_t emit_excess(struct lines *l, const char **p, size_t n)
{
	size_t max = l->config->max_piece;

	while (l->pend.len + n > max) {
		size_t cut, take = max - l->pend.len;

		if (l->pend.len == 0) {
			cut = printable_cut(*p, max);
			emit_piece(l, *p, cut, 0);
			*p += cut;
			n -= cut;
			continue;
		}
		if (!lines_buf_add(&l->pend, *p, take)) {
			emit_pend(l, 0);
			continue;
		}
		*p += take;
		n -= take;
		cut = printable_cut(l->pend.data, max);
		emit_piece(l, l->pend.data, cut, 0);
		l->pend.len = max - cut;
		memmove(l->pend.data, l->pend.data + cut, l->pend.len);
	}
	return n;
}

static void keep_in_pend(struct lines *l, const char *p, size_t n)
{
	if (n > 0 && !lines_buf_add(&l->pend, p, n)) {
		/* Without memory, show the line in pieces rather than lose it. */
		if (l->pend.len > 0)
			emit_pend(l, 0);
		emit_piece(l, p, n, 0);
	}
}

/* Takes bytes of a line's stamp. Returns how many. */
static size_t eat_stamp(struct lines *l, const char *p, size_t n)
{
	size_t want = l->config->strip - l->stamp_len;
	size_t take = n < want ? n : want;
	const char *nl = memchr(p, '\n', take);

	if (nl)
		take = nl - p;
	memcpy(l->stamp + l->stamp_len, p, take);
	l->stamp_len += take;
	if (!nl)
		return take;
	/* The line is too short to have a stamp: show it all as text. */
	keep_in_pend(l, l->stamp, l->stamp_len);
	end_line(l, NULL, 0);
	return take + 1;
}

void lines_feed(struct lines *l, const char *data, size_t len, uint64_t now_ms)
{
	const char *p = data, *end, *cr;

	if (len == 0) /* data may be NULL */
		return;
	end = data + len;
	l->input_ms = now_ms;
	cr = memchr(p, '\r', len);
	if (!cr)
		cr = end;
	while (p < end) {
		const char *nl, *stop;
		size_t n;

		if (l->stamp_len < l->config->strip) {
			p += eat_stamp(l, p, end - p);
			continue;
		}
		if (l->cr) {
			if (*p == '\n') {
				end_line(l, NULL, 0);
				p++;
			} else {
				end_update(l, now_ms);
			}
			continue;
		}
		if (cr < p) {
			cr = memchr(p, '\r', end - p);
			if (!cr)
				cr = end;
		}
		nl = memchr(p, '\n', cr - p);
		stop = nl ? nl : cr;
		n = emit_excess(l, &p, stop - p);
		if (nl) {
			end_line(l, p, n);
		} else {
			keep_in_pend(l, p, n);
			l->cr = stop < end;
		}
		p = stop + 1;
	}
}

/* When the bytes in pend become a partial line to show. */
static uint64_t pend_deadline(const struct lines *l)
{
	uint64_t at, next;

	if (l->pend.len == 0 || l->config->quiet_ms == UINT64_MAX)
		return UINT64_MAX;
	at = l->input_ms + l->config->quiet_ms;
	if (l->open || !(l->progress || l->cr))
		return at;
	if (is_blank(l->pend.data, l->pend.len))
		return UINT64_MAX;
	next = l->ever_shown ? l->shown_ms + l->config->update_ms : 0;
	return next > at ? next : at;
}

uint64_t lines_deadline(const struct lines *l)
{
	uint64_t at = pend_deadline(l);
	uint64_t update = l->waiting ? l->shown_ms + l->config->update_ms : UINT64_MAX;

	return update < at ? update : at;
}

static void release_pend(struct lines *l, uint64_t now_ms)
{
	bool update = l->cr || l->progress;

	if (l->cr) {
		emit_pend(l, LINE_END | LINE_UPDATE);
		l->cr = false;
		l->progress = true;
	} else {
		emit_pend(l, 0);
	}
	if (update)
		mark_shown(l, now_ms);
}

static void release_update(struct lines *l, uint64_t now_ms)
{
	emit_piece(l, l->update.data, l->update.len, LINE_END | LINE_UPDATE);
	mark_shown(l, now_ms);
}

void lines_tick(struct lines *l, uint64_t now_ms)
{
	if (now_ms >= pend_deadline(l))
		release_pend(l, now_ms);
	else if (l->waiting && now_ms >= l->shown_ms + l->config->update_ms)
		release_update(l, now_ms);
}

void lines_release(struct lines *l, uint64_t now_ms)
{
	if (l->pend.len > 0 && (l->open || !(l->progress && is_blank(l->pend.data, l->pend.len))))
		release_pend(l, now_ms);
	else if (l->waiting)
		release_update(l, now_ms);
}

void lines_finish(struct lines *l)
{
	if (l->stamp_len < l->config->strip)
		keep_in_pend(l, l->stamp, l->stamp_len);
	if (l->pend.len > 0 || l->open || l->waiting)
		end_line(l, NULL, 0);
	l->cr = l->progress = l->shown = false;
	l->stamp_len = 0;
}
