/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes io.elasticd.Manager.Line objects for people: adds prefix, time and colour, and never
 * changes the worker's bytes. Joins the parts of a line; on a terminal it shows parts as they come,
 * and another worker's line between them ends the first.
 */

#include "client/base/ctl.h"

enum line_time { LINE_TIME_NONE, LINE_TIME_ISO, LINE_TIME_RELATIVE };

/* Longer unfinished lines are written in parts. */
enum { LINE_HELD_MAX = 64 * 1024 };

struct line_printer {
	FILE *out, *err; /* where the workers' two streams go */
	bool prefix;	 /* says "stderr" for that stream */
	bool raw;	 /* only what the workers wrote */
	bool color_out, color_err;
	bool eager; /* shows parts as they come */
	enum line_time time;
	int64_t start_us; /* relative times count from here */

	/* The rest belongs to the printer. */
	struct line_part *parts; /* unfinished lines, by worker and stream */
	size_t n_parts;
	struct line_part *open; /* the line on the screen without its newline */
};

/* lines: array of Line objects (borrowed). */
void line_printer_print(struct line_printer *p, const json_t *lines);
/* One Line object (borrowed), without flushing. */
void line_printer_add(struct line_printer *p, const json_t *line);

/* Ends an unfinished line on the screen, and flushes, so that the caller can write something else.
 */
void line_printer_break(struct line_printer *p);

/* Writes what is still held, and frees the printer's memory. */
void line_printer_end(struct line_printer *p);
