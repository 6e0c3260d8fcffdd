/* SPDX-License-Identifier: Apache-2.0 */
#include "client/line_printer.h"

#include "client/humane.h"

#include <inttypes.h>
#include <string.h>

static int digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Writes what s stands for; stops at the first character that is not base64. */
static void write_base64(FILE *f, const char *s)
{
	unsigned bits = 0;
	int n = 0;

	for (; digit(*s) >= 0; s++) {
		bits = bits << 6 | (unsigned)digit(*s);
		n += 6;
		if (n >= 8) {
			n -= 8;
			putc(bits >> n & 0xff, f);
		}
	}
}

static void close_line(struct line_printer *p)
{
	if (!p->open)
		return;
	putc('\n', p->open_file);
	p->open = false;
}

static void write_time(struct line_printer *p, const json_t *line, FILE *f)
{
	int64_t us = get_int(line, "time_us");
	char buf[HUMANE_TEXT_MAX];

	if (p->time == LINE_TIME_NONE)
		return;
	if (us <= 0)
		fputs("? ", f);
	else if (p->time == LINE_TIME_ISO)
		fprintf(f, "%s ", humane_iso(us, buf));
	else
		fprintf(f, "%+12.6f ", (us - p->start_us) / 1e6);
}

static void write_head(struct line_printer *p, const json_t *line, FILE *f)
{
	const char *role = get_text(line, "role");
	int rank = (int)get_int(line, "rank");
	bool color = f == p->err ? p->color_err : p->color_out;

	write_time(p, line, f);
	if (p->prefix)
		fprintf(f, "%s[%s:%d]%s ", color ? color_rank(rank) : "", role ? role : "worker",
			rank, color ? COLOR_OFF : "");
}

static void print_line(struct line_printer *p, const json_t *line)
{
	const char *stream = get_text(line, "stream"), *base64 = get_text(line, "base64");
	const json_t *text = json_object_get(line, "text");
	FILE *f = stream && !strcmp(stream, "stderr") ? p->err : p->out;
	int rank = (int)get_int(line, "rank");

	if (p->open && (p->open_rank != rank || p->open_file != f))
		close_line(p);
	if (f != p->out)
		fflush(p->out);
	if (!p->open)
		write_head(p, line, f);
	if (base64)
		write_base64(f, base64);
	else if (json_is_string(text))
		fwrite(json_string_value(text), 1, json_string_length(text), f);
	p->open = get_true(line, "partial");
	p->open_rank = rank;
	p->open_file = f;
	if (!p->open)
		putc('\n', f);
}

void line_printer_print(struct line_printer *p, const json_t *lines)
{
	json_t *line;
	size_t i;

	json_array_foreach (lines, i, line)
		print_line(p, line);
	fflush(p->out);
	fflush(p->err);
}

void line_printer_end(struct line_printer *p)
{
	close_line(p);
	fflush(p->out);
	fflush(p->err);
}
