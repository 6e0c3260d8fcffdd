/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM_KEPT = 32768 };

void varlink_frame_init(struct varlink_frame *f, size_t max_bytes)
{
	*f = (struct varlink_frame){ .max_bytes = max_bytes };
}

void varlink_frame_fini(struct varlink_frame *f)
{
	free(f->data);
	varlink_frame_init(f, f->max_bytes);
}

/* Moves the bytes to the beginning of the buffer. */
static void compact_frame(struct varlink_frame *f)
{
	if (!f->begin)
		return;
	memmove(f->data, f->data + f->begin, f->end - f->begin);
	f->scanned -= f->begin;
	f->end -= f->begin;
	f->begin = 0;
}

size_t varlink_frame_settle(struct varlink_frame *f)
{
	size_t used = f->end - f->begin;
	char *less;

	if (!used) {
		varlink_frame_fini(f);
	} else if (f->room > ROOM_KEPT && f->room / 4 > used) {
		compact_frame(f);
		less = realloc(f->data, ROOM_KEPT > used ? ROOM_KEPT : used);
		if (less) {
			f->data = less;
			f->room = ROOM_KEPT > used ? ROOM_KEPT : used;
		}
	}
	return f->room;
}

int varlink_frame_feed(struct varlink_frame *f, const char *data, size_t len)
{
	size_t used = f->end - f->begin;
	size_t room = f->room ? f->room : 512;

	if (!len)
		return 0;
	compact_frame(f);
	while (room - used < len)
		room *= 2;
	if (room > f->room) {
		char *grown = realloc(f->data, room);

		if (!grown)
			return -ENOMEM;
		f->data = grown;
		f->room = room;
	}
	memcpy(f->data + used, data, len);
	f->end += len;
	return 0;
}

/* Finds the NUL that ends the next message; NULL if it has not come yet. */
static char *find_end(struct varlink_frame *f)
{
	char *nul = NULL;

	if (f->scanned < f->end)
		nul = memchr(f->data + f->scanned, '\0', f->end - f->scanned);
	f->scanned = nul ? (size_t)(nul - f->data) : f->end;
	return nul;
}

bool varlink_frame_ready(struct varlink_frame *f)
{
	return find_end(f) || f->end - f->begin > f->max_bytes;
}

int varlink_frame_next(struct varlink_frame *f, char **ret, size_t *ret_len)
{
	char *nul;
	size_t len;

	if (f->begin == f->end) {
		varlink_frame_fini(f);
		return 0;
	}
	nul = find_end(f);
	len = (nul ? f->scanned : f->end) - f->begin;
	if (len > f->max_bytes)
		return -EMSGSIZE;
	if (!nul)
		return 0;
	*ret = f->data + f->begin;
	*ret_len = len;
	f->begin = f->scanned = f->scanned + 1;
	return 1;
}
