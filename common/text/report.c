/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layout. Labels are padded to ten columns, as torchelastic's are, so that scripts that parse its
 * report keep working. The first line of a traceback stands on the label's line, the others are
 * indented. Ranks that the agent itself stopped get one line each, so that 256 of them do not hide
 * the cause.
 */
#include "common/text/report.h"

#include "common/base/cleanup.h"
#include "common/base/memstream.h"
#include "common/base/printable.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

enum { WIDTH_MIN = 30, WIDTH_MAX = 60, STDERR_LINES = 30 };

struct style {
	const char *bold, *red, *dim, *off;
};

static const struct style plain = { "", "", "", "" };
static const struct style coloured = { "\033[1m", "\033[1;31m", "\033[2m", "\033[0m" };

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s && *s ? s : NULL;
}

static void write_border(FILE *f, char c, int width)
{
	for (int i = 0; i < width; i++)
		fputc(c, f);
	fputc('\n', f);
}

/* Writes text line by line: the first at once, the others after indent. */
static void write_lines(FILE *f, const char *text, const char *indent)
{
	for (;;) {
		const char *end = strchrnul(text, '\n');

		printable_write(f, text, end - text);
		fputc('\n', f);
		if (!*end || !end[1])
			return;
		text = end + 1;
		fputs(indent, f);
	}
}

static void write_field(FILE *f, const char *label, const char *text)
{
	fprintf(f, "  %-10s: ", label);
	write_lines(f, text, "    ");
}

static void write_time(FILE *f, const json_t *failure)
{
	int64_t us = json_integer_value(json_object_get(failure, "time_us"));
	time_t seconds = us / 1000000;
	char text[64] = "<N/A>";
	struct tm tm;
	size_t n;

	if (us > 0 && localtime_r(&seconds, &tm)) {
		n = strftime(text, sizeof(text), "%Y-%m-%d_%H:%M:%S", &tm);
		snprintf(text + n, sizeof(text) - n, ".%06d", (int)(us % 1000000));
	}
	write_field(f, "time", text);
}

static void signal_text(const json_t *ex, char *buf, size_t size)
{
	const char *name = text_of(ex, "signal_name");

	snprintf(buf, size, "%" JSON_INTEGER_FORMAT " (%s)%s",
		json_integer_value(json_object_get(ex, "signal")), name ? name : "<N/A>",
		json_is_true(json_object_get(ex, "core_dumped")) ? ", core dumped" : "");
}

/* "exited with code 3", "killed by signal 9 (SIGKILL), core dumped", "could not be executed: ..."
 * for an io.elasticd.Manager.Exit object (may be NULL). Returns owned text. */
static char *exit_text(const json_t *ex)
{
	char sig[64];
	char *s = NULL;

	if (json_is_integer(json_object_get(ex, "signal"))) {
		signal_text(ex, sig, sizeof(sig));
		return asprintf(&s, "killed by signal %s", sig) < 0 ? NULL : s;
	}
	if (text_of(ex, "error"))
		return asprintf(&s, "could not be executed: %s", text_of(ex, "error")) < 0 ? NULL
											   : s;
	if (json_is_integer(json_object_get(ex, "code")))
		return asprintf(&s, "exited with code %" JSON_INTEGER_FORMAT,
			       json_integer_value(json_object_get(ex, "code"))) < 0
			       ? NULL
			       : s;
	return strdup("ended, how is not known");
}

static void write_exit(FILE *f, const json_t *failure)
{
	const json_t *ex = json_object_get(failure, "exit");
	const json_t *pid = json_object_get(failure, "pid");
	char pid_text[48] = "", code[64] = "<N/A>", sig[64] = "";

	if (json_is_integer(pid))
		snprintf(pid_text, sizeof(pid_text), " (pid: %" JSON_INTEGER_FORMAT ")",
			json_integer_value(pid));
	if (json_is_integer(json_object_get(ex, "signal"))) {
		snprintf(code, sizeof(code), "%" JSON_INTEGER_FORMAT,
			-json_integer_value(json_object_get(ex, "signal")));
		signal_text(ex, sig, sizeof(sig));
	} else if (json_is_integer(json_object_get(ex, "code"))) {
		snprintf(code, sizeof(code), "%" JSON_INTEGER_FORMAT,
			json_integer_value(json_object_get(ex, "code")));
	}
	fprintf(f, "  %-10s: %s%s\n", "exitcode", code, pid_text);
	if (*sig)
		write_field(f, "signal", sig);
	if (text_of(ex, "error"))
		write_field(f, "exec error", text_of(ex, "error"));
	if (text_of(ex, "core"))
		write_field(f, "core dump", text_of(ex, "core"));
	if (text_of(ex, "kernel"))
		write_field(f, "kernel", text_of(ex, "kernel"));
}

static void write_stderr(FILE *f, const json_t *tail, const struct style *st)
{
	size_t n = json_array_size(tail);
	size_t first = n > STDERR_LINES ? n - STDERR_LINES : 0;

	if (n == 0)
		return;
	fprintf(f, "  %-10s: last %zu line%s\n", "stderr", n - first, n - first == 1 ? "" : "s");
	for (size_t i = first; i < n; i++) {
		const char *s = json_string_value(json_array_get(tail, i));

		fprintf(f, "    %s|%s ", st->dim, st->off);
		printable_write(f, s ? s : "", s ? strlen(s) : 0);
		fputc('\n', f);
	}
}

