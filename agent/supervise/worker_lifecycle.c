/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/stop_machine.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/orphans.h"
#include "agent/supervise/private.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/*
 * Stops and starts of single workers while the group runs. A stop follows the steps of
 * agent/policy/stop_machine.h, and also ends processes that the worker left behind; a start may
 * follow it, at once or after a delay. One timer serves all workers: it is armed for the first time
 * at which a start or a step is due. The group's own stop overrides all of this.
 */

enum { LIFECYCLE_RECHECK_MS = 1 }; /* until an execve() is over */

struct worker_lifecycle {
	struct stop_machine stop;
	uint64_t recheck_ms; /* time of the next scan for orphans; 0: with the next end */
	bool start;	     /* to be started, after start_ms and the stop under way */
	uint64_t start_ms;
	char **command, **env; /* in place of the role's, or NULL */
};

void lifecycle_free(struct worker *w)
{
	if (!w->lifecycle)
		return;
	strings_free(w->lifecycle->command);
	strings_free(w->lifecycle->env);
	free(w->lifecycle);
	w->lifecycle = NULL;
}

static struct worker_lifecycle *lifecycle_of(struct worker *w)
{
	if (!w->lifecycle)
		w->lifecycle = calloc(1, sizeof(*w->lifecycle));
	return w->lifecycle;
}

static enum stop_state lifecycle_state(const struct worker *w)
{
	return w->lifecycle ? w->lifecycle->stop.state : STOP_IDLE;
}

bool lifecycle_starts(const struct worker *w)
{
	return w->lifecycle && w->lifecycle->start;
}

bool lifecycle_at_rest(const struct worker *w)
{
	return !worker_alive(w) && lifecycle_state(w) == STOP_IDLE;
}

static bool lifecycle_waits(const struct worker *w)
{
	return lifecycle_starts(w) && lifecycle_at_rest(w);
}

int lifecycle_set_command(struct worker *w, char **command, char **env)
{
	struct worker_lifecycle *p = lifecycle_of(w);

	if (!p) {
		strings_free(command);
		strings_free(env);
		return -ENOMEM;
	}
	strings_free(p->command);
	strings_free(p->env);
	p->command = command;
	p->env = env;
	return 0;
}

char *const *lifecycle_argv(const struct worker *w)
{
	return w->lifecycle ? w->lifecycle->command : NULL;
}

char *const *lifecycle_env(const struct worker *w)
{
	return w->lifecycle ? w->lifecycle->env : NULL;
}

/* Whether every worker of the attempt had its first start. */
static bool lifecycle_all_launched(const struct supervisor *sv)
{
	for (int i = 0; i < sv->n_workers; i++)
		if (sv->workers[i].state == WORKER_WAITING && !sv->workers[i].launched &&
			!sv->workers[i].extra)
			return false;
	return true;
}

/* When the next step or start of w is due, or UINT64_MAX. */
static uint64_t lifecycle_due(const struct worker *w)
{
	const struct worker_lifecycle *p = w->lifecycle;

	if (lifecycle_state(w) == STOP_IDLE)
		return lifecycle_waits(w) ? p->start_ms : UINT64_MAX;
	return p->recheck_ms && p->recheck_ms < p->stop.due_ms ? p->recheck_ms : p->stop.due_ms;
}

static void lifecycle_rearm(struct supervisor *sv)
{
	uint64_t next = UINT64_MAX, now = loop_now_ms();

	for (int i = 0; i < sv->n_workers; i++)
		if (lifecycle_due(&sv->workers[i]) < next)
			next = lifecycle_due(&sv->workers[i]);
	/* An operator has started or stopped the last worker that the group's start waited for. */
	if (sv->group.state == GROUP_STARTING && lifecycle_all_launched(sv))
		next = now;
	if (next == UINT64_MAX)
		loop_timer_disarm(sv->worker_timer);
	else
		loop_timer_arm(sv->worker_timer, next > now ? next - now : 0);
}

/* --- ending --- */

static void lifecycle_post(struct supervisor *sv, struct worker *w, enum stop_event event);

static void lifecycle_kill(struct supervisor *sv, struct worker *w)
{
	(void)signal_worker(sv, w, SIGKILL, SPEC_WHOM_ALL);
	(void)signal_worker(sv, w, SIGKILL, SPEC_WHOM_GROUP);
}

static void lifecycle_kill_late(struct supervisor *sv, struct worker *w)
{
	supervisor_report(sv, LOG_WARNING, "killed", w->rank, NULL,
		"%s did not end in time and gets SIGKILL", worker_name(w));
	lifecycle_kill(sv, w);
}

static void lifecycle_send(struct supervisor *sv, struct worker *w)
{
	enum spec_whom whom = sv->spec->stop.whom;

	(void)signal_worker(sv, w, sv->spec->stop.signal, whom);
	/* A worker stopped by SIGSTOP could not act on the stop signal. */
	(void)signal_worker(sv, w, SIGCONT, whom);
}

/* Signals processes that w left behind (signo 0: only counts them); posts GONE if there are none.
 */
