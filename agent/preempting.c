/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices come in by preempting_notice(), and preempt.c says what follows; here is where it is
 * done. The end as preempted is posted in a turn of its own, after all ends of this one were seen:
 * when the last task has left, how the others ended decides whether there was a preemption at all.
 */
#include "agent/preempting_private.h"

#include "agent/workers.h"
#include "common/duration.h"
#include "common/json.h"
#include "common/log.h"
#include "common/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void preempting_stop(void *arg);

/* --- life ---------------------------------------------------------------------------------------
 */

static void preempting_expired(void *arg)
{
	struct preempting *p = arg;

	preempting_board_read(p, false);
	preempting_run(p);
}

int preempting_new(struct agent *a, struct error *err)
{
	struct preempting *p = calloc(1, sizeof(*p));

	if (!p)
		return error_set(err, -ENOMEM, "out of memory");
	a->preempting = p;
	p->a = a;
	p->deadline_ms = p->deadline_us = SPEC_UNSET;
	p->machine = preempt_new(&a->spec->preemption, (uint64_t)a->spec->stop.timeout_ms);
	if (!p->machine || loop_timer_new(a->loop, preempting_expired, p, &p->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

void preempting_free(struct agent *a)
{
	struct preempting *p = a->preempting;

	if (!p)
		return;
	a->preempting = NULL;
	loop_cancel(a->loop, preempting_stop, p);
	loop_timer_free(p->timer);
	preempt_free(p->machine);
	preempting_tasks_free(p);
	json_decref(p->past);
	free(p);
}

bool preempting_is_up(const struct agent *a)
{
	return a->preempting && a->preempting->up;
}

int preempting_exit_code(const struct agent *a)
{
	int code = a->spec->preemption.exit_code;

	return code == SPEC_UNSET ? PREEMPTING_EXIT_CODE : code;
}

/* --- the machine --------------------------------------------------------------------------------
 */

static bool preempting_active(const struct agent *a)
{
	return a->group.state == GROUP_STARTING || a->group.state == GROUP_RUNNING;
}

/* What is left is to be stopped. */
static void preempting_stop(void *arg)
{
	struct preempting *p = arg;
	struct agent *a = p->a;

	/* All ends may have been seen: then they say what the job's end is, or have said so
	 * already. */
	agent_settle(a);
	agent_judge(a);
	agent_settle(a);
	if (!p->up || !preempting_active(a))
		return;
	/* Where the leader's work was done, so was the job's. */
	if (a->leader_over)
		outcome_leader_over(a);
	else
		preempting_all_left(a);
}

void preempting_all_left(struct agent *a)
{
	char text[sizeof(a->reason)];

	preempting_reason(a->preempting, text, sizeof(text));
	if (strcmp(a->reason, text))
		log_notice("%s", text);
	agent_set_reason(a, "%s", text);
	agent_post(a, GROUP_EV_PREEMPT);
}

static void preempting_tell(struct preempting *p, const struct preempt_do *d)
{
	struct agent *a = p->a;
	struct task *t = d->task < 0 ? NULL : preempting_task_in(a, d->task);
	bool notice = !strcmp(d->event, "notice");
	char grace[DURATION_TEXT_MAX + 32] = "";

	if (notice && p->deadline_ms != SPEC_UNSET)
		preempting_rest(p, grace, sizeof(grace));
	log_notice("%s%s", d->text, grace);
	events_add(a->events, d->event, a->attempt, t ? t->rank : -1, preempting_json(a), "%s%s",
		d->text, grace);
	if (notice)
		workers_notice(a, d->text);
}

static void preempting_do(struct preempting *p, const struct preempt_do *d)
{
	switch (d->what) {
	case PREEMPT_NOTHING:
		break;
	case PREEMPT_ANNOUNCE:
		preempting_board_up(p, INT64_MIN);
		break;
	case PREEMPT_READ:
		preempting_board_read(p, true);
		break;
	case PREEMPT_PUBLISH:
		preempting_board_up(p, d->step);
		break;
	case PREEMPT_ANSWER:
		preempting_answer(p, d);
		break;
	case PREEMPT_SIGNAL:
		preempting_signal_task(p, d);
		break;
	case PREEMPT_TELL:
		preempting_tell(p, d);
		break;
	case PREEMPT_STOP:
		snprintf(p->why, sizeof(p->why), "%s", d->text);
		if (loop_defer(p->a->loop, preempting_stop, p) < 0)
			preempting_stop(p);
		break;
	case PREEMPT_CLEAR:
		preempting_board_down(p);
		break;
	}
}

void preempting_run(struct preempting *p)
{
	struct preempt_do d;
	uint64_t due, now;

	if (p->running) /* what is being done will come to it */
		return;
	p->running = true;
	while (preempt_next(p->machine, &d) != PREEMPT_NOTHING)
		preempting_do(p, &d);
	p->running = false;
	due = preempt_due_ms(p->machine);
	now = loop_now_ms();
	if (due == UINT64_MAX)
		loop_timer_disarm(p->timer);
	else
		loop_timer_arm(p->timer, due > now ? due - now : 0);
	if (p->up)
		agent_changed(p->a);
}

void preempting_cancel(struct agent *a)
{
	struct preempting *p = a->preempting;

	if (!p || !p->up)
		return;
	p->up = false;
	loop_cancel(a->loop, preempting_stop, p);
	preempt_cancel(p->machine);
	preempting_run(p);
}

/* --- notices ------------------------------------------------------------------------------------
 */

/* When the machine is gone by n, as far as anybody knows, and whether there is work to be done
 * until then. What the specification says holds, but not beyond what a platform has named. */
static void preempting_time(const struct agent *a, const struct preempting_notice *n,
	struct preempt_notice *m, bool *ret_grace)
{
	int64_t left = a->spec->preemption.grace_ms, named = SPEC_UNSET;

	if (n->deadline_us != SPEC_UNSET) {
		named = (n->deadline_us - (int64_t)loop_real_us()) / 1000;
		if (named < 0)
			named = 0;
	}
	if (left == SPEC_UNSET)
		left = n->grace_ms;
	if (left == SPEC_UNSET || (named != SPEC_UNSET && named < left))
		left = named;
	*ret_grace = left != SPEC_UNSET && left > 0;
	m->deadline_ms = SPEC_UNSET;
	if (*ret_grace)
		m->deadline_ms = (int64_t)m->now_ms + left;
	else if (named > 0)
		m->deadline_ms = (int64_t)m->now_ms + named;
}

/* t is not started: those who wait for it are told. */
static void preempting_call_off(struct agent *a, struct task *t)
{
	agent_single_call_off(a, t, "a notice of preemption is up");
	if (!task_alive(t))
		workers_task_over(a, t);
}

static void preempting_first(
	struct preempting *p, const struct preempting_notice *n, const struct preempt_notice *m)
{
	struct agent *a = p->a;

	p->up = true;
	p->time_us = (int64_t)loop_real_us();
	snprintf(p->source, sizeof(p->source), "%s", m->source);
	snprintf(p->reason, sizeof(p->reason), "%s", m->reason);
	/* Nothing is started any more. */
	for (int i = 0; i < a->n_tasks && preempting_active(a); i++) {
		struct task *t = &a->tasks[i];

		if (t->state == TASK_WAITING || agent_single_starts(t))
			preempting_call_off(a, t);
	}
}

/* The time that is left is the shortest that any notice has named. */
static void preempting_deadline(struct preempting *p)
{
	struct preempt_view v = preempt_view(p->machine);

	if (v.deadline_ms == p->deadline_ms)
		return;
	p->deadline_ms = v.deadline_ms;
	p->deadline_us =
		v.deadline_ms == SPEC_UNSET
			? SPEC_UNSET
			: (int64_t)loop_real_us() + (v.deadline_ms - (int64_t)loop_now_ms()) * 1000;
}

int preempting_notice(struct agent *a, const struct preempting_notice *n, struct error *err)
{
	struct preempting *p = a->preempting;
	struct preempt_notice m = {
		.now_ms = loop_now_ms(),
		.source = n->source,
		.reason = n->reason ? n->reason : "",
	};
	bool grace;

	agent_settle(a);
	if (agent_decided(a))
		return error_set(err, -ESHUTDOWN, "%s is on its way to its end", a->spec->name);
	preempting_time(a, n, &m, &grace);
	if (!p->up)
		preempting_first(p, n, &m);
	preempt_notice(p->machine, &m, grace);
	preempting_deadline(p);
	preempting_run(p);
	if (!preempting_active(a))
		preempting_all_left(a);
	else
		agent_judge(a); /* those that have just been called off may have been the last */
	return 0;
}

/* Slurm says when the allocation is over. */
static int64_t preempting_slurm_us(void)
{
	const char *text = getenv("SLURM_JOB_END_TIME");
	char *end;
	long long seconds;

	if (!text || *text < '1' || *text > '9')
		return SPEC_UNSET;
	errno = 0;
	seconds = strtoll(text, &end, 10);
	if (errno || *end || seconds > INT64_MAX / 1000000)
		return SPEC_UNSET;
	return seconds * 1000000;
}

bool preempting_signal(struct agent *a, int signo)
{
	struct preempting *p = a->preempting;
	/* When it came, not when all was done for it. */
	uint64_t bit = UINT64_C(1) << (signo - 1), now = loop_now_ms();
	char name[SIGNALS_TEXT_MAX];
	struct preempting_notice n = {
		.source = "signal",
		.reason = signals_name(signo, name),
		.grace_ms = SPEC_UNSET,
		.deadline_us = preempting_slurm_us(),
	};
	const int *s = a->spec->preemption.signals;

	while (s && *s && *s != signo)
		s++;
	if (!p || !(a->spec->preemption.notices & SPEC_NOTICE_SIGNAL) || !s || !*s)
		return false;
	/* Who signals a process and its whole group (timeout(1), a scheduler) means one notice. */
	if (p->up && (p->heard & bit))
		return now - p->heard_ms < PREEMPTING_SAME_SIGNAL_MS;
	if (preempting_notice(a, &n, NULL) < 0)
		return false;
	p->heard |= bit;
	p->heard_ms = now;
	return true;
}
