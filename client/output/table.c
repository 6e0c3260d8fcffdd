/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/table.h"

#include "common/base/printable.h"

#include <stdarg.h>
#include <string.h>
#include <wchar.h>

enum {
	GAP = 1,
	LAST_MIN = 10,
	SHRINK_MIN = 6,
	SHRINK_FAIR = 10, /* leave columns out rather than shrink one below this */
};

struct cell {
	char *text;
	int width;
	enum color color;
};

struct table {
	const struct table_column *columns;
	int n_columns;
	struct cell *cells;
	size_t n_cells, n_room;
};

static int char_width(unsigned c)
{
	int w = wcwidth((wchar_t)c);

	return w < 0 ? 1 : w;
}

size_t table_fitting(const char *text, int max, int *ret_width)
{
	size_t len = strlen(text), i = 0;
	int width = 0;

	while (i < len) {
		unsigned c = 0;
		int n = printable_utf8(text + i, len - i, &c);
		int w = n > 0 ? char_width(c) : 1;

		if (max >= 0 && width + w > max)
			break;
		width += w;
		i += n > 0 ? n : 1;
	}
	*ret_width = width;
	return i;
}

int table_width(const char *text)
{
	int width;

	table_fitting(text, -1, &width);
	return width;
}

struct table *table_new(const struct table_column *columns)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->columns = columns;
	while (columns[t->n_columns].title)
		t->n_columns++;
	return t;
}

struct table *table_free(struct table *t)
{
	if (!t)
		return NULL;
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i].text);
	free(t->cells);
	free(t);
	return NULL;
}

void table_cell(struct table *t, enum color color, const char *text)
{
	struct cell *c;

	if (t->n_cells == t->n_room) {
		size_t room = t->n_room ? t->n_room * 2 : 64;
		struct cell *cells = reallocarray(t->cells, room, sizeof(*cells));

		if (!cells)
			return;
		t->cells = cells;
		t->n_room = room;
	}
	c = &t->cells[t->n_cells++];
	*c = (struct cell){ .color = color };
	if (!text || !*text)
		return;
	c->text = strdup(text);
	for (char *p = c->text; p && *p; p++)
		if (*p == '\t' || *p == '\n')
			*p = ' ';
	if (c->text) {
		char *shown = printable_dup(c->text);

		free(c->text);
		c->text = shown;
	}
	c->width = c->text ? table_width(c->text) : 0;
}

void table_cellf(struct table *t, enum color color, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	table_cell(t, color, text);
}

int table_rows(const struct table *t)
{
	return t->n_columns > 0 ? (int)(t->n_cells / t->n_columns) : 0;
}

/* The visible columns of a table, and their widths. */
struct layout {
	int *columns; /* their numbers in the table */
	int *widths;
	int n;
};

static int at_most(int width, int max)
{
	return width < max ? width : max;
}

/* The total width if each column is cut as far as allowed while others can still be left out. */
static int least_width(const struct table *t, const struct layout *l)
{
	int total = GAP * (l->n - 1);

	for (int i = 0; i < l->n; i++) {
		bool shrinks = t->columns[l->columns[i]].flags & TABLE_SHRINK;

		total += i == l->n - 1 ? at_most(l->widths[i], LAST_MIN)
			 : shrinks     ? at_most(l->widths[i], SHRINK_FAIR)
				       : l->widths[i];
	}
	return total;
}

/* Leaves out the least important column. False if none may be left out. */
static bool drop_column(const struct table *t, struct layout *l)
{
	int which = -1, most = 0;

	for (int i = 0; i < l->n; i++) {
		int order = t->columns[l->columns[i]].flags >> 8;

		if (order > most) {
			most = order;
			which = i;
		}
	}
	if (which < 0)
		return false;
	l->n--;
	for (int i = which; i < l->n; i++) {
		l->columns[i] = l->columns[i + 1];
		l->widths[i] = l->widths[i + 1];
	}
	return true;
}

