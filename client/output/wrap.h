/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Breaks lines that are too long for the terminal and indents the rest. Pure but for the stream;
 * called by verbs that print text outside tables.
 */

#include <stdio.h>

/* Indent a line's continuation two columns deeper than the line. */
enum { WRAP_OWN = -1 };

/*
 * Prints text with lines of at most that many columns (0: no limit), broken at spaces and never
 * within a word; the continuation is indented by indent columns or WRAP_OWN. A rule (one character
 * repeated) is cut. Colours take no columns.
 */
void wrap_print(FILE *f, const char *text, int indent, int columns);

/* Prints a row of help: left, and text from the column indent on, in further lines where it is
 * long, and below left where that is. */
void wrap_row(FILE *f, const char *left, int indent, const char *text);
