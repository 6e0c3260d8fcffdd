/* SPDX-License-Identifier: Apache-2.0 */
#include "client/top/top.h"

#include "client/base/ctl.h"
#include "client/base/job.h"
#include "client/top/columns.h"
#include "common/base/signals.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NOTICE_MS = 5000, FIXED_ROWS = 4 };

void top_init(struct top *t)
{
	*t = (struct top){ .rows = 24, .columns = 80 };
	top_list_init(&t->jobs, top_job_columns);
	top_list_init(&t->workers, top_worker_columns);
}

static void lines_clear(struct top_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->lines[i]);
	free(l->lines);
	*l = (struct top_lines){ 0 };
}

static void target_clear(struct top_target *target)
{
	free(target->run);
	free(target->name);
	*target = (struct top_target){ .rank = -1 };
}

void top_fini(struct top *t)
{
	top_list_clear(&t->jobs);
	top_list_clear(&t->workers);
	lines_clear(&t->log);
	target_clear(&t->target);
	free(t->open_run);
	json_decref(t->open_job);
	json_decref(t->gpus);
}

void top_time(struct top *t, int64_t now_ms, int64_t now_us)
{
	t->now_ms = now_ms;
	t->now_us = now_us;
	if (now_ms >= t->notice_until_ms)
		t->notice[0] = '\0';
}

void top_notify(struct top *t, bool bad, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(t->notice, sizeof(t->notice), fmt, ap);
	va_end(ap);
	t->notice_bad = bad;
	t->notice_until_ms = t->now_ms + NOTICE_MS;
}

void top_open(struct top *t, const char *run, bool alone)
{
	char *copy = strdup(run);

	free(t->open_run);
	json_decref(t->open_job);
	t->open_run = copy;
	t->open_job = NULL;
	t->open_alone = alone;
	t->workers.filter[0] = '\0';
	top_list_clear(&t->workers);
	t->screen = TOP_WORKERS;
}

void top_take_open(struct top *t, const json_t *job)
{
	json_decref(t->open_job);
	t->open_job = json_incref((json_t *)job);
	top_list_take(&t->workers, json_object_get(job, "workers"), t->now_ms, t->now_us);
	top_list_take_live(&t->jobs, job, t->now_ms, t->now_us);
}

void top_find_gpus(struct top *t)
{
	top_list_take_gpus(&t->jobs, t->gpus);
	top_list_take_gpus(&t->workers, t->gpus);
}

void top_take_gpus(struct top *t, const json_t *answer)
{
	json_decref(t->gpus);
	t->gpus = json_incref((json_t *)answer);
	top_find_gpus(t);
}

void top_add_line(struct top *t, const char *text)
{
	struct top_lines *l = &t->log;

	if (!l->lines)
		l->lines = calloc(TOP_LINES_MAX, sizeof(char *));
	if (!l->lines)
		return;
	if (l->n == TOP_LINES_MAX) {
		free(l->lines[0]);
		memmove(l->lines, l->lines + 1, (TOP_LINES_MAX - 1) * sizeof(char *));
		l->n--;
	}
	l->lines[l->n] = strdup(text);
	if (!l->lines[l->n])
		return;
	l->n++;
	/* The lines that the user looks at stay where they are. */
	if (l->back && l->back + 1 < l->n)
		l->back++;
}

size_t top_list_rows(const struct top *t)
{
	return t->rows > FIXED_ROWS ? (size_t)(t->rows - FIXED_ROWS) : 1;
}

static struct top_list *list_of(struct top *t)
{
	return t->screen == TOP_WORKERS ? &t->workers : &t->jobs;
}

/* Makes the selected item the target: a job, or a worker of the open one. False without one. */
static bool set_target(struct top *t)
{
	const struct top_item *item = top_list_selected(list_of(t));
	const char *job;

	target_clear(&t->target);
	if (!item)
		return false;
	if (t->screen == TOP_JOBS) {
		job = get_text(item->object, "name");
		t->target.run = strdup(item->id);
		t->target.name = strdup(job ? job : item->id);
	} else {
		job = get_text(t->open_job, "name");
		t->target.run = strdup(t->open_run);
		t->target.rank = (int)get_int(item->object, "rank");
		if (!has_value(item->object, "ended_us"))
			t->target.pid = (int)get_int(item->object, "pid");
		if (asprintf(&t->target.name, "%s/%s", job ? job : t->open_run, item->id) < 0)
			t->target.name = NULL;
	}
	return t->target.run && t->target.name;
}

/* --- prompts --- */

static const char *const signal_names[] = { "TERM", "INT", "HUP", "QUIT", "KILL", "USR1", "USR2",
	"STOP", "CONT", "ABRT" };

