/* SPDX-License-Identifier: Apache-2.0 */
/* task list, stats and resources: tables for people, JSON for programs. */
#include "client/output/time_text.h"
#include "client/queue/client.h"
#include "client/queue/payload.h"
#include "client/verbs/verbs.h"
#include "common/text/json.h"

#include <inttypes.h>
#include <string.h>

enum { PAGE = 1000 };

static const struct table_column task_columns[] = { { "TASK", TABLE_RIGHT },
	{ "QUEUE", TABLE_SHRINK | TABLE_DROP(1) }, { "STATE", 0 }, { "WORKER", TABLE_SHRINK },
	{ "TRIES", TABLE_RIGHT | TABLE_DROP(3) }, { "BYTES", TABLE_RIGHT | TABLE_DROP(4) },
	{ "SINCE", TABLE_RIGHT | TABLE_DROP(2) }, { "ERROR", 0 }, { NULL, 0 } };

static const char *const task_states[] = { "queued", "running", "succeeded", "failed",
	"cancelled" };
enum { N_STATES = sizeof(task_states) / sizeof(task_states[0]) };

static enum color task_color(const char *state)
{
	if (!strcmp(state, "succeeded"))
		return COLOR_GREEN;
	if (!strcmp(state, "failed"))
		return COLOR_RED;
	return !strcmp(state, "running") ? COLOR_CYAN : COLOR_NONE;
}

static void task_row(struct table *t, const json_t *task)
{
	const json_t *error = json_object_get(task, "error");
	_cleanup_free_ char *text = json_is_object(error) ? payload_error(error) : NULL;
	const char *state = get_text(task, "state"), *queue = get_text(task, "queue");
	char buf[TIME_TEXT_MAX];

	table_cellf(t, COLOR_BOLD, "%" PRId64, get_int(task, "task"));
	table_cell(t, COLOR_NONE, queue && *queue ? queue : "-");
	table_cell(t, task_color(state ? state : "?"), state);
	table_cell(t, COLOR_NONE, has_value(task, "worker") ? get_text(task, "worker") : "-");
	table_cellf(t, COLOR_NONE, "%" PRId64, get_int(task, "tries"));
	table_cellf(t, COLOR_NONE, "%" PRId64, get_int(task, "bytes"));
	table_cell(t, COLOR_NONE,
		has_value(task, "since_us")
			? time_text_since(ctl_now_us(), get_int(task, "since_us"), buf)
			: "-");
	table_cell(t, COLOR_NONE, text);
}

/* Prints one page as a table of its own, so that many tasks need little memory. */
static int print_page(struct ctl *ctl, const json_t *tasks, bool first)
{
	struct table_style style = ctl_table_style(ctl);
	_cleanup_(table_freep) struct table *t = table_new(task_columns);
	json_t *task;
	size_t i;

	if (!t)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	style.legend = style.legend && first;
	json_array_foreach (tasks, i, task) {
		if (ctl->json)
			ctl_print_json(task, true);
		else
			task_row(t, task);
	}
	if (!ctl->json)
		table_print(t, stdout, &style);
	return 0;
}

static bool are_states(const char *text)
{
	while (true) {
		size_t n = strcspn(text, ","), i = 0;

		while (i < N_STATES &&
			(strlen(task_states[i]) != n || strncmp(task_states[i], text, n) != 0))
			i++;
		if (i == N_STATES)
			return false;
		if (!text[n])
			return true;
		text += n + 1;
	}
}

int cmd_task_list(struct ctl *ctl, struct args *args)
{
	const char *states = args_get(args, "state");
	struct queue_client q;
	int64_t after = -1;
	bool more = true, none = true;
	int r;

	if (states && !are_states(states))
		return ctl_usage(ctl,
			"--state: expected queued, running, succeeded, failed or cancelled, with "
			"commas between, got \"%s\"",
			states);
	r = queue_begin(ctl, args, true, NULL, &q);
	while (r == 0 && more && !ferror(stdout)) {
		_cleanup_json_ json_t *answer = NULL;
		json_t *p = ctl_with(queue_named(&q), "limit", json_integer(PAGE)), *tasks;
		size_t n;

		if (states)
			p = ctl_with(p, "states", queue_words(states));
		if (after >= 0)
			p = ctl_with(p, "after", json_integer(after));
		r = queue_call(&q, QUEUE_METHOD("List"), p, &answer);
		if (r != 0)
			return r;
		tasks = json_object_get(answer, "tasks");
		n = json_array_size(tasks);
		if (n > 0) {
			r = print_page(ctl, tasks, none);
			after = get_int(json_array_get(tasks, n - 1), "task");
			none = false;
		}
		more = json_get_bool(answer, "more", false) && n > 0;
	}
	if (r == 0 && none)
		ctl_say(ctl, "There are no tasks.");
	return r;
}

