/* SPDX-License-Identifier: Apache-2.0 */
#include "client/top/view.h"

#include "client/base/ctl.h"
#include "client/base/job.h"
#include "client/output/plural.h"
#include "client/output/time_text.h"
#include "client/top/columns.h"
#include "common/base/printable.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const help_lines[] = {
	"Enter      show the workers of a job; logs of one",
	"Esc        back; before that: take the filter off",
	"Up Down    select; also PgUp, PgDn, Home, End",
	"l          follow the logs of what is selected",
	"k          send it a signal, after a question",
	"/          show only lines with this text",
	"< > F6     sort by the next column",
	"R          the other way round",
	"P M G      sort by CPU, memory, GPU memory",
	"q          leave; no job notices",
	"",
	"ATT        number of the attempt, from 0",
	"RST        restarts used, and allowed",
	"CPU%       of one processor, since the last look",
	"MEM        of a job: its cgroup; of a worker: with",
	"           all processes below it",
	"GPU%       how busy its GPUs are, with all work",
	"GPUMEM     what its processes hold of GPUs",
	"STEPS/S    steps per second, of a job: its first",
	"           worker",
	"BEATS      workers with a late heartbeat",
};

enum { N_HELP = sizeof(help_lines) / sizeof(help_lines[0]) };

/* --- lines --- */

/* Cuts text to the width of the terminal. */
static void cut_text(const struct top *t, char *text)
{
	int width;

	text[table_fitting(text, t->columns, &width)] = '\0';
}

/* Takes text, which may be NULL. */
static void put_line(struct top *t, struct top_frame *f, enum top_look look, char *text)
{
	if (f->n >= t->rows) {
		free(text);
		return;
	}
	if (text && look != TOP_PLAIN)
		cut_text(t, text);
	f->lines[f->n++] = (struct top_line){ text, look };
}

static void put_text(struct top *t, struct top_frame *f, enum top_look look, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void put_text(struct top *t, struct top_frame *f, enum top_look look, const char *fmt, ...)
{
	_cleanup_free_ char *text = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	put_line(t, f, look, text ? printable_dup(text) : NULL);
}

/* Puts right at the right edge, where there is room for both. */
static void put_head(struct top *t, struct top_frame *f, const char *left, const char *right)
{
	int room = t->columns - table_width(left) - table_width(right);

	if (room >= 2)
		put_text(t, f, TOP_HEAD, "%s%*s%s", left, room, "", right);
	else
		put_text(t, f, TOP_HEAD, "%s", left);
}

/* The second line: trouble first. */
static void put_notice(struct top *t, struct top_frame *f, const char *else_text)
{
	if (t->lost[0])
		put_text(t, f, TOP_BAD, "%s", t->lost);
	else if (t->notice[0])
		put_text(t, f, t->notice_bad ? TOP_BAD : TOP_GOOD, "%s", t->notice);
	else
		put_text(t, f, TOP_GOOD, "%s", else_text);
}

static void put_empty_lines(struct top *t, struct top_frame *f)
{
	while (f->n < t->rows - 1)
		put_line(t, f, TOP_PLAIN, NULL);
}

/* --- the list --- */

static void strip_colors(char *text)
{
	char *to = text;

	for (char *p = text; *p;) {
		if (*p == '\033')
			p += strcspn(p, "m") + (p[strcspn(p, "m")] == 'm');
		else
			*to++ = *p++;
	}
	*to = '\0';
}

static void put_list(struct top *t, struct top_frame *f, struct top_list *l)
{
	struct table_style style = {
		.legend = true, .color = t->color, .columns = t->columns, .utf8 = t->utf8
	};
	_cleanup_free_ char *text = top_list_text(l, &style);
	size_t rows = top_list_rows(t), row = 0;
	char *rest = text, *line;

	top_list_scroll(l, rows);
	while (rest && (line = strsep(&rest, "\n")) && rest) {
		size_t item = row - 1;

		if (row == 0) {
			strip_colors(line);
			put_line(t, f, TOP_TITLES, strdup(line));
		} else if (item >= l->first && item < l->first + rows) {
			if (item == l->at)
				strip_colors(line);
			put_line(t, f, item == l->at ? TOP_SELECTED : TOP_PLAIN, strdup(line));
		}
		row++;
	}
	if (l->n > 0 && l->n_shown == 0)
		put_text(t, f, TOP_GOOD, "Nothing matches; Esc takes the filter off.");
}

/* How the list is sorted and filtered. */
static void list_text(const struct top_list *l, char *text, size_t size)
{
	size_t used = (size_t)snprintf(text, size, "sorted by %s%s", l->columns[l->sort].title,
		l->backwards ? ", backwards" : "");

	if (l->filter[0] && used < size)
		snprintf(text + used, size - used, "; with \"%s\": %zu of %zu", l->filter,
			l->n_shown, l->n);
}

/* --- the last line --- */

static void put_keys(struct top *t, struct top_frame *f, const char *const (*keys)[2])
{
	char text[512] = "";
	const char *on = t->color ? color_code(COLOR_CYAN) : "", *off = t->color ? COLOR_OFF : "";
	size_t used = 0;
	int width = 0;

	for (; (*keys)[0]; keys++) {
		int needs = (int)(strlen((*keys)[0]) + strlen((*keys)[1])) + 1 + (width ? 2 : 0);

		if (width + needs > t->columns)
			break;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s%s%s %s",
			width ? "  " : "", on, (*keys)[0], off, (*keys)[1]);
		width += needs;
	}
	put_line(t, f, TOP_PLAIN, strdup(text));
}

