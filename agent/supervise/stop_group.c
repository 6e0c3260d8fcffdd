/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/process_tree.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/base/signals.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/*
 * Stops all workers together, by the steps of agent/policy/stop_machine.h. Posts GROUP_EV_GONE
 * once: when no process is left, or the agent has given up on those that are.
 */

enum { STOP_HELPERS = 64 };

/* The agent's helper processes, which a stop must not end. */
static struct tree_except stop_except(struct supervisor *sv)
{
	static pid_t pids[STOP_HELPERS];

	return (struct tree_except){ .pids = pids, .n = reap_helpers(sv, pids, STOP_HELPERS) };
}

static bool stop_tree_gone(struct supervisor *sv)
{
	struct tree_except e = stop_except(sv);

	return tree_gone(&e);
}

/* Signals all descendants of w that are still below it. */
static int stop_signal_below(const struct worker *w, int signo)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n;
	int r = proc_stat_all(&procs, &n);

	if (r < 0)
		return r;
	n = proc_keep_descendants(procs, n, w->pid);
	for (size_t i = 0; i < n; i++)
		(void)proc_kill(&procs[i], signo);
	return 0;
}

int signal_worker(struct supervisor *sv, struct worker *w, int signo, enum spec_whom whom)
{
	int r = 0;

	if (!worker_alive(w) || sv->opt.alone)
		return -ESRCH;
	if (whom == SPEC_WHOM_ALL)
		r = stop_signal_below(w, signo);
	if (!r && sv->processes->kill(whom == SPEC_WHOM_GROUP ? -w->pid : w->pid, signo) < 0)
		r = -errno;
	if (r == -EPERM && FEATURES_ANY(sv, signals_worker, sv, w, signo))
		r = 0;
	return r;
}

int signal_workers(struct supervisor *sv, const char *ranks_text, int signo, enum spec_whom whom,
	struct error *err)
{
	_cleanup_(ranks_fini) struct ranks ranks = { 0 };
	int sent = 0, r, missing;

	if (ranks_text) {
		r = ranks_parse(&ranks, ranks_text, "ranks", err);
		if (r < 0)
			return r;
		missing = ranks_next(&ranks, sv->n_workers - 1);
		if (missing >= 0) {
			error_set(err, -ENOENT, "there is no worker %d", missing);
			snprintf(err->field, sizeof(err->field), "%d", missing);
			return -ENOENT;
		}
	}
	for (int i = 0; i < sv->n_workers; i++) {
		struct worker *w = &sv->workers[i];

		if (!worker_alive(w) || (ranks_text && !ranks_contains(&ranks, w->rank)))
			continue;
		if (!signal_worker(sv, w, signo, whom))
			sent++;
	}
	return sent;
}

static void stop_kill_all(struct supervisor *sv)
{
	struct tree_except e = stop_except(sv);

	FEATURES_CALL(sv, kill_workers, sv);
	/* cgroup.kill is one step, which no process can escape by forking. */
	if (cgroup_kill(sv->cgroup) == 0 && cgroup_populated(sv->cgroup))
		return;
	for (int i = 0; i < sv->n_workers; i++)
		if (worker_alive(&sv->workers[i]))
			(void)sv->processes->kill(-sv->workers[i].pid, SIGKILL);
	if (!stop_tree_gone(sv))
		tree_kill(&e);
}

static void stop_kill_late(struct supervisor *sv)
{
	int alive = worker_list_alive(sv);

	if (alive)
		supervisor_report(sv, LOG_WARNING, "killed", -1, NULL,
			"SIGKILL for %d worker%s that did not end in time", alive,
			alive == 1 ? "" : "s");
	stop_kill_all(sv);
}

static void stop_stuck(struct supervisor *sv, int n, pid_t pid, const char *comm, bool in_d)
{
	char text[160];
	size_t len = strlen(sv->consequence);

	snprintf(text, sizeof(text), "process %d (%s) %s%s; it is given up", (int)pid, comm,
		in_d ? "is in uninterruptible sleep and does not die"
		     : "does not go away after SIGKILL",
		n > 1 ? ", and others with it" : "");
	/* Add to the reason of the stop; do not replace it. */
	supervisor_set_reason(sv, "%s%s%s", sv->reason, sv->reason[0] ? "; " : "", text);
	if (len)
		snprintf(sv->consequence + len, sizeof(sv->consequence) - len, "; %s", text);
	supervisor_report(sv, LOG_ERR, "stuck", -1,
		json_pack("{s:i, s:i}", "pid", (int)pid, "processes", n), "%s", text);
	supervisor_post(sv, GROUP_EV_STUCK);
}

static void stop_give_up(struct supervisor *sv)
{
	struct tree_except e = stop_except(sv);
	char comm[17];
	pid_t pid;
	bool in_d;
	int n = tree_count(&e, &pid, comm, &in_d);

	if (n > 0)
		stop_stuck(sv, n, pid, comm, in_d);
	for (int i = 0; i < sv->n_workers; i++)
		if (worker_alive(&sv->workers[i])) {
			worker_set_state(&sv->workers[i], WORKER_FAILED, "does not die of SIGKILL");
			sv->workers[i].pid = 0;
		}
	supervisor_post(sv, GROUP_EV_GONE);
}

static void stop_send(struct supervisor *sv)
{
	(void)signal_workers(sv, NULL, sv->stop_signal, sv->spec->stop.whom, NULL);
	/* A worker stopped by SIGSTOP could not act on the stop signal. */
	(void)signal_workers(sv, NULL, SIGCONT, sv->spec->stop.whom, NULL);
}

