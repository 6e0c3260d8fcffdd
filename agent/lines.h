/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Bytes to lines: one assembler per stream. Safe with any bytes. A line ends at "\n" or "\r\n".
 * What ends at a lone "\r" is an update (a progress bar): a line of its own, of which at most one
 * in update_ms is handed out, the newest; the last one before the line's end always is. A line
 * longer than max_piece comes in pieces, so memory stays bounded. How the input was cut into blocks
 * never changes what comes out. Pure: time is an argument, and a deadline is an answer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* START: first piece of a line. END: its last. UPDATE: ended by a carriage return. A piece without
 * END is one of several of a long line, or a partial line that was quiet for quiet_ms. */
enum { LINE_START = 1, LINE_END = 2, LINE_UPDATE = 4 };

/* Bytes of a time stamp that may precede each line (log_stamp.h). */
enum { LINES_STRIP_MAX = 28 };

/* data is valid during the call only and never contains the line's end. */
typedef void (*lines_fn)(void *arg, const char *data, size_t len, unsigned flags);

struct lines_config {
	size_t max_piece;   /* at least 8 */
	uint64_t quiet_ms;  /* a partial line is released after it; UINT64_MAX: never */
	uint64_t update_ms; /* 0: all updates are handed out */
	size_t strip;	    /* bytes taken off the start of each line; at most LINES_STRIP_MAX */
};

struct lines_buf {
	char *data;
	size_t len, room;
};

struct lines {
	const struct lines_config *config; /* borrowed */
	lines_fn fn;
	void *arg;
	struct lines_buf pend;	 /* of the current segment, not handed out yet */
	struct lines_buf update; /* the newest update that had to wait */
	uint64_t input_ms;	 /* when the last byte came */
	uint64_t shown_ms;	 /* when the last update was handed out */
	bool open;		 /* part of the current segment was handed out */
	bool cr;		 /* the last byte was "\r": a "\n" may follow */
	bool progress;		 /* the current line had an update before */
	bool shown;		 /* ... and one of them was handed out */
	bool waiting;		 /* update holds one */
	bool ever_shown;	 /* shown_ms is set */
	uint8_t stamp_len;
	char stamp[LINES_STRIP_MAX];
};

void lines_init(struct lines *l, const struct lines_config *config, lines_fn fn, void *arg);
/* Hands out nothing. */
void lines_fini(struct lines *l);

void lines_feed(struct lines *l, const char *data, size_t len, uint64_t now_ms);

/* When lines_tick() has something to do, or UINT64_MAX. */
uint64_t lines_deadline(const struct lines *l);
void lines_tick(struct lines *l, uint64_t now_ms);

/* Hands out what is waiting, as a partial line where its end is not known. */
void lines_release(struct lines *l, uint64_t now_ms);

/* The input has ended: what is there is a whole line. The assembler may be fed anew. */
void lines_finish(struct lines *l);

/* The stamp of the line being handed out (config->strip bytes), or NULL. */
const char *lines_stamp(const struct lines *l);

/* Where to cut n bytes so that no UTF-8 sequence is torn: n, or up to 3 less. */
size_t lines_cut(const char *data, size_t n);
