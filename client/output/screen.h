/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The way of all output of elasticctl: names, reasons and lines of other users must not steer the
 * reader's terminal, so stdout and stderr go through here, and control characters become visible
 * (colours and newlines stay). main() calls it first; verbs print as usual.
 */

#include <stdbool.h>
#include <stdio.h>

/* Replaces stdout and stderr by streams that make everything printable. Exits if memory is out. */
void screen_begin(void);

/*
 * From now on the output to f (stdout or stderr) is data for programs, such as JSON or log lines.
 * It passes unchanged unless f is a terminal.
 */
void screen_exact(FILE *f);

/*
 * Shows text, a page, in place of the page before, on the terminal of standard output: as many of
 * its lines as there is room for, or, of the last page, all. Elsewhere, and where TERM is dumb,
 * pages follow each other.
 */
void screen_page(const char *text, bool last);

/* Shows line, a progress line, in place of the current line of the terminal on standard error, as
 * much of it as fits; "" removes it. */
void screen_redraw(const char *line);