static void lifecycle_signal_orphans(struct supervisor *sv, struct worker *w, int signo)
{
	bool unsure;
	int n = orphans_signal(sv, w, signo, &unsure);

	w->lifecycle->recheck_ms = unsure ? loop_now_ms() + LIFECYCLE_RECHECK_MS : 0;
	if (n <= 0 && !unsure)
		lifecycle_post(sv, w, STOP_EV_GONE);
}

static void lifecycle_clean(struct supervisor *sv, struct worker *w)
{
	lifecycle_signal_orphans(sv, w, sv->spec->stop.signal);
	if (lifecycle_state(w) == STOP_CLEANING)
		supervisor_event(sv, "leftovers", w->rank, NULL,
			"processes that %s had started outlived it", worker_name(w));
}

/* All processes of the last start are gone. */
static void lifecycle_finish(struct supervisor *sv, struct worker *w)
{
	if (w->on_purpose && w->state == WORKER_STOPPED)
		supervisor_event(sv, "worker-stopped", w->rank, worker_json(w), "%s was stopped",
			worker_name(w));
}

static void lifecycle_abandon(struct supervisor *sv, struct worker *w)
{
	supervisor_report(sv, LOG_ERR, "stuck", w->rank, NULL,
		"what %s left behind does not die of SIGKILL", worker_name(w));
	lifecycle_finish(sv, w);
}

static void lifecycle_give_up(struct supervisor *sv, struct worker *w)
{
	bool blamed = !w->on_purpose;

	supervisor_report(sv, LOG_ERR, "stuck", w->rank, NULL,
		"%s (pid %d) does not die of SIGKILL; it is given up", worker_name(w), (int)w->pid);
	/* It still holds its devices, so w cannot be started again. */
	w->lifecycle->start = false;
	FEATURES_CALL(sv, before_reap, sv);
	reap_worker_ended(sv, w, CLD_KILLED, SIGKILL);
	if (blamed && !sv->on_notice) {
		w->no_restart = true;
		supervisor_set_reason(sv, "%s does not die of SIGKILL", worker_name(w));
		supervisor_post(sv, GROUP_EV_FAIL);
		supervisor_settle(sv); /* before apply_decisions() sees its end */
	}
}

static void lifecycle_act(struct supervisor *sv, struct worker *w, unsigned actions)
{
	if (actions & STOP_DO_DUMP)
		(void)signal_worker(sv, w, sv->spec->stop.dump_signal, SPEC_WHOM_MAIN);
	if (actions & STOP_DO_SEND)
		lifecycle_send(sv, w);
	if (actions & STOP_DO_KILL)
		lifecycle_kill_late(sv, w);
	if (actions & STOP_DO_KILL_MORE)
		lifecycle_kill(sv, w);
	if (actions & STOP_DO_CLEAN)
		lifecycle_clean(sv, w);
	if (actions & STOP_DO_CHECK)
		lifecycle_signal_orphans(sv, w, 0);
	if (actions & STOP_DO_SWEEP)
		lifecycle_signal_orphans(sv, w, SIGKILL);
	if (actions & STOP_DO_FINISH)
		lifecycle_finish(sv, w);
	if (actions & STOP_DO_GIVE_UP)
		lifecycle_give_up(sv, w);
	if (actions & STOP_DO_ABANDON)
		lifecycle_abandon(sv, w);
}

static void lifecycle_step(
	struct supervisor *sv, struct worker *w, enum stop_event event, const struct stop_input *in)
{
	struct worker_lifecycle *p = w->lifecycle;
	enum stop_state before = p->stop.state;
	unsigned actions = 0;

	if (stop_step(&p->stop, event, in, &actions) < 0)
		log_error("%s: stop event %s cannot happen while %s", worker_name(w),
			stop_event_name(event), stop_state_name(before));
	if (p->stop.state == STOP_IDLE)
		p->recheck_ms = 0;
	lifecycle_act(sv, w, actions);
	lifecycle_rearm(sv);
}

static void lifecycle_post(struct supervisor *sv, struct worker *w, enum stop_event event)
{
	struct stop_input in = {
		.now_ms = loop_now_ms(),
		.main_only = sv->spec->stop.whom == SPEC_WHOM_MAIN,
	};

	lifecycle_step(sv, w, event, &in);
}

void lifecycle_end(struct supervisor *sv, struct worker *w, uint64_t timeout_ms, bool dump)
{
	struct stop_input in = {
		.now_ms = loop_now_ms(),
		.timeout_ms = timeout_ms,
		.alive = true,
		.dump = dump && sv->spec->stop.dump_signal,
	};

	if (!lifecycle_of(w)) {
		(void)signal_worker(sv, w, SIGKILL, SPEC_WHOM_GROUP);
		return;
	}
	if (!w->stop_signal)
		w->stop_signal = sv->spec->stop.signal;
	if (lifecycle_state(w) == STOP_IDLE)
		worker_set_state(w, WORKER_STOPPING,
			w->blame[0] && !w->on_purpose ? w->blame : "stopped on request");
	lifecycle_step(sv, w, STOP_EV_END, &in);
}

