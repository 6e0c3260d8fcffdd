/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The terminal, by ncurses: paints frames, reads keys, and leaves everything as it was. Without
 * ncurses (HAVE_NCURSES is 0) it can never be opened.
 */

#include "client/top/view.h"
#include "common/base/error.h"

/* -ENOTSUP with err: this terminal cannot move its cursor, or this program was built without
 * ncurses. */
_must_check_ int terminal_check(struct error *err);
/* Takes the terminal of standard input and output, after terminal_check(). Returns as that. */
_must_check_ int terminal_open(bool color, struct error *err);
/* Gives it back; does nothing the second time. Also runs at exit(). */
void terminal_close(void);

/* Its size now. */
void terminal_size(int *ret_rows, int *ret_columns);

/* all: also what the terminal shows already by its own account. */
void terminal_paint(const struct top_frame *f, bool all);

/* The next key that has been typed, a character or one of enum top_key; 0: none. */
int terminal_key(void);