int cmd_task_stats(struct ctl *ctl, struct args *args)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *error = NULL;
	struct queue_client q;
	const json_t *s;
	int r = queue_begin(ctl, args, true, NULL, &q);

	if (r == 0)
		r = queue_call(&q, QUEUE_METHOD("Stats"), queue_named(&q), &answer);
	if (r != 0)
		return r;
	s = json_object_get(answer, "stats");
	if (ctl->json) {
		ctl_print_json(s, false);
		return 0;
	}
	for (size_t i = 0; i < N_STATES; i++)
		printf("%11s: %s%" PRId64 "%s\n", task_states[i],
			ctl_color(ctl, task_color(task_states[i])), get_int(s, task_states[i]),
			ctl->color_out ? COLOR_OFF : "");
	printf("%11s: %" PRId64 " times\n", "put back", get_int(s, "put_back"));
	printf("%11s: %" PRId64 " bytes\n", "memory", get_int(s, "bytes"));
	printf("%11s: %" PRId64 ", %" PRId64 " slots free\n", "workers", get_int(s, "workers"),
		get_int(s, "free"));
	if (get_int(s, "waiting"))
		printf("%11s: %" PRId64 " for room\n", "waiting", get_int(s, "waiting"));
	if (has_value(s, "error")) {
		error = payload_error(json_object_get(s, "error"));
		printf("%11s: %s%s%s\n", "error", ctl_color(ctl, COLOR_RED), error ? error : "?",
			ctl->color_out ? COLOR_OFF : "");
	}
	if (json_get_bool(s, "closed", false))
		printf("%11s: yes\n", "closed");
	return 0;
}

int cmd_task_resources(struct ctl *ctl, struct args *args)
{
	static const struct table_column columns[] = { { "RESOURCE", TABLE_SHRINK },
		{ "READY", TABLE_RIGHT }, { "BUILDING", TABLE_RIGHT }, { "FAILED", TABLE_RIGHT },
		{ "ERROR", 0 }, { NULL, 0 } };
	struct table_style style = ctl_table_style(ctl);
	_cleanup_(table_freep) struct table *t = table_new(columns);
	_cleanup_json_ json_t *answer = NULL;
	struct queue_client q;
	const json_t *list;
	json_t *one;
	size_t i;
	int r = queue_begin(ctl, args, false, NULL, &q);

	if (r == 0)
		r = queue_call(&q, QUEUE_METHOD("Resources"), queue_parameters(&q), &answer);
	if (r != 0)
		return r;
	list = json_object_get(answer, "resources");
	if (ctl->json) {
		ctl_print_json(list, false);
		return 0;
	}
	if (!t)
		return ctl_error(ctl, CTL_FAILED, "out of memory");
	json_array_foreach (list, i, one) {
		const json_t *errors = json_object_get(one, "errors");
		_cleanup_free_ char *text =
			json_array_size(errors) ? payload_error(json_array_get(errors, 0)) : NULL;

		table_cell(t, COLOR_BOLD, get_text(one, "name"));
		table_cellf(t, COLOR_NONE, "%" PRId64, get_int(one, "ready"));
		table_cellf(t, COLOR_NONE, "%" PRId64, get_int(one, "building"));
		table_cellf(t, get_int(one, "failed") ? COLOR_RED : COLOR_NONE, "%" PRId64,
			get_int(one, "failed"));
		table_cell(t, COLOR_NONE, text);
	}
	if (table_rows(t))
		table_print(t, stdout, &style);
	else
		ctl_say(ctl, "There are no resources.");
	return 0;
}
