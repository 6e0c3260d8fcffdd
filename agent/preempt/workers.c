/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempt/private.h"
#include "common/base/array.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct preempting_worker *preempting_worker_of(const struct supervisor *sv, int slot)
{
	const struct preempting *p = preempting_of(sv);

	return p && slot >= 0 && slot < p->n_workers ? &p->workers[slot] : NULL;
}

void preempting_workers_free(struct preempting *p)
{
	for (int i = 0; i < p->n_workers; i++)
		free(p->workers[i].path);
	free(p->workers);
}

struct worker *preempting_worker_in(const struct preempting *p, int slot)
{
	for (int i = 0; p->commons && i < commons_count(p->commons); i++)
		if (commons_at(p->commons, i)->slot == slot)
			return commons_at(p->commons, i);
	for (int i = 0; !p->commons && i < supervisor_n_workers(p->sv); i++)
		if (supervisor_worker(p->sv, i)->slot == slot)
			return supervisor_worker(p->sv, i);
	return NULL;
}

/* --- starts and ends --- */

static int make_room(struct preempting *p, int slot)
{
	struct preempting_worker *grown;

	if (slot < p->n_workers)
		return 0;
	grown = array_grow(p->workers, (size_t)p->n_workers, (size_t)slot + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	p->workers = grown;
	p->n_workers = slot + 1;
	return 0;
}

void preempting_add_worker(struct preempting *p, const struct worker *w)
{
	if (w->slot < 0)
		return;
	if (make_room(p, w->slot) < 0 || preempt_started(p->machine, w->slot, worker_name(w)) < 0)
		log_error("out of memory: %s takes no part in a preemption", worker_name(w));
	if (w->slot < p->n_workers)
		p->workers[w->slot].reported = false;
	preempting_run(p);
}

static int signal_of(const struct spec *s)
{
	return s->preemption.signal ? s->preemption.signal : s->stop.signal;
}

/* How w ended. An error that the worker reported or the agent found outweighs the exit code. */
enum preempt_end preempting_end_of(const struct supervisor *sv, const struct worker *w)
{
	const struct worker_exit *x = &w->exit;
	int signo = signal_of(supervisor_spec(sv));

	if (worker_complaint(w) || x->error)
		return PREEMPT_END_OTHER;
	if (x->signal)
		return x->signal == signo ? PREEMPT_END_SIGNAL : PREEMPT_END_OTHER;
	if (x->code == 0)
		return PREEMPT_END_DONE;
	if (x->code == supervisor_preempted_status(sv))
		return PREEMPT_END_LEFT;
	return x->code == 128 + signo ? PREEMPT_END_SIGNAL : PREEMPT_END_OTHER;
}

/* The text for a worker that left because of the notice. */
static void left_text(struct supervisor *sv, const struct worker *w, char *text, size_t size)
{
	int64_t step = preempt_saved_step(preempting_of(sv)->machine, w->slot);

	if (step >= 0)
		snprintf(text, size, "left after saving step %" PRId64, step);
	else
		snprintf(text, size, "left on the notice");
}

void preempting_report_end(struct supervisor *sv, struct worker *w, const char *text)
{
	int64_t step;
	json_t *data;

	if (!text[0] || preempting_of(sv)->several)
		return;
	step = preempt_saved_step(preempting_of(sv)->machine, w->slot);
	data = json_pack("{s:s}", "worker", worker_name(w));
	if (step >= 0)
		json_put_int(data, "step", step);
	supervisor_event(
		sv, "left", w->rank, data, "%s %s (%s)", worker_name(w), text, w->exit.text);
}

/* In a group of several hosts the agent that leads has the machine; what a worker means that ends
 * so can be known here. */
static void hosts_left(const struct preempting *p, const struct worker *w, char *text, size_t size)
{
	enum preempt_end how = preempting_end_of(p->sv, w);

	if (!supervisor_on_notice(p->sv) || w->on_purpose || w->stop_us)
		return;
	if (how == PREEMPT_END_LEFT || (how != PREEMPT_END_OTHER && w->signalled))
		snprintf(text, size, "left on the notice");
}

void preempting_worker_left(struct supervisor *sv, struct worker *w, char *text, size_t size)
{
	struct preempting *p = preempting_of(sv);
	enum preempt_meaning meaning;

	if (!p || w->slot < 0)
		return;
	if (p->several) {
		hosts_left(p, w, text, size);
		return;
	}
	if (supervisor_on_notice(sv))
		preempting_board_last(p, w);
	meaning = preempt_ended(p->machine, w->slot, preempting_end_of(sv, w), loop_now_ms());
	if (supervisor_on_notice(sv) && meaning == PREEMPT_LEFT && !w->on_purpose && !w->stop_us)
		left_text(sv, w, text, size);
	preempting_run(p);
}

/* --- saves --- */

static void report_saved(struct supervisor *sv, const struct worker *w, int64_t step,
	const struct preempting_worker *pw)
{
	json_t *data = json_pack("{s:s, s:I}", "worker", worker_name(w), "step", (json_int_t)step);

	if (pw->path)
		json_put(data, "path", json_text(pw->path));
	supervisor_event(sv, "saved", w->rank, data, "%s has saved at step %" PRId64 "%s%.300s",
		worker_name(w), step, pw->path ? ": " : "", pw->path ? pw->path : "");
}

/* True when the worker has reported this save before. It may report the path later, once. */
static bool is_no_news(const struct preempting_worker *pw, int64_t step, const char *path)
{
	return pw->reported && pw->reported_step == step && (!path || pw->path);
}

int preempting_saved(
	struct supervisor *sv, struct worker *w, int64_t step, const char *path, struct error *err)
{
	struct preempting_worker *pw = preempting_worker_of(sv, w->slot);
	char *copy = NULL;
	int r;

	if (!pw || !preempting_is_up(sv))
		return error_set(err, -ENOENT, "no notice of preemption is up");
	if (path && !(copy = strdup(path)))
		return error_set(err, -ENOMEM, "out of memory");
	r = preempt_saved(preempting_of(sv)->machine, w->slot, step, loop_now_ms());
	if (r < 0) {
		free(copy);
		return error_set(err, -ERANGE, "%s was not told to save at step %" PRId64,
			worker_name(w), step);
	}
	if (r > 0 && is_no_news(pw, step, path)) {
		free(copy);
		return 0;
	}
	free(pw->path);
	pw->path = copy;
	pw->path_step = pw->reported_step = step;
	pw->reported = true;
	report_saved(sv, w, step, pw);
	preempting_run(preempting_of(sv));
	return 0;
}

/* --- signals --- */

void preempting_signal_worker(struct preempting *p, const struct preempt_do *d)
{
	struct worker *w = preempting_worker_in(p, d->worker);

	if (w && p->commons && p->commons->owner.order)
		p->commons->owner.order(p->commons->owner.arg, w, COMMONS_SIGNAL, "");
	else if (w)
		preempting_send_signal(p->sv, w);
}

void preempting_send_signal(struct supervisor *sv, struct worker *w)
{
	int signo = signal_of(supervisor_spec(sv)), r;
	char name[SIGNALS_TEXT_MAX];

	/* A worker that is being stopped has its signal already; a second one could end it at once.
	 */
	if (!worker_alive(w) || w->stop_us)
		return;
	r = signal_worker(sv, w, signo, supervisor_spec(sv)->preemption.whom);
	signals_name(signo, name);
	if (r < 0)
		supervisor_event(sv, "notice-signal", w->rank, NULL, "%s cannot get %s: %s",
			worker_name(w), name, strerror(-r));
	else
		supervisor_event(sv, "notice-signal", w->rank, NULL, "%s gets %s on the notice",
			worker_name(w), name);
}
