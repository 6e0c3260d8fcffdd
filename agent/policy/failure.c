/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure.h"

#include "common/base/signals.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* When the agent began to end w, or the leader's end did if that was earlier; -1: never. */
static int64_t failure_stop_us(const struct worker *w)
{
	if (w->grace_us && (!w->stop_us || w->grace_us < w->stop_us))
		return w->grace_us;
	return w->stop_us ? w->stop_us : -1;
}

static void failure_fill(struct failure *f, struct worker *w, int64_t now_us)
{
	struct root_cause when = {
		.start_us = w->started_us,
		.observed_us = w->exit.ended ? w->ended_us : now_us,
		.claimed_us = -1,
		.written_us = -1,
		.stop_us = failure_stop_us(w),
		.by_signal = w->exit.signal && !w->stop_us,
		.out_of_memory = w->exit.out_of_memory,
	};

	*f = (struct failure){ .worker = w, .status = worker_failed_status(w) };
	if (w->error_file && w->exit.ended)
		f->has_file = error_file_read(
				      w->error_file, &f->file, &when.written_us, &f->problem) == 0;
	if (f->has_file) {
		when.claimed_us = f->file.timestamp_us;
		when.claimed_whole = f->file.whole_seconds;
	}
	f->application = f->has_file || w->app_error;
	/* It failed when the agent or the worker itself said so, not when its process ended. */
	if (w->blame_us) {
		when.claimed_us = w->blame_us;
		when.claimed_whole = false;
	}
	f->place = root_cause_place(&when);
	f->collateral = f->place.group == ROOT_CAUSE_COLLATERAL;
	if (f->has_file && f->file.timestamp_us >= 0 && !w->blame_us) {
		bool plausible;

		root_cause_time(&when, &plausible);
		if (!plausible)
			f->problem =
				"its timestamp is not between the worker's start and end and is not used";
	}
}

static int failure_compare(const void *pa, const void *pb)
{
	const struct failure *a = pa, *b = pb;
	int order = root_cause_compare(&a->place, &b->place);

	return order ? order : a->worker->rank - b->worker->rank;
}

static bool failure_is_known(const struct worker *w, int64_t now_us)
{
	if (worker_has_failed(w))
		return true;
	return now_us && worker_alive(w) && worker_complaint(w) && !w->on_purpose;
}

int failures_known(struct failures *ret, struct worker *workers, int n_workers, int64_t now_us)
{
	struct failures f = { 0 };

	f.items = calloc((size_t)n_workers + 1, sizeof(*f.items));
	if (!f.items)
		return -ENOMEM;
	for (int i = 0; i < n_workers; i++)
		if (failure_is_known(&workers[i], now_us))
			failure_fill(&f.items[f.n++], &workers[i], now_us);
	qsort(f.items, f.n, sizeof(*f.items), failure_compare);
	f.has_root = f.n && !f.items[0].collateral;
	*ret = f;
	return 0;
}

int failures_collect_one(struct failures *ret, struct worker *w)
{
	struct failures f = { .n = 1, .has_root = true };

	f.items = calloc(1, sizeof(*f.items));
	if (!f.items)
		return -ENOMEM;
	failure_fill(f.items, w, w->ended_us);
	*ret = f;
	return 0;
}

void failures_fini(struct failures *f)
{
	for (size_t i = 0; i < f->n; i++)
		if (f->items[i].has_file)
			error_file_fini(&f->items[i].file);
	free(f->items);
	*f = (struct failures){ 0 };
}

/* Makes one line of text: a message may have newlines and other control characters. */
static void failure_fold(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == '\x7f')
			*text = ' ';
}

void failure_message(const struct failure *f, char *text, size_t size)
{
	const struct worker_exit *x = &f->worker->exit;
	char name[SIGNALS_TEXT_MAX];

	if (worker_complaint(f->worker))
		snprintf(text, size, "%s", worker_complaint(f->worker));
	else if (f->has_file)
		snprintf(text, size, "%s", f->file.message);
	else if (x->error)
		snprintf(text, size, "%s", x->text);
	else if (x->signal)
		snprintf(text, size, "Signal %d (%s) received by PID %d%s", x->signal,
			signals_name(x->signal, name), (int)f->worker->exit_pid,
			worker_exit_note(x));
	else
		snprintf(text, size, "exited with code %d and left no error file%s", x->code,
			worker_exit_note(x));
	failure_fold(text);
}

void failure_text(const struct failure *f, char *text, size_t size)
{
	const struct worker *w = f->worker;
	char message[256];

	failure_message(f, message, sizeof(message));
	if (!f->application && !worker_complaint(w))
		snprintf(text, size, "%s: %s", worker_name(w), w->exit.text);
	else if (w->exit.ended && !worker_ended_by_agent(w))
		snprintf(text, size, "%s: %.200s (%s)", worker_name(w), message, w->exit.text);
	else
		snprintf(text, size, "%s: %s", worker_name(w), message);
}

json_t *failure_json(const struct failure *f, const char *host, int attempt, json_t *stderr_tail)
{
	const struct worker *w = f->worker;
	json_t *j = json_object();
	char text[512];

	json_put(j, "role", json_string(w->role->name));
	json_put_int(j, "index", w->index);
	json_put_int(j, "rank", w->rank);
	json_put_int(j, "local_rank", w->local_rank);
	json_put_string(j, "host", host);
	if (w->exit_pid > 0 || w->pid > 0)
		json_put_int(j, "pid", w->pid > 0 ? w->pid : w->exit_pid);
	json_put_int(j, "attempt", attempt);
	json_put_int(j, "time_us", f->place.time_us);
	json_put(j, "exit", w->exit.ended ? worker_exit_json(&w->exit) : json_object());
	if (worker_complaint(w)) {
		json_put_string(j, "message", worker_complaint(w));
	} else if (f->has_file) {
		json_put_string(j, "message", f->file.message);
	} else {
		failure_message(f, text, sizeof(text));
		json_put_string(j, "message", text);
	}
	failure_text(f, text, sizeof(text));
	json_put_string(j, "text", text);
	if (!f->collateral)
		json_put_int(j, "exit_status", f->status);
	if (f->application)
		json_put(j, "reported", json_true());
	if (f->has_file)
		json_put_string(j, "traceback", f->file.traceback);
	if (w->error_file && (f->has_file || f->problem))
		json_put_string(j, "error_file", w->error_file);
	if (f->problem)
		json_put(j, "error_file_problem", json_string(f->problem));
	json_put(j, "collateral", json_boolean(f->collateral));
	if (stderr_tail)
		json_put(j, "stderr_tail", stderr_tail);
	return j;
}
