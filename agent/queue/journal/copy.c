/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/queue/journal/copy.h"

#include <errno.h>

static bool copy_is_whole(const struct copy *c)
{
	return !c->number || (c->acked > 0 && c->acked >= c->whole);
}

static void copy_count(struct copy *c)
{
	uint64_t kept = c->number ? c->end - (c->size - c->acked) : c->end;

	if (c->note == COPY_NOTED && copy_is_whole(c) && kept > c->kept)
		c->kept = kept;
}

static void copy_restart(struct copy *c)
{
	c->number = ++c->copies;
	c->whole = c->size;
	c->sent = c->acked = 0;
}

/* The first position is 1: all answers rely on the edition. */
void copy_begin(struct copy *c, uint64_t size)
{
	*c = (struct copy){ .size = size, .end = 1 };
}

void copy_grown(struct copy *c, uint64_t size)
{
	c->end += size - c->size;
	c->size = size;
	copy_count(c);
}

void copy_replaced(struct copy *c, uint64_t size)
{
	c->size = size;
	if (c->number)
		copy_restart(c);
}

void copy_to(struct copy *c, bool deputy)
{
	c->changed = c->note == COPY_NOTE_ASKED;
	if (!c->changed)
		c->note = COPY_NOTE_DUE;
	c->number = 0;
	if (deputy)
		copy_restart(c);
}

bool copy_next(struct copy *c, struct copy_part *ret)
{
	uint64_t len = c->size - c->sent;

	if (!c->number || !len || c->sent - c->acked >= COPY_WINDOW_BYTES)
		return false;
	if (len > COPY_PART_BYTES)
		len = COPY_PART_BYTES;
	*ret = (struct copy_part){ .number = c->number,
		.offset = c->sent,
		.len = (size_t)len,
		.whole = c->sent < c->whole && c->sent + len >= c->whole };
	c->sent += len;
	return true;
}

int copy_acked(struct copy *c, int64_t number, uint64_t bytes)
{
	if (number > c->copies || (number == c->number && (bytes < c->acked || bytes > c->sent)))
		return -EPROTO;
	if (number != c->number)
		return 0; /* of an earlier copy */
	c->acked = bytes;
	copy_count(c);
	return 0;
}

bool copy_wants_note(const struct copy *c)
{
	return c->note == COPY_NOTE_DUE && copy_is_whole(c);
}

void copy_note_asked(struct copy *c)
{
	c->note = COPY_NOTE_ASKED;
}

void copy_noted(struct copy *c)
{
	if (c->note != COPY_NOTE_ASKED)
		return;
	c->note = c->changed ? COPY_NOTE_DUE : COPY_NOTED;
	c->changed = false;
	copy_count(c);
}
