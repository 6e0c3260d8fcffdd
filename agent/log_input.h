/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A log as a sequence of pieces, none longer than a line, each with its time: what log_view.c reads
 * and what several logs are put into one order by. Reads in blocks, and keeps one. Knows nothing of
 * what a viewer wants.
 */

#include "agent/log_source.h"

struct log_input {
	struct log_source source;
	bool stamped; /* each line begins with a time (log_stamp.h) */
	char *block;
	size_t at, end;		   /* what was read and not taken yet */
	bool over;		   /* there is no more of this part now */
	bool within;		   /* the piece in front was not the end of its line */
	int64_t time_us, range_us; /* when the block was written; may be set by the caller */
	int64_t next_us;	   /* log_input_time() */
};

/* path as in log_source.h. Returns 0 or -ENOMEM. */
_must_check_ int log_input_init(struct log_input *in, const char *path, bool stamped);
void log_input_fini(struct log_input *in);

/* The source was put to another place: forgets what was read. */
void log_input_moved(struct log_input *in);

/* Reads so that there is a piece, or goes to the next part; for when log_input_ready() is false.
 * Returns 1, 0 at the end of all there is, or a negative errno. */
_must_check_ int log_input_fill(struct log_input *in);
bool log_input_ready(const struct log_input *in);

/* When the line that the next piece begins was written, at the earliest, and never before the one
 * in front of it; -1: not known. */
int64_t log_input_time(const struct log_input *in);

/* The next piece, with its newline where it has one; borrowed until the next call. */
size_t log_input_take(struct log_input *in, const char **ret);
