/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A pager for long output on a terminal: from pager_begin() on, all that goes to standard output
 * goes to it, and standard error as well where that is a terminal, too. The program that calls it
 * ends when the user has left the pager.
 */

#include <stdbool.h>

/* Starts ELASTICD_PAGER, else PAGER, else less or what is there; does nothing where standard output
 * is no terminal that a pager could use, where they are "" or "cat", and where no process can be
 * started. Prints nothing. */
void pager_begin(bool utf8);

/* Whether output goes to a pager now: what it shows is on a terminal. */
bool pager_runs(void);

/* After stdout was flushed: waits until the user has left. Also runs at exit(). */
void pager_end(void);
