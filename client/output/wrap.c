/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/wrap.h"

#include "client/output/table.h"
#include "common/base/cleanup.h"

#include <stdbool.h>
#include <string.h>

/* The end of a sequence that sets a colour at s, else s. */
static const char *after_color(const char *s, const char *end)
{
	const char *p = s + 2;

	if (end - s < 3 || s[0] != '\033' || s[1] != '[')
		return s;
	while (p < end && strchr("0123456789;", *p))
		p++;
	return p < end && *p == 'm' ? p + 1 : s;
}

static int width_of(const char *s, const char *end)
{
	_cleanup_free_ char *bare = malloc((size_t)(end - s) + 1);
	char *out = bare;

	if (!bare)
		return (int)(end - s);
	while (s < end) {
		const char *p = after_color(s, end);

		if (p == s)
			*out++ = *p++;
		s = p;
	}
	*out = '\0';
	return table_width(bare);
}

static bool is_rule(const char *s, const char *end)
{
	const char *p = s;

	while (p < end && *p == *s)
		p++;
	return p == end && *s != ' ';
}

static void wrap_line(FILE *f, const char *s, const char *end, int indent, int columns)
{
	size_t own = strspn(s, " ");
	const char *next = s + own;
	int used = (int)own;

	if (indent < 0)
		indent = (int)own + 2;
	fwrite(s, 1, own, f);
	for (bool first = true; next < end; first = false) {
		const char *word = next + strspn(next, " ");
		const char *word_end = word + strcspn(word, " \n");
		int gap = (int)(word - next), width = width_of(word, word_end);

		if (!first && used + gap + width > columns && indent < used) {
			fprintf(f, "\n%*s", indent, "");
			used = indent;
			gap = 0;
		}
		fprintf(f, "%*s", gap, "");
		fwrite(word, 1, (size_t)(word_end - word), f);
		used += gap + width;
		next = word_end;
	}
}

void wrap_print(FILE *f, const char *text, int indent, int columns)
{
	while (*text) {
		const char *end = strchrnul(text, '\n');

		if (columns <= 0 || width_of(text, end) <= columns)
			fwrite(text, 1, (size_t)(end - text), f);
		else if (is_rule(text, end))
			fwrite(text, 1, (size_t)columns, f);
		else
			wrap_line(f, text, end, indent, columns);
		if (*end)
			fputc('\n', f);
		text = *end ? end + 1 : end;
	}
}

void wrap_row(FILE *f, const char *left, int indent, const char *text)
{
	enum { ROW_WIDTH = 96 };
	_cleanup_free_ char *row = NULL;
	int used = (int)strlen(left);

	if (asprintf(&row, "%s%s%*s%s\n", left, used < indent ? "" : "\n",
		    used < indent ? indent - used : indent, "", text) < 0)
		row = NULL;
	if (row)
		wrap_print(f, row, indent, ROW_WIDTH);
}