enum { N_SIGNALS = sizeof(signal_names) / sizeof(signal_names[0]) };

static void open_prompt(struct top *t, enum top_prompt prompt, const char *input)
{
	t->prompt = prompt;
	snprintf(t->input, sizeof(t->input), "%s", input);
}

/* Shows the next of the usual signals. */
static void next_signal(struct top *t, int step)
{
	int i = 0;

	while (i < N_SIGNALS && strcmp(signal_names[i], t->input) != 0)
		i++;
	if (i == N_SIGNALS)
		i = step > 0 ? N_SIGNALS - 1 : 0;
	i = (i + step + N_SIGNALS) % N_SIGNALS;
	snprintf(t->input, sizeof(t->input), "%s", signal_names[i]);
}

static void take_signal(struct top *t)
{
	static char name[SIGNALS_TEXT_MAX];
	int signo = signals_from_string(t->input);

	if (signo <= 0) {
		top_notify(t, true, "There is no signal \"%s\".", t->input);
		t->prompt = TOP_NO_PROMPT;
		return;
	}
	t->signal = signals_name(signo, name);
	t->prompt = TOP_CONFIRM;
}

static void set_filter(struct top *t, const char *text)
{
	snprintf(list_of(t)->filter, TOP_TEXT_MAX, "%s", text);
	top_list_arrange(list_of(t));
}

static void edit_input(struct top *t, int key)
{
	size_t n = strlen(t->input);

	if (key == TOP_KEY_BACKSPACE && n > 0) {
		/* A character has several bytes. */
		do
			n--;
		while (n > 0 && ((unsigned char)t->input[n] & 0xc0) == 0x80);
		t->input[n] = '\0';
	} else if (key >= ' ' && key < 256 && key != 127 && n + 1 < sizeof(t->input)) {
		t->input[n] = (char)(t->prompt == TOP_SIGNAL ? toupper(key) : key);
		t->input[n + 1] = '\0';
	}
}

static enum top_do prompt_key(struct top *t, int key)
{
	if (t->prompt == TOP_CONFIRM) {
		t->prompt = TOP_NO_PROMPT;
		if (key == 'y' || key == 'Y')
			return TOP_DO_KILL;
		top_notify(t, false, "Nothing was sent.");
		return TOP_DO_NOTHING;
	}
	if (key == TOP_KEY_ESCAPE) {
		if (t->prompt == TOP_FILTER)
			set_filter(t, "");
		t->prompt = TOP_NO_PROMPT;
	} else if (key == TOP_KEY_ENTER && t->prompt == TOP_SIGNAL) {
		take_signal(t);
	} else if (key == TOP_KEY_ENTER) {
		t->prompt = TOP_NO_PROMPT;
	} else if (t->prompt == TOP_SIGNAL && (key == TOP_KEY_UP || key == TOP_KEY_DOWN)) {
		next_signal(t, key == TOP_KEY_UP ? -1 : 1);
	} else {
		edit_input(t, key);
		if (t->prompt == TOP_FILTER)
			set_filter(t, t->input);
	}
	return TOP_DO_NOTHING;
}

/* --- screens --- */

static void scroll_lines(struct top_lines *l, long up)
{
	long back = (long)l->back + up, most = l->n ? (long)l->n - 1 : 0;

	back = back > most ? most : back;
	l->back = back < 0 ? 0 : (size_t)back;
}

static enum top_do logs_key(struct top *t, int key)
{
	long page = t->rows > 4 ? t->rows - 3 : 1;

	switch (key) {
	case TOP_KEY_ESCAPE:
	case TOP_KEY_LEFT:
	case 'q':
		t->screen = t->below;
		return TOP_DO_UNLOGS;
	case TOP_KEY_UP:
		scroll_lines(&t->log, 1);
		break;
	case TOP_KEY_DOWN:
		scroll_lines(&t->log, -1);
		break;
	case TOP_KEY_PAGE_UP:
		scroll_lines(&t->log, page);
		break;
	case TOP_KEY_PAGE_DOWN:
	case ' ':
		scroll_lines(&t->log, -page);
		break;
	case TOP_KEY_HOME:
		scroll_lines(&t->log, (long)t->log.n);
		break;
	case TOP_KEY_END:
		t->log.back = 0;
		break;
	default:
		break;
	}
	return TOP_DO_NOTHING;
}

/* Escape takes back one thing at a time: the filter, then the open job. */
static void go_back(struct top *t)
{
	if (list_of(t)->filter[0])
		set_filter(t, "");
	else if (t->screen == TOP_WORKERS && !t->open_alone)
		t->screen = TOP_JOBS;
}

static enum top_do enter_item(struct top *t)
{
	const struct top_item *item = top_list_selected(list_of(t));

