/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tables for people: columns as wide as their widest cell, measured as a terminal shows them. Where
 * the terminal is narrower, columns that say least are left out, the last one is cut, then those
 * that may shrink, then all. Pure but for the stream; needs LC_CTYPE to be a UTF-8 locale to
 * measure wide characters.
 */

#include "client/color.h"
#include "common/cleanup.h"

#include <stdbool.h>
#include <stdio.h>

enum table_flags {
	TABLE_LEFT = 0,
	TABLE_RIGHT = 1,  /* right-aligned: numbers */
	TABLE_SHRINK = 2, /* may be cut where the terminal is narrow */
};

/* May be left out where it is narrow, those of a greater n (1 to 255) before others. */
#define TABLE_DROP(n) ((n) << 8)

struct table_column {
	const char *title; /* NULL ends the list */
	int flags;
};

struct table;

/* columns is borrowed for the life of the table. Returns owned, NULL without memory. */
struct table *table_new(const struct table_column *columns);
struct table *table_free(struct table *t);
DEFINE_CLEANUP(struct table *, table_free)

/*
 * The next cell, row by row; its text is made printable (tabs and newlines become spaces). NULL or
 * "" is an empty cell. Without memory the cell stays empty.
 */
void table_cell(struct table *t, enum color color, const char *text);
void table_cellf(struct table *t, enum color color, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

int table_rows(const struct table *t);

struct table_style {
	bool legend; /* column titles */
	bool color;
	int columns; /* of the terminal; 0: as wide as it takes */
	bool utf8;   /* a cut is shown by an ellipsis, else by ">" */
};

void table_print(const struct table *t, FILE *f, const struct table_style *style);

/* How many columns text takes on a terminal. */
int table_width(const char *text);
