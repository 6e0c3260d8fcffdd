/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Finds a text in a line that comes in pieces; the text may lie across two of them. Keeps no more
 * of the line than the text is long. Pure.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stddef.h>

struct log_match {
	const char *text; /* borrowed; NULL: all lines match */
	size_t len;
	bool found; /* in the present line */
	char *end;  /* last bytes of the line so far: less than len, with room for as many more */
	size_t n_end;
};

/* Returns 0 or -ENOMEM. */
_must_check_ int log_match_init(struct log_match *m, const char *text);
void log_match_fini(struct log_match *m);

/* Looks at the next piece; first: it begins a line. Returns true once the line contains the text.
 */
bool log_match_piece(struct log_match *m, const char *data, size_t n, bool first);
