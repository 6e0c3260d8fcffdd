/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Splits one stream of bytes, of any value, into lines. A line ends at "\n" or "\r\n". Text that
 * ends at a lone "\r" is an update (a progress bar), handed out as a line of its own: at most one
 * per update_ms, the newest, and always the last one before the line's end. A line longer than
 * max_piece is handed out in pieces, so memory stays bounded. The result does not depend on how the
 * input was cut into blocks. Pure: time is an argument, and a deadline is an answer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* START: first piece of a line. END: its last. UPDATE: ended by a carriage return. A piece without
 * END belongs to a long line that goes on, or is a partial line, quiet for quiet_ms. */
enum { LINE_START = 1, LINE_END = 2, LINE_UPDATE = 4 };

/* Bytes of a time stamp that may precede each line (timestamp.h). */
enum { LINES_STRIP_MAX = 28 };

/* data is valid during the call only and never contains the line's end. */
typedef void (*lines_fn)(void *arg, const char *data, size_t len, unsigned flags);

struct lines_config {
	size_t max_piece;   /* at least 8 */
	uint64_t quiet_ms;  /* a partial line is handed out after this time; UINT64_MAX: never */
	uint64_t update_ms; /* 0: all updates are handed out */
	size_t strip;	    /* bytes taken off the start of each line; at most LINES_STRIP_MAX */
};

/* Bytes that grow; zeroed to begin with. */
struct lines_buf {
	char *data;
	size_t len, room;
};

struct lines {
	const struct lines_config *config; /* borrowed */
	lines_fn fn;
	void *arg;
	struct lines_buf pend;	 /* of the current segment, not yet handed out */
	struct lines_buf update; /* the newest update, held back */
	uint64_t input_ms;	 /* when the last byte came */
	uint64_t shown_ms;	 /* when the last update was handed out */
	bool open;		 /* a part of the current segment was handed out */
	bool cr;		 /* the last byte was "\r": a "\n" may follow */
	bool progress;		 /* the current line has had an update */
	bool shown;		 /* ... which was handed out */
	bool waiting;		 /* update holds a text */
	bool ever_shown;	 /* shown_ms is set */
	uint8_t stamp_len;
	char stamp[LINES_STRIP_MAX];
};

/* Returns false without memory, and leaves b as it was. */
bool lines_buf_add(struct lines_buf *b, const char *data, size_t n);
/* Frees a big buffer: long lines are rare, and streams are many. */
void lines_buf_clear(struct lines_buf *b);
void lines_buf_fini(struct lines_buf *b);

void lines_init(struct lines *l, const struct lines_config *config, lines_fn fn, void *arg);
/* Frees without handing out what is waiting. */
void lines_fini(struct lines *l);

void lines_feed(struct lines *l, const char *data, size_t len, uint64_t now_ms);

/* When lines_tick() must be called next, or UINT64_MAX. */
uint64_t lines_deadline(const struct lines *l);
void lines_tick(struct lines *l, uint64_t now_ms);

/* Hands out all that is waiting, a line without its end as a partial one. */
void lines_release(struct lines *l, uint64_t now_ms);

/* The input has ended: hands out what is left as a whole line. More input may follow. */
void lines_finish(struct lines *l);

/* The stamp of the line being handed out (config->strip bytes), or NULL. */
const char *lines_stamp(const struct lines *l);