static void write_failure(
	FILE *f, int index, const json_t *failure, bool root, const struct style *st)
{
	const char *role = text_of(failure, "role");
	const char *trace = text_of(failure, "traceback");
	const char *message = text_of(failure, "message");
	const char *host = text_of(failure, "host");
	const char *file = text_of(failure, "error_file");

	fprintf(f, "%s[%d]:%s\n", root ? st->red : st->bold, index, st->off);
	write_time(f, failure);
	write_field(f, "host", host ? host : "<N/A>");
	fprintf(f, "  %-10s: %" JSON_INTEGER_FORMAT " (local_rank: %" JSON_INTEGER_FORMAT ")\n",
		"rank", json_integer_value(json_object_get(failure, "rank")),
		json_integer_value(json_object_get(failure, "local_rank")));
	fprintf(f, "  %-10s: %s:%" JSON_INTEGER_FORMAT " (attempt: %" JSON_INTEGER_FORMAT ")\n",
		"role", role ? role : "worker",
		json_integer_value(json_object_get(failure, "index")),
		json_integer_value(json_object_get(failure, "attempt")));
	write_exit(f, failure);
	write_field(f, "error_file", file ? file : "<N/A>");
	if (text_of(failure, "error_file_problem"))
		write_field(f, "problem", text_of(failure, "error_file_problem"));
	/* A traceback ends with its message. */
	if (message && !(trace && strstr(trace, message)))
		write_field(f, "message", message);
	write_field(f, "traceback", trace ? trace : "<N/A>");
	if (root)
		write_stderr(f, json_object_get(failure, "stderr_tail"), st);
}

static void write_collateral(FILE *f, const json_t *failure)
{
	_cleanup_free_ char *how = exit_text(json_object_get(failure, "exit"));

	fprintf(f, "  rank %" JSON_INTEGER_FORMAT " (local_rank: %" JSON_INTEGER_FORMAT,
		json_integer_value(json_object_get(failure, "rank")),
		json_integer_value(json_object_get(failure, "local_rank")));
	if (json_is_integer(json_object_get(failure, "pid")))
		fprintf(f, ", pid: %" JSON_INTEGER_FORMAT,
			json_integer_value(json_object_get(failure, "pid")));
	fputs("): ", f);
	printable_write(f, how ? how : "", how ? strlen(how) : 0);
	fputc('\n', f);
}

static bool is_collateral(const json_t *failure)
{
	return json_is_true(json_object_get(failure, "collateral"));
}

static void write_others(
	FILE *f, const json_t *failures, size_t first, int width, const struct style *st)
{
	int others = 0, collateral = 0;

	write_border(f, '-', width);
	fprintf(f, "%sOther failures:%s\n", st->bold, st->off);
	for (size_t i = first; i < json_array_size(failures); i++) {
		const json_t *failure = json_array_get(failures, i);

		if (is_collateral(failure))
			collateral++;
		else
			write_failure(f, first + others++, failure, false, st);
	}
	if (others == 0)
		fputs("  <NO_OTHER_FAILURES>\n", f);
	if (collateral == 0)
		return;
	write_border(f, '-', width);
	fprintf(f, "%sCollateral (ended after the failure):%s\n", st->bold, st->off);
	for (size_t i = first; i < json_array_size(failures); i++)
		if (is_collateral(json_array_get(failures, i)))
			write_collateral(f, json_array_get(failures, i));
}

/* "First observed" is torchelastic's label. It is wrong if workers restart alone: earlier failures,
 * which a restart solved, stand below the one that ended the job. */
static bool is_first(const json_t *failures)
{
	json_int_t root =
		json_integer_value(json_object_get(json_array_get(failures, 0), "time_us"));

	for (size_t i = 1; i < json_array_size(failures); i++) {
		const json_t *failure = json_array_get(failures, i);
		const json_t *time = json_object_get(failure, "time_us");

		if (!is_collateral(failure) && json_is_integer(time) &&
			json_integer_value(time) < root)
			return false;
	}
	return true;
}

char *report_format(const char *entrypoint, const json_t *failures, bool color)
{
	const struct style *st = color ? &coloured : &plain;
	char *text = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&text, &len);
	_cleanup_free_ char *name = printable_dup(entrypoint ? entrypoint : "job");
	bool root = json_array_size(failures) > 0 && !is_collateral(json_array_get(failures, 0));
	int width = (name ? strlen(name) : 0) + strlen(" FAILED");

	if (!f)
		return NULL;
	width = width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width;
	write_border(f, '=', width);
	fprintf(f, "%s%s FAILED%s\n", st->red, name ? name : "job", st->off);
	write_border(f, '-', width);
	fprintf(f, "%sRoot Cause (%s):%s\n", st->bold,
		is_first(failures) ? "first observed failure" : "earlier failures stand below",
		st->off);
	if (root)
		write_failure(f, 0, json_array_get(failures, 0), true, st);
	else
		fputs("  <NO_ROOT_CAUSE>\n", f);
	write_others(f, failures, root ? 1 : 0, width, st);
	write_border(f, '=', width);
	return memstream_end(f, &text);
}