static void put_prompt(struct top *t, struct top_frame *f)
{
	const char *name = t->target.name ? t->target.name : "?";
	char pid[32] = "";

	if (t->prompt == TOP_FILTER) {
		put_text(t, f, TOP_HEAD, "/%s", t->input);
	} else if (t->prompt == TOP_SIGNAL) {
		put_text(t, f, TOP_HEAD, "Signal for %s (Up, Down: others): %s", name, t->input);
	} else {
		if (t->target.pid)
			snprintf(pid, sizeof(pid), ", pid %d", t->target.pid);
		put_text(t, f, TOP_HEAD, "Send %s to %s%s%s? (y/n) ", t->signal,
			t->target.rank < 0 ? "all workers of " : "", name, pid);
	}
	if (f->lines[f->n - 1].text)
		f->cursor = table_width(f->lines[f->n - 1].text);
	if (f->cursor >= t->columns)
		f->cursor = t->columns - 1;
}

static void put_last(struct top *t, struct top_frame *f)
{
	static const char *const jobs[][2] = { { "Enter", "Workers" }, { "l", "Logs" },
		{ "k", "Kill" }, { "/", "Filter" }, { "h", "Help" }, { "q", "Quit" },
		{ "< >", "Sort" }, { "R", "Reverse" }, { NULL, NULL } };
	static const char *const workers[][2] = { { "Esc", "Jobs" }, { "l", "Logs" },
		{ "k", "Kill" }, { "/", "Filter" }, { "h", "Help" }, { "q", "Quit" },
		{ "< >", "Sort" }, { "R", "Reverse" }, { NULL, NULL } };
	static const char *const logs[][2] = { { "Esc", "Back" }, { "PgUp PgDn", "Scroll" },
		{ "End", "Follow" }, { NULL, NULL } };
	static const char *const help[][2] = { { "Any key", "Back" }, { NULL, NULL } };
	static const char *const help_cut[][2] = { { "Up Down", "Scroll" },
		{ "Other keys", "Back" }, { NULL, NULL } };

	put_empty_lines(t, f);
	if (t->prompt != TOP_NO_PROMPT)
		put_prompt(t, f);
	else if (t->screen == TOP_HELP)
		put_keys(t, f, t->help_cut ? help_cut : help);
	else if (t->screen == TOP_LOGS)
		put_keys(t, f, logs);
	else
		put_keys(t, f, t->screen == TOP_JOBS ? jobs : workers + t->open_alone);
}