/* Shrinks the widest columns that have these flags, the last one excepted, until total fits. */
static int narrow_columns(const struct table *t, struct layout *l, int flags, int total, int limit)
{
	while (total > limit) {
		int widest = -1;

		for (int i = 0; i < l->n - 1; i++)
			if ((t->columns[l->columns[i]].flags & flags) == flags &&
				l->widths[i] > SHRINK_MIN &&
				(widest < 0 || l->widths[i] > l->widths[widest]))
				widest = i;
		if (widest < 0)
			break;
		l->widths[widest]--;
		total--;
	}
	return total;
}

/* Makes the columns fit. */
static void fit_columns(const struct table *t, struct layout *l, int limit)
{
	int total, last;

	while (least_width(t, l) > limit && drop_column(t, l))
		;
	last = l->n - 1;
	total = GAP * last;
	for (int i = 0; i < l->n; i++)
		total += l->widths[i];
	if (total > limit && l->widths[last] > LAST_MIN) {
		int want = l->widths[last] - (total - limit);

		want = want < LAST_MIN ? LAST_MIN : want;
		total -= l->widths[last] - want;
		l->widths[last] = want;
	}
	total = narrow_columns(t, l, TABLE_SHRINK, total, limit);
	narrow_columns(t, l, 0, total, limit);
}

static void write_spaces(FILE *f, int n)
{
	for (; n > 0; n--)
		fputc(' ', f);
}

static void print_cell(FILE *f, const struct cell *c, int width, bool right, bool last,
	const struct table_style *style)
{
	const char *text = c->text ? c->text : "";
	size_t len = strlen(text);
	bool cut = c->width > width;
	int shown = c->width;

	if (cut)
		len = table_fitting(text, width - 1, &shown);
	if (right)
		write_spaces(f, width - shown - cut);
	if (style->color && len > 0)
		fputs(color_code(c->color), f);
	fwrite(text, 1, len, f);
	if (cut)
		fputs(style->utf8 ? "\xe2\x80\xa6" : ">", f);
	if (style->color && len > 0 && c->color != COLOR_NONE)
		fputs(COLOR_OFF, f);
	if (!last && !right)
		write_spaces(f, width - shown - cut);
	if (!last)
		write_spaces(f, GAP);
}

/* The index of the last cell that is not empty, so that no line ends in spaces. */
static int row_end(const struct layout *l, const struct cell *cells)
{
	int n = l->n;

	while (n > 1 && cells[l->columns[n - 1]].width == 0)
		n--;
	return n;
}

static void print_legend(
	const struct table *t, FILE *f, const struct layout *l, const struct table_style *style)
{
	for (int i = 0; i < l->n; i++) {
		const struct table_column *column = &t->columns[l->columns[i]];
		char *title = (char *)column->title;
		struct cell head = { title, table_width(title), COLOR_UNDERLINE };

		print_cell(
			f, &head, l->widths[i], column->flags & TABLE_RIGHT, i == l->n - 1, style);
	}
	fputc('\n', f);
}

static void measure_columns(const struct table *t, struct layout *l, bool legend)
{
	int rows = table_rows(t);

	l->n = t->n_columns;
	for (int c = 0; c < l->n; c++) {
		l->columns[c] = c;
		l->widths[c] = legend ? table_width(t->columns[c].title) : 0;
		for (int r = 0; r < rows; r++)
			if (t->cells[r * l->n + c].width > l->widths[c])
				l->widths[c] = t->cells[r * l->n + c].width;
	}
}

void table_print(const struct table *t, FILE *f, const struct table_style *style)
{
	int rows = table_rows(t);
	_cleanup_free_ int *numbers = calloc(2 * t->n_columns + 1, sizeof(*numbers));
	struct layout l = { .columns = numbers };

	if (!numbers)
		return;
	l.widths = numbers + t->n_columns;
	measure_columns(t, &l, style->legend);
	if (style->columns > 0)
		fit_columns(t, &l, style->columns);
	if (style->legend)
		print_legend(t, f, &l, style);
	for (int r = 0; r < rows; r++) {
		const struct cell *cells = &t->cells[r * t->n_columns];
		int end = row_end(&l, cells);

		for (int i = 0; i < end; i++)
			print_cell(f, &cells[l.columns[i]], l.widths[i],
				t->columns[l.columns[i]].flags & TABLE_RIGHT, i == end - 1, style);
		fputc('\n', f);
	}
}
