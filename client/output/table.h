/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Tables for people: each column is as wide as its widest cell, measured as a terminal shows it. On
 * a narrower terminal the least important columns are left out and the last one is cut, then those
 * that may shrink, then all. Pure but for the stream; needs a UTF-8 LC_CTYPE to measure wide
 * characters.
 */

#include "client/output/color.h"
#include "common/base/cleanup.h"

#include <stdbool.h>
#include <stdio.h>

enum table_flags {
	TABLE_LEFT = 0,
	TABLE_RIGHT = 1,  /* right-aligned: numbers */
	TABLE_SHRINK = 2, /* may be cut on a narrow terminal */
};

/* May be left out on a narrow terminal; the greatest n (1 to 255) first. */
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
	int columns; /* of the terminal; 0: no limit */
	bool utf8;   /* a cut shows an ellipsis, else ">" */
};

void table_print(const struct table *t, FILE *f, const struct table_style *style);

/* How many columns text needs on a terminal. */
int table_width(const char *text);
/* How many bytes of text fit into max columns (-1: no limit); ret_width is their width. */
size_t table_fitting(const char *text, int max, int *ret_width);