/* --- screens --- */

static void view_jobs(struct top *t, struct top_frame *f)
{
	char left[160], clock[TIME_TEXT_MAX], text[256];
	long workers = 0, running = 0;
	size_t used;

	for (size_t i = 0; i < t->jobs.n; i++) {
		int n = job_workers(t->jobs.items[i]->object, NULL);

		workers += n > 0 ? n : 0;
		running += job_in(t->jobs.items[i]->object, "running");
	}
	used = (size_t)snprintf(
		left, sizeof(left), "%zu job%s", t->jobs.n, plural((int64_t)t->jobs.n));
	if (running != (long)t->jobs.n)
		used += (size_t)snprintf(
			left + used, sizeof(left) - used, ", %ld running", running);
	used += (size_t)snprintf(
		left + used, sizeof(left) - used, ", %ld worker%s", workers, plural(workers));
	if (t->daemon[0] && t->columns >= 70)
		snprintf(left + used, sizeof(left) - used, " - elasticd %s", t->daemon);
	put_head(t, f, left, time_text_clock(t->now_us, true, clock));
	list_text(&t->jobs, text, sizeof(text));
	put_notice(t, f, text);
	put_list(t, f, &t->jobs);
	if (t->jobs.n == 0 && !t->lost[0])
		put_text(t, f, TOP_GOOD, "No jobs are active.");
}

static void open_text(const struct top *t, char *text, size_t size)
{
	const struct top_item *item = top_list_find(&t->jobs, get_text(t->open_job, "run"));
	const json_t *job = t->open_job;
	const char *reason = get_text(job, "reason");
	size_t used;
	char memory[16];

	used = (size_t)snprintf(text, size, "attempt %d, restarts %d", (int)get_int(job, "attempt"),
		(int)get_int(job, "restarts"));
	if (get_int(job, "max_restarts") >= 0 && used < size)
		used += (size_t)snprintf(
			text + used, size - used, " of %d", (int)get_int(job, "max_restarts"));
	if (item && item->cpu >= 0 && used < size)
		used += (size_t)snprintf(text + used, size - used, ", CPU %.1f%%", item->cpu);
	if (has_value(job, "memory_bytes") && used < size)
		used += (size_t)snprintf(text + used, size - used, ", %s",
			top_size(get_int(job, "memory_bytes"), memory));
	if (get_int(job, "silent_workers") > 0 && used < size)
		used += (size_t)snprintf(
			text + used, size - used, ", %d late", (int)get_int(job, "silent_workers"));
	if (reason && !job_in(job, "running") && used < size)
		snprintf(text + used, size - used, ": %s", reason);
}

static void view_workers(struct top *t, struct top_frame *f)
{
	const char *name = get_text(t->open_job, "name"), *state = get_text(t->open_job, "state");
	char left[320], clock[TIME_TEXT_MAX], since[TIME_TEXT_MAX], text[256], shown[160] = "";

	snprintf(left, sizeof(left), "%s", name ? name : t->open_run);
	if (state)
		snprintf(left, sizeof(left), "%.200s - %s%s %s", name ? name : t->open_run, state,
			job_unready(t->open_job) ? ", not ready," : "",
			time_text_since(t->now_us, job_since_us(t->open_job), since));
	put_head(t, f, left, time_text_clock(t->now_us, true, clock));
	text[0] = '\0';
	if (t->open_job)
		open_text(t, text, sizeof(text));
	if (t->workers.filter[0] || t->workers.sort || t->workers.backwards)
		list_text(&t->workers, shown, sizeof(shown));
	put_notice(t, f, shown[0] ? shown : text);
	put_list(t, f, &t->workers);
	if (!t->open_job)
		put_text(t, f, TOP_GOOD, "Waiting for the job's agent ...");
	else if (t->workers.n == 0)
		put_text(t, f, TOP_GOOD, "It has no workers yet.");
}