static void stop_clean(struct supervisor *sv)
{
	struct tree_except e = stop_except(sv);
	int n = tree_signal(&e, sv->stop_signal);

	if (n > 0)
		supervisor_event(sv, "leftovers", -1, NULL,
			"%d processes that workers had started outlived them", n);
}

static void stop_post(struct supervisor *sv, enum stop_event event);

/* Ends processes that workers left behind; posts GONE if there are none. */
static void stop_act_on_rest(struct supervisor *sv, unsigned actions)
{
	if (stop_tree_gone(sv))
		stop_post(sv, STOP_EV_GONE);
	else if (actions & STOP_DO_CLEAN)
		stop_clean(sv);
	else if (actions & STOP_DO_SWEEP)
		stop_kill_all(sv);
}

static void stop_act(struct supervisor *sv, unsigned actions)
{
	/* The stop signal follows later: at once it would end a worker in the middle of its dump.
	 */
	if (actions & STOP_DO_DUMP)
		(void)signal_workers(sv, NULL, sv->spec->stop.dump_signal, SPEC_WHOM_MAIN, NULL);
	if (actions & STOP_DO_SEND)
		stop_send(sv);
	if (actions & STOP_DO_KILL)
		stop_kill_late(sv);
	if (actions & STOP_DO_KILL_MORE)
		stop_kill_all(sv);
	if (actions & (STOP_DO_CLEAN | STOP_DO_CHECK | STOP_DO_SWEEP))
		stop_act_on_rest(sv, actions);
	if (actions & STOP_DO_FINISH)
		supervisor_post(sv, GROUP_EV_GONE);
	if (actions & (STOP_DO_GIVE_UP | STOP_DO_ABANDON))
		stop_give_up(sv);
}

static void stop_apply(struct supervisor *sv, enum stop_event event, const struct stop_input *in)
{
	enum stop_state before = sv->stop.state;
	unsigned actions = 0;

	if (stop_step(&sv->stop, event, in, &actions) < 0)
		log_error("stop event %s cannot happen while %s", stop_event_name(event),
			stop_state_name(before));
	if (sv->stop.state == STOP_IDLE)
		loop_timer_disarm(sv->stop_timer);
	else
		loop_timer_arm(sv->stop_timer,
			sv->stop.due_ms > in->now_ms ? sv->stop.due_ms - in->now_ms : 0);
	stop_act(sv, actions);
}

static void stop_post(struct supervisor *sv, enum stop_event event)
{
	struct stop_input in = {
		.now_ms = loop_now_ms(),
		.main_only = sv->spec->stop.whom == SPEC_WHOM_MAIN,
	};

	stop_apply(sv, event, &in);
}

bool stop_group_active(const struct supervisor *sv)
{
	return sv->stop.state != STOP_IDLE;
}

void stop_group_kill(struct supervisor *sv)
{
	stop_post(sv, STOP_EV_KILL);
}

void stop_group_within(struct supervisor *sv, uint64_t timeout_ms)
{
	struct stop_input in = { .now_ms = loop_now_ms(), .timeout_ms = timeout_ms };

	stop_apply(sv, STOP_EV_LIMIT, &in);
}

void stop_group_expired(void *arg)
{
	stop_post(arg, STOP_EV_DUE);
}

void stop_group_progress(struct supervisor *sv)
{
	if (!worker_list_alive(sv))
		stop_post(sv, STOP_EV_ENDED);
}

static int64_t stop_timeout(struct supervisor *sv)
{
	int64_t t = sv->stop_timeout_ms;

	sv->stop_timeout_ms = SPEC_UNSET;
	return t == SPEC_UNSET ? sv->spec->stop.timeout_ms : t;
}

/* Whether w has ended by itself, but was not reaped yet. */
static bool stop_has_ended(const struct supervisor *sv, const struct worker *w)
{
	siginfo_t si = { 0 };

	return !w->attached &&
	       sv->processes->waitid(P_PID, (id_t)w->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       si.si_pid;
}

static void stop_mark(struct supervisor *sv)
{
	int64_t now = (int64_t)loop_real_us();

	for (int i = 0; i < sv->n_workers; i++) {
		struct worker *w = &sv->workers[i];

		if (!worker_alive(w) || stop_has_ended(sv, w))
			continue;
		if (!w->stop_us) /* else an operator has begun to stop it */
			w->stop_us = now;
		if (!w->stop_signal)
			w->stop_signal = sv->stop_signal;
		worker_set_state(w, WORKER_STOPPING, sv->reason);
	}
}

void stop_group_begin(struct supervisor *sv)
{
	struct stop_input in = {
		.timeout_ms = (uint64_t)stop_timeout(sv),
		.dump = sv->group.goal == GOAL_TIMEOUT && sv->spec->stop.dump_signal,
		.main_only = sv->spec->stop.whom == SPEC_WHOM_MAIN,
	};
	char name[SIGNALS_TEXT_MAX];

	lifecycle_leave(sv, sv->leader.over ? "the leader has ended" : sv->reason);
	FEATURES_CALL(sv, group_stopping, sv, sv->reason);
	in.now_ms = loop_now_ms();
	in.alive = worker_list_alive(sv);
	if (!sv->stop_signal)
		sv->stop_signal = sv->spec->stop.signal;
	if (in.alive) {
		stop_mark(sv);
		log_info("stopping %d workers with %s, %.3f s to go", worker_list_alive(sv),
			signals_name(sv->stop_signal, name), (double)in.timeout_ms / 1000);
	}
	stop_apply(sv, STOP_EV_END, &in);
}
