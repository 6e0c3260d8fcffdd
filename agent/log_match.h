/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Whether a line contains a text, where the line comes in pieces and the text may lie across two of
 * them. Keeps no more of a line than the text is long. Pure.
 */

#include "common/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

struct log_match {
	const char *text; /* borrowed; NULL: all lines match */
	size_t len;
	bool found; /* in the line that goes on */
	char *end;  /* of what came of it, less than len bytes, with room for as many behind them */
	size_t n_end;
};

/* Returns 0 or -ENOMEM. */
_must_check_ int log_match_init(struct log_match *m, const char *text);
void log_match_fini(struct log_match *m);

/* The next piece; first: of a new line. Returns whether the text was found by now. */
bool log_match_piece(struct log_match *m, const char *data, size_t n, bool first);
