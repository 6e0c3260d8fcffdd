/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What elasticctl prints, on its way out: names, reasons and lines of other users must not steer
 * the terminal of whoever reads them. All that is written to stdout and stderr goes through here
 * and leaves with its control characters made visible (colours and ends of lines stay). Called by
 * main() first of all; the verbs print as ever.
 */

#include <stdio.h>

/* From now on stdout and stderr are the streams that make everything printable. Without memory
 * the program ends. */
void screen_begin(void);

/*
 * What is printed on f (stdout or stderr) are bytes for a program from now on, such as JSON or the
 * lines of a log. They leave as they are where f is no terminal; to a terminal nothing does.
 */
void screen_exact(FILE *f);

/* Draws line, of a progress that changes, over the current line of the terminal on standard error;
 * "" takes it away. */
void screen_redraw(const char *line);