	if (!item)
		return TOP_DO_NOTHING;
	if (t->screen == TOP_JOBS) {
		top_open(t, item->id, false);
		return TOP_DO_OPEN;
	}
	return top_key(t, 'l');
}

static void show_logs(struct top *t)
{
	lines_clear(&t->log);
	t->below = t->screen;
	t->screen = TOP_LOGS;
}

/* Moves through the list. False: the key is another one. */
static bool move_key(struct top *t, int key)
{
	long page = (long)top_list_rows(t);
	static const struct {
		int key;
		long step;
		bool pages;
	} moves[] = { { TOP_KEY_UP, -1, false }, { TOP_KEY_DOWN, 1, false },
		{ TOP_KEY_PAGE_UP, -1, true }, { TOP_KEY_PAGE_DOWN, 1, true }, { ' ', 1, true },
		{ TOP_KEY_HOME, INT32_MIN, false }, { TOP_KEY_END, INT32_MAX, false } };

	for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++)
		if (moves[i].key == key) {
			top_list_move(list_of(t), moves[i].step * (moves[i].pages ? page : 1));
			return true;
		}
	return false;
}

/* Changes the order. False: the key is another one. */
static bool sort_key(struct top *t, int key)
{
	struct top_list *l = list_of(t);

	if (key == '>' || key == TOP_KEY_SORT || key == '<')
		top_list_sort_next(l, key == '<' ? -1 : 1);
	else if (key == 'P' || key == 'M' || key == 'G')
		top_list_sort_column(l, key == 'P' ? "CPU%" : key == 'M' ? "MEM" : "GPUMEM");
	else if (key == 'R' || key == 'I')
		l->backwards = !l->backwards, top_list_arrange(l);
	else
		return false;
	return true;
}

static enum top_do list_key(struct top *t, int key)
{
	if (move_key(t, key) || sort_key(t, key))
		return TOP_DO_NOTHING;
	switch (key) {
	case 'q':
		return TOP_DO_QUIT;
	case TOP_KEY_ENTER:
	case TOP_KEY_RIGHT:
		return enter_item(t);
	case TOP_KEY_ESCAPE:
	case TOP_KEY_LEFT:
	case TOP_KEY_BACKSPACE:
		go_back(t);
		break;
	case '/':
		open_prompt(t, TOP_FILTER, list_of(t)->filter);
		break;
	case 'k':
		if (set_target(t))
			open_prompt(t, TOP_SIGNAL, signal_names[0]);
		break;
	case 'l':
		if (!set_target(t))
			break;
		show_logs(t);
		return TOP_DO_LOGS;
	default:
		break;
	}
	return TOP_DO_NOTHING;
}

/* Scrolls what does not fit; other keys lead back. */
static enum top_do help_key(struct top *t, int key)
{
	int page = t->rows > 4 ? t->rows - 3 : 1;
	int step = key == TOP_KEY_UP	      ? -1
		   : key == TOP_KEY_DOWN      ? 1
		   : key == TOP_KEY_PAGE_UP   ? -page
		   : key == TOP_KEY_PAGE_DOWN ? page
					      : 0;

	if (step && t->help_cut)
		t->help_first += step;
	else
		t->screen = t->below;
	return TOP_DO_NOTHING;
}

enum top_do top_key(struct top *t, int key)
{
	t->notice[0] = '\0';
	if (key == TOP_KEY_REDRAW)
		return TOP_DO_REDRAW;
	if (t->prompt != TOP_NO_PROMPT)
		return prompt_key(t, key);
	if (t->screen == TOP_HELP)
		return help_key(t, key);
	if (t->screen == TOP_LOGS)
		return logs_key(t, key);
	if (key == 'h' || key == '?' || key == TOP_KEY_HELP) {
		t->below = t->screen;
		t->screen = TOP_HELP;
		t->help_first = 0;
		return TOP_DO_NOTHING;
	}
	return list_key(t, key);
}

/* --- what to ask for --- */

static bool sorted_by_live(const struct top_list *l)
{
	return l->columns[l->sort].flags & TOP_LIVE;
}

struct top_item *top_next_asked(struct top *t, int64_t then_ms)
{
	struct top_list *l = &t->jobs;
	size_t end = l->first + top_list_rows(t), i = l->first;
	struct top_item *oldest = NULL;

	if (sorted_by_live(l) || end > l->n_shown)
		end = l->n_shown;
	if (sorted_by_live(l))
		i = 0;
	for (; i < end; i++)
		if (!oldest || l->shown[i]->asked_ms < oldest->asked_ms)
			oldest = l->shown[i];
	return oldest && (!oldest->asked_ms || oldest->asked_ms <= then_ms) ? oldest : NULL;
}
