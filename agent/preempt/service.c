/* SPDX-License-Identifier: Apache-2.0 */
/*
 * preempting_notice() takes notices, machine.c decides, and this file acts. It posts the job's end
 * as preempted in a turn of its own, after it has seen all ends of this turn: when the last worker
 * has left, the ends of the others decide whether this was a preemption at all.
 */
#include "agent/preempt/private.h"

#include "agent/preempt/notice_sources.h"
#include "agent/sharing/service.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/notice/notice.h"
#include "common/text/duration.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void preempting_stop(void *arg);
static void preempting_all_left(struct supervisor *sv);

/* --- life --- */

static void preempting_expired(void *arg)
{
	struct preempting *p = arg;

	preempting_board_read(p, false);
	if (!p->hosts_up) /* else the samples have yet to come */
		preempting_run(p);
}

struct preempting *preempting_of(const struct supervisor *sv)
{
	return feature_state(sv, &preempt_feature);
}

bool preempting_is_up(const struct supervisor *sv)
{
	const struct preempting *p = preempting_of(sv);

	return p && p->commons && p->several ? p->hosts_up : supervisor_on_notice(sv);
}

struct preempting *preempting_make(struct supervisor *sv)
{
	struct preempting *p = preempting_of(sv);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->sv = sv;
	p->several = supervisor_spec(sv)->rendezvous.nodes_max > 1;
	feature_set_state(sv, &preempt_feature, p);
	return p;
}

