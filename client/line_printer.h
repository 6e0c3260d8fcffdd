/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes io.elasticd.Manager.Line objects for people: prefix, time and colour are put on here, the
 * bytes of the worker are never changed. A line that is shown in parts stays together, unless
 * another worker's comes between.
 */

#include "client/ctl.h"

enum line_time { LINE_TIME_NONE, LINE_TIME_ISO, LINE_TIME_RELATIVE };

struct line_printer {
	FILE *out, *err; /* where the workers' two streams go */
	bool prefix;
	bool color_out, color_err;
	enum line_time time;
	int64_t start_us; /* what relative times count from */
	/* A line without its newline was written for these. */
	bool open;
	int open_rank;
	FILE *open_file;
};

/* lines: array of Line objects (borrowed). */
void line_printer_print(struct line_printer *p, const json_t *lines);

/* Ends a line that is still open, and flushes. */
void line_printer_end(struct line_printer *p);
