/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempting_notice() takes notices, machine.c decides, and this file does it. The job's end as
 * preempted is posted for a turn of its own, after all ends of this turn were seen: when the last
 * worker has left, the ends of the others decide whether this was a preemption at all.
 */
#include "agent/preempt/private.h"

#include "agent/preempt/notice_sources.h"
#include "agent/sharing/service.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/notice/notice.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void preempting_stop(void *arg);
static void preempting_all_left(struct agent *a);

/* --- life --- */

static void preempting_expired(void *arg)
{
	struct preempting *p = arg;

	preempting_board_read(p, false);
	preempting_run(p);
}

static int preempting_new(struct agent *a, struct error *err)
{
	struct preempting *p = calloc(1, sizeof(*p));

	if (!p)
		return error_set(err, -ENOMEM, "out of memory");
	a->preempting = p;
	p->a = a;
	LIST_INIT(&p->asks);
	p->deadline_ms = p->deadline_us = SPEC_UNSET;
	p->machine = preempt_new(&a->spec->preemption, (uint64_t)a->spec->stop.timeout_ms);
	if (!p->machine || loop_timer_new(a->loop, preempting_expired, p, &p->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void preempting_free(struct agent *a)
{
	struct preempting *p = a->preempting;

	if (!p)
		return;
	a->preempting = NULL;
	a->on_notice = false;
	workers_on_error(a, NULL, NULL);
	loop_cancel(a->loop, preempting_stop, p);
	loop_timer_free(p->timer);
	preempt_free(p->machine);
	preempting_tasks_free(p);
	json_decref(p->past);
	free(p);
}

/* --- the machine --- */

static bool preempting_active(const struct agent *a)
{
	return a->group.state == GROUP_STARTING || a->group.state == GROUP_RUNNING;
}

/* Stops the workers that are left. */
static void preempting_stop(void *arg)
{
	struct preempting *p = arg;
	struct agent *a = p->a;

	/* All ends may have been seen: then they decide the end of the job, or have done so. */
	agent_settle(a);
	agent_judge(a);
	agent_settle(a);
	if (!a->on_notice || !preempting_active(a))
		return;
	/* When the leader's work is done, so is the job's. */
	if (a->leader_over)
		outcome_leader_over(a);
	else
		preempting_all_left(a);
}

static void preempting_all_left(struct agent *a)
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

	if (p->running) /* the running call gets to it */
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
	if (p->a->on_notice)
		agent_changed(p->a);
}

static void preempting_cancel(struct agent *a)
{
	struct preempting *p = a->preempting;

	if (!p || !a->on_notice)
		return;
	a->on_notice = false;
	loop_cancel(a->loop, preempting_stop, p);
	preempt_cancel(p->machine);
	preempting_run(p);
}

/* --- notices --- */

/* When the host goes away, as far as is known, and whether the workers should go on until then. The
 * specification's times apply, but not beyond the time that a platform has named. */
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

/* Does not start t after all; the callers that wait for it get an error. */
static void preempting_call_off(struct agent *a, struct task *t)
{
	agent_single_call_off(a, t, "a notice of preemption is up");
	if (!task_alive(t))
		FEATURES_CALL(a, worker_over, a, t);
}

static void preempting_first(
	struct preempting *p, const struct preempting_notice *n, const struct preempt_notice *m)
{
	struct agent *a = p->a;

	a->on_notice = true;
	p->time_us = (int64_t)loop_real_us();
	snprintf(p->source, sizeof(p->source), "%s", m->source);
	snprintf(p->reason, sizeof(p->reason), "%s", m->reason);
	/* From now on no worker starts. */
	for (int i = 0; i < a->n_tasks && preempting_active(a); i++) {
		struct task *t = &a->tasks[i];

		if (t->state == TASK_WAITING || agent_single_starts(t))
			preempting_call_off(a, t);
	}
}

/* Uses the shortest time that any notice has named. */
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
		return error_set(err, -ESHUTDOWN, "%s is already ending", a->spec->name);
	preempting_time(a, n, &m, &grace);
	if (!a->on_notice)
		preempting_first(p, n, &m);
	preempt_notice(p->machine, &m, grace);
	preempting_deadline(p);
	preempting_run(p);
	if (!preempting_active(a))
		preempting_all_left(a);
	else
		agent_judge(a); /* the workers just called off may have been the last */
	return 0;
}

/* The end of the allocation, from Slurm. */
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

static bool preempting_signal(struct agent *a, int signo)
{
	struct preempting *p = a->preempting;
	/* The time when the signal came, not when its handling ended. */
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
	/* timeout(1) or a scheduler may signal the process and its whole group: that is one notice.
	 */
	if (a->on_notice && (p->heard & bit))
		return now - p->heard_ms < PREEMPTING_SAME_SIGNAL_MS;
	if (preempting_notice(a, &n, NULL) < 0)
		return false;
	p->heard |= bit;
	p->heard_ms = now;
	return true;
}

/* --- the feature --- */

static int preempting_init(struct agent *a, struct error *err)
{
	int r = preempting_new(a, err);

	if (r < 0)
		return r;
	workers_on_error(a, preempting_on_error, a->preempting);
	return notices_new(a, err);
}

static void preempting_fini(struct agent *a)
{
	notices_free(a);
	preempting_free(a);
}

/* When the job ends for another reason, the notice is over, too. */
static void preempting_group_changed(struct agent *a)
{
	bool stops = a->group.state == GROUP_STOPPING && a->group.goal != GOAL_PREEMPT;
	bool ends = group_state_is_final(a->group.state) && a->group.state != GROUP_PREEMPTED;

	if (stops || ends)
		preempting_cancel(a);
}

static int method_preempt(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	struct preempting_notice n = {
		.source = json_get_string(p, "source", "operator"),
		.reason = json_get_string(p, "reason", NULL),
		.grace_ms = json_get_int(p, "grace_ms", SPEC_UNSET),
		.deadline_us = json_get_int(p, "deadline_us", SPEC_UNSET),
	};
	struct error err = { 0 };

	if (!json_get_string(p, "job", NULL))
		return varlink_error_parameter(call, "job");
	if (!notice_source_is_known(n.source))
		return varlink_error_parameter(call, "source");
	if (preempting_notice(a, &n, &err) < 0)
		return varlink_error(call, "NotActive",
			json_pack("{s:s, s:s}", "job", a->spec->name, "state",
				group_state_name(a->group.state)));
	return varlink_reply(call, json_pack("{s:[s]}", "runs", a->opt.run));
}

static const struct varlink_method manager_methods[] = {
	{ "Preempt", method_preempt },
	{ NULL, NULL },
};

const struct feature preempt_feature = {
	.name = "preempt",
	.init = preempting_init,
	.fini = preempting_fini,
	.manager_methods = manager_methods,
	.worker_methods = preempting_worker_methods,
	.group_changed = preempting_group_changed,
	.group_stopping = preempting_group_stopping,
	.all_left = preempting_all_left,
	.job_ended = notices_end,
	.worker_started = preempting_task_started,
	.worker_left = preempting_task_left,
	.worker_exited = preempting_worker_exited,
	.worker_end_told = preempting_end_told,
	.takes_signal = preempting_signal,
	.child_exited = notices_child_exited,
	.helper_pids = notices_helpers,
	.past_event = preempting_past_note,
	.past_ends_job = preempting_past,
	.describe_job = preempting_describe_job,
	.describe_worker = preempting_describe_worker,
	.describe_verdict = preempting_describe_verdict,
	.explain = preempting_explain,
};
