/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes io.elasticd.Manager.Line objects for people: prefix, time and colour are put on here, the
 * bytes of the worker are never changed. A line that comes in parts is put together; for a terminal
 * its parts are shown as they come, and another worker's line between them ends it.
 */

#include "client/ctl.h"

enum line_time { LINE_TIME_NONE, LINE_TIME_ISO, LINE_TIME_RELATIVE };

/* More of a line than this is not held back. */
enum { LINE_HELD_MAX = 64 * 1024 };

struct line_printer {
	FILE *out, *err; /* where the workers' two streams go */
	bool prefix;	 /* of stderr it says so */
	bool raw;	 /* nothing but what the workers wrote */
	bool color_out, color_err;
	bool eager; /* show parts as they come */
	enum line_time time;
	int64_t start_us; /* what relative times count from */

	/* The rest is the printer's own. */
	struct line_part *parts; /* what has begun and not ended, by worker and stream */
	size_t n_parts;
	struct line_part *open; /* written without its newline */
};

/* lines: array of Line objects (borrowed). */
void line_printer_print(struct line_printer *p, const json_t *lines);
/* One Line object (borrowed), without flushing. */
void line_printer_add(struct line_printer *p, const json_t *line);

/* Ends a line that is still open on the screen, and flushes: something else can be written. */
void line_printer_break(struct line_printer *p);

/* Shows what was held back too, and frees what the printer has. */
void line_printer_end(struct line_printer *p);
