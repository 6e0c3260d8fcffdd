/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A log as a sequence of pieces, none longer than a line, each with its time. viewer.c reads these,
 * and reader.c merges several logs by their times. Reads and keeps one block at a time. Knows
 * nothing of what a viewer wants.
 */

#include "agent/logs/source.h"

struct log_input {
	struct log_source source;
	bool stamped; /* each line begins with a time (timestamp.h) */
	char *block;
	size_t at, end;		   /* bytes of block read but not taken */
	bool over;		   /* the end of this part was reached */
	bool within;		   /* the last piece taken did not end its line */
	int64_t time_us, range_us; /* when the block was written; the caller may set them */
	/* The earliest time at which the next piece's line can have been written, and never earlier
	 * than that of the line before it; -1: not known. */
	int64_t next_us;
};

/* path as in source.h. Returns 0 or -ENOMEM. */
_must_check_ int log_input_init(struct log_input *in, const char *path, bool stamped);
void log_input_fini(struct log_input *in);

/* The source was moved to another place: drops what was read. */
void log_input_reset(struct log_input *in);

/* Reads a block, or goes on to the next part, when log_input_ready() is false. Returns 1, 0 at the
 * end of the last part, or a negative errno. */
_must_check_ int log_input_fill(struct log_input *in);
bool log_input_ready(const struct log_input *in);

/* Takes the next piece, with its newline if it has one; borrowed until the next call. */
size_t log_input_take(struct log_input *in, const char **ret);