/* The process of w has ended: begins to end those that it left behind. */
static void lifecycle_end_rest(struct supervisor *sv, struct worker *w)
{
	struct stop_input in = {
		.now_ms = loop_now_ms(),
		.timeout_ms = (uint64_t)sv->spec->stop.timeout_ms,
		.main_only = sv->spec->stop.whom == SPEC_WHOM_MAIN,
	};

	lifecycle_step(sv, w, lifecycle_state(w) == STOP_IDLE ? STOP_EV_END : STOP_EV_ENDED, &in);
}

/* --- starting --- */

static int lifecycle_launch(struct supervisor *sv, struct worker *w)
{
	bool again = w->launched;
	int r;

	w->lifecycle->start = false;
	/* Counted first: the worker's environment has the number. */
	if (again)
		w->restarts++;
	r = launch_worker(sv, w);
	if (!r)
		supervisor_event(sv, again ? "worker-restarted" : "worker-started", w->rank,
			worker_json(w), "%s was started%s, pid %d", worker_name(w),
			again ? " again" : "", (int)w->pid);
	lifecycle_rearm(sv);
	return r;
}

int lifecycle_start_now(struct supervisor *sv, struct worker *w)
{
	lifecycle_start_in(sv, w, 0);
	return lifecycle_waits(w) ? lifecycle_launch(sv, w) : 0;
}

void lifecycle_start_in(struct supervisor *sv, struct worker *w, uint64_t delay_ms)
{
	struct worker_lifecycle *p = lifecycle_of(w);
	bool waited = lifecycle_waits(w);

	if (!p) {
		log_error("out of memory: %s is not started again", worker_name(w));
		worker_set_state(w, WORKER_FAILED, "out of memory");
		w->no_restart = true;
		return;
	}
	p->start = true;
	p->start_ms = loop_now_ms() + delay_ms;
	w->next_start_us = (int64_t)(loop_real_us() + delay_ms * 1000);
	if (worker_alive(w)) /* it starts after its end */
		return;
	worker_set_state(w, WORKER_WAITING, w->exit.ended ? w->exit.text : "its start is delayed");
	if (p->stop.state == STOP_CLEANING || p->stop.state == STOP_SWEEPING)
		return;
	if (w->exit.ended && !waited)
		lifecycle_end_rest(sv, w);
	else
		lifecycle_rearm(sv);
}

void lifecycle_call_off(struct supervisor *sv, struct worker *w, const char *why)
{
	bool waited = lifecycle_waits(w);

	if (w->lifecycle)
		w->lifecycle->start = false;
	w->next_start_us = 0;
	if (w->state == WORKER_WAITING)
		worker_set_state(w, WORKER_STOPPED, why);
	if (waited)
		lifecycle_rearm(sv);
}

/* --- time --- */

static void lifecycle_worker_due(struct supervisor *sv, struct worker *w)
{
	if (lifecycle_waits(w))
		(void)lifecycle_launch(sv, w);
	else
		lifecycle_post(sv, w,
			w->lifecycle->stop.due_ms <= loop_now_ms() ? STOP_EV_DUE : STOP_EV_ENDED);
}

static bool lifecycle_active(const struct supervisor *sv)
{
	return sv->group.state == GROUP_STARTING || sv->group.state == GROUP_RUNNING;
}

void lifecycle_expired(void *arg)
{
	struct supervisor *sv = arg;

	supervisor_settle(sv);
	orphans_begin(sv);
	for (int i = 0; i < sv->n_workers && lifecycle_active(sv); i++) {
		struct worker *w = &sv->workers[i];

		if (lifecycle_due(w) <= loop_now_ms())
			lifecycle_worker_due(sv, w);
	}
	orphans_end(sv);
	reap_ends_seen(sv);
	supervisor_settle(sv);
	if (sv->group.state == GROUP_STARTING && lifecycle_all_launched(sv)) {
		supervisor_post(sv, GROUP_EV_STARTED);
		supervisor_settle(sv);
	}
	if (lifecycle_active(sv))
		lifecycle_rearm(sv);
	supervisor_changed(sv);
}

void lifecycle_progress(struct supervisor *sv)
{
	for (int i = 0; i < sv->n_workers && lifecycle_active(sv); i++)
		if (lifecycle_state(&sv->workers[i]) != STOP_IDLE && !worker_alive(&sv->workers[i]))
			lifecycle_post(sv, &sv->workers[i], STOP_EV_ENDED);
	request_settle(sv, false);
}

void lifecycle_leave(struct supervisor *sv, const char *why)
{
	for (int i = 0; i < sv->n_workers; i++) {
		struct worker *w = &sv->workers[i];

		/* A worker that was to be started again starts with the group. */
		if (lifecycle_starts(w))
			w->on_purpose = false;
		lifecycle_call_off(sv, w, why);
		if (lifecycle_state(w) != STOP_IDLE)
			lifecycle_post(sv, w, STOP_EV_LEAVE);
	}
	loop_timer_disarm(sv->worker_timer);
	loop_timer_disarm(sv->leader.timer);
}
