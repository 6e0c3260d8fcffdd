/* SPDX-License-Identifier: Apache-2.0 */
#include "client/base/line_printer.h"

#include "client/output/time_text.h"
#include "common/text/base64.h"
#include "common/text/json.h"

#include <stddef.h>
#include <string.h>

struct line_part {
	int rank;
	bool is_err;
	bool begun; /* a part of the line was written already */
	char *held;
	size_t n_held;
	json_t *first; /* the first entry of the line: has its prefix and time */
};

/* The unfinished line of a worker on a stream; NULL if there is none, or with make if memory is
 * out. */
static struct line_part *find_part(struct line_printer *p, int rank, bool is_err, bool make)
{
	struct line_part *parts;
	ptrdiff_t open = p->open ? p->open - p->parts : -1;

	for (size_t i = 0; i < p->n_parts; i++)
		if (p->parts[i].rank == rank && p->parts[i].is_err == is_err)
			return &p->parts[i];
	if (!make)
		return NULL;
	parts = reallocarray(p->parts, p->n_parts + 1, sizeof(*parts));
	if (!parts)
		return NULL;
	p->parts = parts;
	p->open = open >= 0 ? parts + open : NULL;
	parts[p->n_parts] = (struct line_part){ .rank = rank, .is_err = is_err };
	return &parts[p->n_parts++];
}

static FILE *file_of(const struct line_printer *p, bool is_err)
{
	return is_err ? p->err : p->out;
}

/* A line was written at some time in the range that begins at *us. Moves *us to the middle of the
 * range, rounded to a power of ten that is not smaller than the range, or to a second. Returns how
 * many digits after the point are known. */
static int round_to_known(int64_t *us, int64_t range_us)
{
	int64_t unit = 1;
	int digits = 6;

	for (; unit < range_us && digits > 0; unit *= 10)
		digits--;
	*us += range_us / 2 + unit / 2;
	*us -= *us % unit;
	return digits;
}

/* Writes "+1.500000" with that many digits after the point; further digits are cut, not rounded. */
static void write_relative(int64_t us, int digits, bool about, FILE *f)
{
	char text[40];
	int n = snprintf(text, sizeof(text), "%s%+.6f", about ? "~" : "", us / 1e6);

	n -= digits > 0 ? 6 - digits : 7;
	fprintf(f, "%12.*s ", n, text);
}

/* Writes a time only as precisely as it is known, with "~" before it where that is a range. */
static void write_time(const struct line_printer *p, const json_t *line, FILE *f)
{
	int64_t us = get_int(line, "time_us"), range_us = get_int(line, "range_us");
	bool relative = p->time == LINE_TIME_RELATIVE;
	char buf[TIME_TEXT_MAX];
	int digits;

	if (p->time == LINE_TIME_NONE)
		return;
	if (us <= 0) {
		fputs("? ", f);
		return;
	}
	us -= relative ? p->start_us : 0;
	digits = round_to_known(&us, range_us);
	if (relative)
		write_relative(us, digits, range_us > 0, f);
	else
		fprintf(f, "%s%s ", range_us > 0 ? "~" : "", time_text_iso(us, digits, buf));
}

static void write_head(const struct line_printer *p, const json_t *line, bool is_err)
{
	const char *role = json_get_string(line, "role", "worker");
	int rank = (int)get_int(line, "rank");
	int index = json_object_get(line, "index") ? (int)get_int(line, "index") : rank;
	bool color = is_err ? p->color_err : p->color_out;
	FILE *f = file_of(p, is_err);

	write_time(p, line, f);
	if (p->prefix)
		fprintf(f, "%s[%s:%d%s]%s ", color ? color_rank(rank) : "", role, index,
			is_err ? " err" : "", color ? COLOR_OFF : "");
}

void line_printer_break(struct line_printer *p)
{
	if (p->open)
		putc('\n', file_of(p, p->open->is_err));
	p->open = NULL;
	fflush(p->out);
	fflush(p->err);
}

static void drop_held(struct line_part *part)
{
	free(part->held);
	json_decref(part->first);
	part->held = NULL;
	part->n_held = 0;
	part->first = NULL;
}

/* Writes the held part of a line and data after it; the line stays open. */
static void write_part(struct line_printer *p, struct line_part *part, const json_t *line,
	const char *bytes, size_t len)
{
	FILE *f = file_of(p, part->is_err);

	if (p->open != part) {
		line_printer_break(p);
		write_head(p, part->first ? part->first : line, part->is_err);
	}
	fwrite(part->held ? part->held : "", 1, part->n_held, f);
	fwrite(bytes, 1, len, f);
	drop_held(part);
	part->begun = true;
	p->open = part;
}

/* Holds a part until more comes. Returns false if it must be written now. */
static bool hold_bytes(struct line_printer *p, struct line_part *part, const json_t *line,
	const char *bytes, size_t len)
{
	char *held;

	if (p->eager || part->n_held + len > LINE_HELD_MAX)
		return false;
	held = realloc(part->held, part->n_held + len + 1);
	if (!held)
		return false;
	memcpy(held + part->n_held, bytes, len);
	part->held = held;
	part->n_held += len;
	if (!part->first)
		part->first = json_incref((json_t *)line);
	return true;
}

static void print_whole(
	struct line_printer *p, const json_t *line, bool is_err, const char *bytes, size_t len)
{
	FILE *f = file_of(p, is_err);

	if (p->open)
		line_printer_break(p);
	if (is_err)
		fflush(p->out);
	write_head(p, line, is_err);
	fwrite(bytes, 1, len, f);
	putc('\n', f);
}

static void print_bytes(struct line_printer *p, const json_t *line, const char *bytes, size_t len)
{
	const char *stream = get_text(line, "stream");
	bool is_err = stream && !strcmp(stream, "stderr"),
	     partial = json_get_bool(line, "partial", false);
	struct line_part *part = find_part(p, (int)get_int(line, "rank"), is_err, partial);

	if (!part || (!partial && !part->begun && !part->held)) {
		print_whole(p, line, is_err, bytes, len);
		return;
	}
	if (partial) {
		if (!hold_bytes(p, part, line, bytes, len))
			write_part(p, part, line, bytes, len);
		return;
	}
	/* An empty end of a line that is no longer open has nothing to show. */
	if (len > 0 || part->held || p->open == part) {
		write_part(p, part, line, bytes, len);
		putc('\n', file_of(p, is_err));
		p->open = NULL;
	}
	part->begun = false;
}

void line_printer_add(struct line_printer *p, const json_t *line)
{
	const json_t *text = json_object_get(line, "text");
	const char *base64 = get_text(line, "base64");
	_cleanup_free_ void *decoded = NULL;
	size_t len = 0;

	if (p->raw && has_value(line, "missing_lines"))
		return;
	if (base64 && base64_decode(base64, strlen(base64), &decoded, &len) == 0)
		print_bytes(p, line, decoded, len);
	else if (json_is_string(text))
		print_bytes(p, line, json_string_value(text), json_string_length(text));
}

void line_printer_print(struct line_printer *p, const json_t *lines)
{
	json_t *line;
	size_t i;

	json_array_foreach (lines, i, line)
		line_printer_add(p, line);
	fflush(p->out);
	fflush(p->err);
}

void line_printer_end(struct line_printer *p)
{
	for (size_t i = 0; i < p->n_parts; i++)
		if (p->parts[i].held)
			write_part(p, &p->parts[i], NULL, "", 0);
	line_printer_break(p);
	free(p->parts);
	p->parts = NULL;
	p->n_parts = 0;
}
