/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preempt/private.h"

#include "agent/sharing/service.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct preempting_task *preempting_task_of(const struct agent *a, int slot)
{
	const struct preempting *p = a->preempting;

	return p && slot >= 0 && slot < p->n_tasks ? &p->tasks[slot] : NULL;
}

void preempting_tasks_free(struct preempting *p)
{
	for (int i = 0; i < p->n_tasks; i++)
		free(p->tasks[i].path);
	free(p->tasks);
}

struct task *preempting_task_in(struct agent *a, int slot)
{
	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].slot == slot)
			return &a->tasks[i];
	return NULL;
}

/* --- starts and ends --- */

static int make_room(struct preempting *p, int slot)
{
	struct preempting_task *grown;

	if (slot < p->n_tasks)
		return 0;
	grown = reallocarray(p->tasks, (size_t)slot + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + p->n_tasks, 0, ((size_t)slot + 1 - (size_t)p->n_tasks) * sizeof(*grown));
	p->tasks = grown;
	p->n_tasks = slot + 1;
	return 0;
}

void preempting_task_started(struct agent *a, struct task *t)
{
	struct preempting *p = a->preempting;

	if (!p || t->slot < 0)
		return;
	if (make_room(p, t->slot) < 0 ||
		preempt_started(p->machine, t->slot, agent_task_name(t)) < 0)
		log_error("out of memory: %s has no part in a preemption", agent_task_name(t));
	if (t->slot < p->n_tasks)
		p->tasks[t->slot].told = false;
	preempting_run(p);
}

static int signal_of(const struct spec *s)
{
	return s->preemption.signal ? s->preemption.signal : s->stop.signal;
}

/* How t ended. An error that the worker reported or the agent found outweighs the exit code. */
static enum preempt_end end_of(const struct agent *a, const struct task *t)
{
	const struct task_exit *x = &t->exit;
	int signo = signal_of(a->spec);

	if (task_complaint(t) || x->error)
		return PREEMPT_END_OTHER;
	if (x->signal)
		return x->signal == signo ? PREEMPT_END_SIGNAL : PREEMPT_END_OTHER;
	if (x->code == 0)
		return PREEMPT_END_DONE;
	if (x->code == agent_preempted_status(a))
		return PREEMPT_END_LEFT;
	return x->code == 128 + signo ? PREEMPT_END_SIGNAL : PREEMPT_END_OTHER;
}

/* A text for a worker that left as it was asked to. */
static void left_text(struct agent *a, const struct task *t, char *text, size_t size)
{
	int64_t step = preempt_saved_step(a->preempting->machine, t->slot);

	if (step >= 0)
		snprintf(text, size, "left after saving step %" PRId64, step);
	else
		snprintf(text, size, "left on the notice");
}

void preempting_end_told(struct agent *a, struct task *t, const char *text)
{
	int64_t step;
	json_t *data;

	if (!text[0])
		return;
	step = preempt_saved_step(a->preempting->machine, t->slot);
	data = json_pack("{s:s}", "task", agent_task_name(t));
	if (step >= 0)
		json_put_int(data, "step", step);
	events_add(a->events, "left", a->attempt, t->rank, data, "%s %s (%s)", agent_task_name(t),
		text, t->exit.text);
}

void preempting_task_left(struct agent *a, struct task *t, char *text, size_t size)
{
	struct preempting *p = a->preempting;
	enum preempt_meaning meaning;

	if (!p || t->slot < 0)
		return;
	if (a->on_notice)
		preempting_board_last(p, t);
	meaning = preempt_ended(p->machine, t->slot, end_of(a, t), loop_now_ms());
	if (a->on_notice && meaning == PREEMPT_LEFT && !t->on_purpose && !t->stop_us)
		left_text(a, t, text, size);
	preempting_run(p);
}

/* --- what workers ask and say --- */

void preempting_ask(
	struct agent *a, struct task *t, int64_t step, preempting_answer_fn answer, void *arg)
{
	struct preempting_task *pt = preempting_task_of(a, t->slot);

	if (!pt || !a->on_notice) {
		answer(arg, PREEMPT_CONTINUE, -1);
		return;
	}
	pt->answer = answer;
	pt->arg = arg;
	preempt_ask(a->preempting->machine, t->slot, step, loop_now_ms());
	preempting_run(a->preempting);
}

void preempting_forget(struct agent *a, struct task *t)
{
	struct preempting_task *pt = preempting_task_of(a, t->slot);

	if (!pt || !pt->answer)
		return;
	pt->answer = NULL;
	preempt_forget(a->preempting->machine, t->slot);
	preempting_run(a->preempting);
}

void preempting_answer(struct preempting *p, const struct preempt_do *d)
{
	struct preempting_task *pt = preempting_task_of(p->a, d->task);
	preempting_answer_fn answer = pt ? pt->answer : NULL;

	if (!answer)
		return;
	pt->answer = NULL;
	answer(pt->arg, d->order, d->step);
}

static void tell_saved(
	struct agent *a, const struct task *t, int64_t step, const struct preempting_task *pt)
{
	json_t *data =
		json_pack("{s:s, s:I}", "task", agent_task_name(t), "step", (json_int_t)step);

	if (pt->path)
		json_put(data, "path", json_text(pt->path));
	events_add(a->events, "saved", a->attempt, t->rank, data,
		"%s has saved at step %" PRId64 "%s%.300s", agent_task_name(t), step,
		pt->path ? ": " : "", pt->path ? pt->path : "");
}

/* True when the worker has reported this save before; the path may follow later, once. */
static bool is_no_news(const struct preempting_task *pt, int64_t step, const char *path)
{
	return pt->told && pt->told_step == step && (!path || pt->path);
}

int preempting_saved(
	struct agent *a, struct task *t, int64_t step, const char *path, struct error *err)
{
	struct preempting_task *pt = preempting_task_of(a, t->slot);
	char *copy = NULL;
	int r;

	if (!pt || !a->on_notice)
		return error_set(err, -ENOENT, "no notice of preemption is up");
	if (path && !(copy = strdup(path)))
		return error_set(err, -ENOMEM, "out of memory");
	r = preempt_saved(a->preempting->machine, t->slot, step, loop_now_ms());
	if (r < 0) {
		free(copy);
		return error_set(err, -ERANGE, "%s was not told to save at step %" PRId64,
			agent_task_name(t), step);
	}
	if (r > 0 && is_no_news(pt, step, path)) {
		free(copy);
		return 0;
	}
	free(pt->path);
	pt->path = copy;
	pt->path_step = pt->told_step = step;
	pt->told = true;
	tell_saved(a, t, step, pt);
	preempting_run(a->preempting);
	return 0;
}

/* --- signals --- */

void preempting_signal_task(struct preempting *p, const struct preempt_do *d)
{
	struct agent *a = p->a;
	struct task *t = preempting_task_in(a, d->task);
	int signo = signal_of(a->spec), r;
	char name[SIGNALS_TEXT_MAX];

	/* A worker that is being stopped has its signal already; a second one could end it at once.
	 */
	if (!t || !task_alive(t) || t->stop_us)
		return;
	r = agent_signal_task(a, t, signo, a->spec->preemption.whom);
	signals_name(signo, name);
	if (r < 0)
		events_add(a->events, "notice-signal", a->attempt, t->rank, NULL,
			"%s cannot get %s: %s", agent_task_name(t), name, strerror(-r));
	else
		events_add(a->events, "notice-signal", a->attempt, t->rank, NULL,
			"%s gets %s on the notice", agent_task_name(t), name);
}