static int preempting_new(struct supervisor *sv, struct error *err)
{
	struct preempting *p = preempting_make(sv);

	if (!p)
		return error_set(err, -ENOMEM, "out of memory");
	p->deadline_ms = p->deadline_us = SPEC_UNSET;
	p->commons = p->several ? NULL : sharing_commons(sv);
	p->machine = preempt_new(
		&supervisor_spec(sv)->preemption, (uint64_t)supervisor_spec(sv)->stop.timeout_ms);
	if (!p->machine ||
		loop_timer_new(supervisor_loop(sv), preempting_expired, p, &p->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	return 0;
}

static void preempting_free(struct supervisor *sv)
{
	struct preempting *p = preempting_of(sv);

	if (!p)
		return;
	feature_set_state(sv, &preempt_feature, NULL);
	supervisor_set_notice(sv, false);
	loop_cancel(supervisor_loop(sv), preempting_stop, p);
	loop_timer_free(p->timer);
	preempt_free(p->machine);
	preempting_workers_free(p);
	json_decref(p->past);
	json_decref(p->past_notice);
	json_decref(p->past_saved);
	free(p);
}

/* --- the machine --- */

static bool preempting_active(const struct supervisor *sv)
{
	return supervisor_group(sv)->state == GROUP_STARTING ||
	       supervisor_group(sv)->state == GROUP_RUNNING;
}

/* Stops the workers that are left. */
static void preempting_stop(void *arg)
{
	struct preempting *p = arg;
	struct supervisor *sv = p->sv;
	char text[SUPERVISOR_REASON_MAX];

	if (p->several && p->commons) {
		preempting_reason(p, text, sizeof(text));
		if (p->hosts_up) /* else the group was stopped in this turn */
			p->commons->owner.preempted(p->commons->owner.arg, text);
		return;
	}
	/* All ends may have been seen: then they decide the end of the job, or have done so. */
	supervisor_settle(sv);
	apply_decisions(sv);
	supervisor_settle(sv);
	if (!supervisor_on_notice(sv) || !preempting_active(sv))
		return;
	/* When the leader's work is done, so is the job's. */
	if (supervisor_leader_over(sv))
		end_run_leader_over(sv);
	else
		preempting_all_left(sv);
}

static bool preempting_any_alive(const struct supervisor *sv)
{
	for (int i = 0; i < supervisor_n_workers(sv); i++)
		if (worker_alive(supervisor_worker(sv, i)))
			return true;
	return false;
}

/* Logs the reason only if a worker is still alive; else the last message of the run has it. */
static void preempting_all_left(struct supervisor *sv)
{
	char text[SUPERVISOR_REASON_MAX];

	preempting_reason(preempting_of(sv), text, sizeof(text));
	if (strcmp(supervisor_reason(sv), text) && preempting_any_alive(sv))
		log_notice("%s", text);
	supervisor_set_reason(sv, "%s", text);
	supervisor_post(sv, GROUP_EV_PREEMPT);
}

static void preempting_report(struct preempting *p, const struct preempt_do *d)
{
	struct supervisor *sv = p->sv;
	const struct worker *w = d->worker < 0 ? NULL : preempting_worker_in(p, d->worker);
	bool notice = !strcmp(d->event, "notice");
	char grace[DURATION_TEXT_MAX + 32] = "";

	if (notice && p->deadline_ms != SPEC_UNSET)
		preempting_rest(p, grace, sizeof(grace));
	supervisor_report(sv, LOG_NOTICE, d->event, w ? w->rank : -1, preempting_json(sv), "%s%s",
		d->text, grace);
	if (notice && p->commons)
		commons_event(p->commons, "notice", -1, NULL, d->text);
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
		preempting_signal_worker(p, d);
		break;
	case PREEMPT_REPORT:
		preempting_report(p, d);
		break;
	case PREEMPT_STOP:
		snprintf(p->why, sizeof(p->why), "%s", d->text);
		if (loop_defer(supervisor_loop(p->sv), preempting_stop, p) < 0)
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

	if (p->running) /* the call under way does it */
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
	if (preempting_is_up(p->sv))
		supervisor_changed(p->sv);
}

static void preempting_cancel(struct supervisor *sv)
{
	struct preempting *p = preempting_of(sv);

	if (!p || !supervisor_on_notice(sv))
		return;
	supervisor_set_notice(sv, false);
	loop_cancel(supervisor_loop(sv), preempting_stop, p);
	preempt_cancel(p->machine);
	preempting_run(p);
}

/* --- notices --- */

/* Sets when the host goes away, as far as is known, and if the workers go on until then. The
 * specification's times apply, but not beyond the time that a platform has named. */
static void preempting_time(const struct supervisor *sv, const struct preempting_notice *n,
	struct preempt_notice *m, bool *ret_grace)
{
	int64_t left = supervisor_spec(sv)->preemption.grace_ms, named = SPEC_UNSET;

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

/* Does not start w after all; the callers that wait for it get an error. */
static void preempting_call_off(struct supervisor *sv, struct worker *w)
{
	lifecycle_call_off(sv, w, "a notice of preemption is up");
	if (!worker_alive(w))
		FEATURES_CALL(sv, worker_over, sv, w);
}

/* From now on no worker starts. */
void preempting_call_off_all(struct supervisor *sv)
{
	for (int i = 0; i < supervisor_n_workers(sv) && preempting_active(sv); i++) {
		struct worker *w = supervisor_worker(sv, i);

		if (w->state == WORKER_WAITING || lifecycle_starts(w))
			preempting_call_off(sv, w);
	}
}

static void preempting_first(struct preempting *p, const struct preempt_notice *m)
{
	p->time_us = (int64_t)loop_real_us();
	snprintf(p->source, sizeof(p->source), "%s", m->source);
	snprintf(p->reason, sizeof(p->reason), "%s", m->reason);
	if (p->several && p->commons) {
		p->hosts_up = true; /* each host does so when its board has the notice */
		return;
	}
	supervisor_set_notice(p->sv, true);
	preempting_call_off_all(p->sv);
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

void preempting_take(struct preempting *p, const struct preempting_notice *n)
{
	struct preempt_notice m = {
		.now_ms = loop_now_ms(),
		.source = n->source,
		.reason = n->reason ? n->reason : "",
	};
	bool grace;

	preempting_time(p->sv, n, &m, &grace);
	if (!preempting_is_up(p->sv))
		preempting_first(p, &m);
	preempt_notice(p->machine, &m, grace);
	preempting_deadline(p);
	preempting_run(p);
}

int preempting_notice(struct supervisor *sv, const struct preempting_notice *n, struct error *err)
{
	supervisor_settle(sv);
	if (supervisor_decided(sv))
		return error_set(
			err, -ESHUTDOWN, "%s is already ending", supervisor_spec(sv)->name);
	if (FEATURES_ANY(sv, takes_notice, sv, n->source, n->reason ? n->reason : "", n->grace_ms,
		    n->deadline_us))
		return 0;
	preempting_take(preempting_of(sv), n);
	if (!preempting_active(sv))
		preempting_all_left(sv);
	else
		apply_decisions(sv); /* the workers just called off may have been the last */
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

static bool preempting_signal(struct supervisor *sv, int signo)
{
	struct preempting *p = preempting_of(sv);
	/* The time when the signal came, not when its handling ended. */
	uint64_t bit = UINT64_C(1) << (signo - 1), now = loop_now_ms();
	char name[SIGNALS_TEXT_MAX];
	struct preempting_notice n = {
		.source = "signal",
		.reason = signals_name(signo, name),
		.grace_ms = SPEC_UNSET,
		.deadline_us = preempting_slurm_us(),
	};
	const int *s = supervisor_spec(sv)->preemption.signals;

	while (s && *s && *s != signo)
		s++;
	if (!p || !(supervisor_spec(sv)->preemption.notices & SPEC_NOTICE_SIGNAL) || !s || !*s)
		return false;
	/* timeout(1) or a scheduler may signal the process and its whole group: that is one notice.
	 */
	if (supervisor_on_notice(sv) && (p->signals & bit))
		return now - p->signal_ms < PREEMPTING_SAME_SIGNAL_MS;
	if (preempting_notice(sv, &n, NULL) < 0)
		return false;
	p->signals |= bit;
	p->signal_ms = now;
	return true;
}

/* --- the feature --- */

static int preempting_init(struct supervisor *sv, struct error *err)
{
	int r = preempting_new(sv, err);

	return r < 0 ? r : notice_sources_new(sv, err);
}

static void preempting_fini(struct supervisor *sv)
{
	notice_sources_free(sv);
	preempting_free(sv);
}

/* When the job ends for another reason, the notice is over, too. */
static void preempting_group_changed(struct supervisor *sv)
{
	bool stops = supervisor_group(sv)->state == GROUP_STOPPING &&
		     supervisor_group(sv)->goal != GOAL_PREEMPT;
	bool ends = group_state_is_final(supervisor_group(sv)->state) &&
		    supervisor_group(sv)->state != GROUP_PREEMPTED;

	/* In a group of several hosts the notice is of all, and so is its end. */
	if ((stops || ends) && !preempting_of(sv)->several)
		preempting_cancel(sv);
}

static void preempting_own_started(struct supervisor *sv, struct worker *w)
{
	struct preempting *p = preempting_of(sv);

	if (p && !p->several)
		preempting_add_worker(p, w);
}

static void preempting_own_exited(struct supervisor *sv, struct worker *w)
{
	if (!preempting_of(sv)->several)
		preempting_worker_exited(sv, w);
}

static void preempting_own_stopping(struct supervisor *sv, const char *why)
{
	if (!preempting_of(sv)->several)
		preempting_steps_stop(preempting_of(sv));
}

static int method_preempt(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
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
	if (preempting_notice(sv, &n, &err) < 0)
		return varlink_error(call, "FailedPrecondition",
			manager_not_active(supervisor_spec(sv)->name,
				group_state_name(supervisor_group(sv)->state)));
	return varlink_reply(call, json_pack("{s:[s]}", "runs", supervisor_options(sv)->run));
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
	.group_stopping = preempting_own_stopping,
	.group_error = preempting_group_error,
	.all_left = preempting_all_left,
	.job_ended = notice_sources_stop,
	.worker_started = preempting_own_started,
	.worker_left = preempting_worker_left,
	.worker_exited = preempting_own_exited,
	.worker_end_reported = preempting_report_end,
	.hosts_lead = preempting_lead,
	.hosts_begin = preempting_hosts_begin,
	.hosts_stopping = preempting_hosts_stopping,
	.hosts_worker_started = preempting_hosts_started,
	.hosts_worker_exited = preempting_hosts_exited,
	.hosts_notice = preempting_hosts_notice,
	.hosts_sampled = preempting_hosts_sampled,
	.hosts_board = preempting_hosts_board,
	.hosts_samples = preempting_hosts_samples,
	.hosts_describe_end = preempting_hosts_describe_end,
	.hosts_order = preempting_hosts_order,
	.takes_signal = preempting_signal,
	.child_exited = notice_sources_child_exited,
	.helper_pids = notice_sources_helpers,
	.past_event = preempting_past_note,
	.past_ends_job = preempting_past,
	.describe_job = preempting_describe_job,
	.describe_worker = preempting_describe_worker,
	.describe_verdict = preempting_describe_verdict,
	.explain = preempting_explain,
};