/* The number of rows that a line takes. */
static size_t line_rows(const struct top *t, const char *line)
{
	size_t n = 0;
	int width;

	do {
		size_t len = table_fitting(line, t->columns, &width);

		line += len ? len : strlen(line);
		n++;
	} while (*line);
	return n;
}

/* Puts a line without its first rows; those that do not fit below are left out. */
static void put_wrapped(struct top *t, struct top_frame *f, const char *line, size_t skip)
{
	int width;

	do {
		size_t len = table_fitting(line, t->columns, &width);

		len = len ? len : strlen(line);
		if (skip)
			skip--;
		else if (f->n < t->rows - 1)
			put_line(t, f, TOP_PLAIN, strndup(line, len));
		line += len;
	} while (*line);
}

static void view_logs(struct top *t, struct top_frame *f)
{
	const struct top_lines *l = &t->log;
	size_t room = t->rows > 3 ? (size_t)t->rows - 3 : 1, end = l->n - l->back, first = end;
	size_t used = 0;
	char text[64] = "";

	put_text(t, f, TOP_HEAD, "Logs of %s", t->target.name ? t->target.name : "?");
	if (l->back)
		snprintf(text, sizeof(text), "%zu lines further down", l->back);
	put_notice(t, f, text);
	while (first > 0 && used < room)
		used += line_rows(t, l->lines[--first]);
	for (size_t i = first; i < end; i++)
		put_wrapped(t, f, l->lines[i], i == first && used > room ? used - room : 0);
	if (l->n == 0)
		put_text(t, f, TOP_GOOD, "No lines yet.");
}

static void view_help(struct top *t, struct top_frame *f)
{
	int last = N_HELP - (t->rows > 4 ? t->rows - 3 : 1);

	t->help_cut = last > 0;
	if (t->help_first > last)
		t->help_first = last;
	if (t->help_first < 0)
		t->help_first = 0;
	put_text(t, f, TOP_HEAD, "elasticctl top");
	put_line(t, f, TOP_PLAIN, NULL);
	for (int i = t->help_first; i < N_HELP && f->n < t->rows - 1; i++)
		put_text(t, f, TOP_PLAIN, "%.*s", t->columns, help_lines[i]);
}

/* Without UTF-8 the terminal would show other characters. */
static void make_ascii(char *text)
{
	char *to = text;

	while (*text) {
		unsigned c;
		int n = printable_utf8(text, strlen(text), &c);
		char one[8] = "";

		if (n <= 1) {
			*to++ = n ? *text : '?';
			text++;
			continue;
		}
		/* As wide as before: a character has at least as many bytes as columns. */
		memcpy(one, text, (size_t)n);
		text += n;
		for (int width = table_width(one); width > 0; width--)
			*to++ = '?';
	}
	*to = '\0';
}

int top_view(struct top *t, struct top_frame *ret)
{
	struct top_frame f = { .cursor = -1 };

	f.lines = calloc((size_t)t->rows + 1, sizeof(*f.lines));
	if (!f.lines)
		return -ENOMEM;
	if (t->screen == TOP_JOBS)
		view_jobs(t, &f);
	else if (t->screen == TOP_WORKERS)
		view_workers(t, &f);
	else if (t->screen == TOP_LOGS)
		view_logs(t, &f);
	else
		view_help(t, &f);
	/* The last row is for keys, whatever the lists needed. */
	while (f.n > t->rows - 1 && f.n > 0)
		free(f.lines[--f.n].text);
	put_last(t, &f);
	for (int i = 0; i < f.n && !t->utf8; i++)
		if (f.lines[i].text)
			make_ascii(f.lines[i].text);
	*ret = f;
	return 0;
}

void top_frame_fini(struct top_frame *f)
{
	for (int i = 0; i < f->n; i++)
		free(f->lines[i].text);
	free(f->lines);
	*f = (struct top_frame){ 0 };
}
