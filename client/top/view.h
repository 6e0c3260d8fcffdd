/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The lines of the screen, made from the state. Pure. */

#include "client/top/top.h"

enum top_look {
	TOP_PLAIN,
	TOP_HEAD,     /* the first line */
	TOP_GOOD,     /* something for the user to know */
	TOP_BAD,      /* trouble */
	TOP_TITLES,   /* of a table */
	TOP_SELECTED, /* no colours of its own */
};

struct top_line {
	char *text; /* at most as wide as the terminal; may have colours (ESC [ ... m) */
	enum top_look look;
};

struct top_frame {
	struct top_line *lines; /* as many as the terminal has rows */
	int n;
	int cursor; /* the column in the last line where the user types; -1: nowhere */
};

/* Scrolls the list so that what is selected is to be seen. Returns 0 with ret for
 * top_frame_fini(), or -ENOMEM. */
_must_check_ int top_view(struct top *t, struct top_frame *ret);
void top_frame_fini(struct top_frame *f);
