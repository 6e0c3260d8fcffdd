/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "agent/attach.h"
#include "agent/dispatch_group.h"
#include "agent/tree.h"
#include "agent/workers.h"
#include "common/log.h"
#include "common/proc.h"
#include "common/ranks.h"
#include "common/signals.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/*
 * A stop in four steps, each event-driven: the stop signal to every worker, one deadline for all;
 * SIGKILL at the deadline; what workers left behind gets the same within a short time of its own;
 * what does not even die of SIGKILL is reported and given up. GONE is posted once, at the end.
 */

enum { STOP_HELPERS = 64 };

/* Helper processes of the agent that must live through a stop. */
static struct tree_except stop_except(struct agent *a)
{
	static pid_t pids[STOP_HELPERS];

	return (struct tree_except){ .pids = pids, .n = agent_helpers(a, pids, STOP_HELPERS) };
}

static bool stop_tree_gone(struct agent *a)
{
	struct tree_except e = stop_except(a);

	return tree_gone(&e);
}

static int stop_signal_task(struct task *t, int signo, enum spec_whom whom)
{
	if (whom == SPEC_WHOM_MAIN)
		return kill(t->pid, signo) < 0 ? -errno : 0;
	if (whom == SPEC_WHOM_GROUP)
		return kill(-t->pid, signo) < 0 ? -errno : 0;
	return 0;
}

/* The worker and all its descendants that are still below it. */
static int stop_signal_below(struct task *t, int signo)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n;
	int r = proc_stat_all(&procs, &n);

	if (r < 0)
		return r;
	n = proc_keep_descendants(procs, n, t->pid);
	for (size_t i = 0; i < n; i++)
		(void)proc_kill(&procs[i], signo);
	return kill(t->pid, signo) < 0 ? -errno : 0;
}

int agent_signal_task(struct agent *a, struct task *t, int signo, enum spec_whom whom)
{
	int r;

	if (!task_alive(t))
		return -ESRCH;
	r = whom == SPEC_WHOM_ALL ? stop_signal_below(t, signo) : stop_signal_task(t, signo, whom);
	if (r == -EPERM && t->attached) {
		attach_hand_on(a, t, signo);
		r = 0;
	}
	return r;
}

int agent_signal_tasks(
	struct agent *a, const char *ranks_text, int signo, enum spec_whom whom, struct error *err)
{
	_cleanup_(ranks_fini) struct ranks ranks = { 0 };
	int sent = 0, r, missing;

	if (ranks_text) {
		r = ranks_parse(&ranks, ranks_text, "ranks", err);
		if (r < 0)
			return r;
		missing = ranks_next(&ranks, a->n_tasks - 1);
		if (missing >= 0) {
			error_set(err, -ENOENT, "there is no worker %d", missing);
			snprintf(err->field, sizeof(err->field), "%d", missing);
			return -ENOENT;
		}
	}
	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];

		if (!task_alive(t) || (ranks_text && !ranks_contains(&ranks, t->rank)))
			continue;
		if (!agent_signal_task(a, t, signo, whom))
			sent++;
	}
	return sent;
}

static void stop_kill_all(struct agent *a)
{
	struct tree_except e = stop_except(a);

	/* A task in a caller's terminal is no child of the agent, nor in its cgroup. */
	attach_kill(a);
	/* In a cgroup it is one step that nothing can escape by forking. */
	if (cgroup_kill(a->cgroup) == 0 && cgroup_populated(a->cgroup))
		return;
	for (int i = 0; i < a->n_tasks; i++)
		if (task_alive(&a->tasks[i]))
			kill(-a->tasks[i].pid, SIGKILL);
	if (!stop_tree_gone(a))
		tree_kill(&e);
}

static void stop_gone(struct agent *a)
{
	loop_timer_disarm(a->stop_timer);
	a->in_stop = false;
	agent_post(a, GROUP_EV_GONE);
}

void agent_stop_kill(struct agent *a)
{
	int alive = agent_alive(a);

	if (!a->in_stop)
		return;
	if (alive && !a->killing) {
		log_warning("%d of %d workers are still there: SIGKILL", alive, a->n_tasks);
		events_add(a->events, "killed", a->attempt, -1, NULL,
			"%d workers did not end in time and get SIGKILL", alive);
	}
	a->killing = true;
	stop_kill_all(a);
	loop_timer_arm(a->stop_timer, AGENT_GIVE_UP_MS);
}

static void stop_stuck(struct agent *a, int n, pid_t pid, const char *comm, bool in_d)
{
	char text[160];
	size_t n_then = strlen(a->then);

	snprintf(text, sizeof(text), "process %d (%s) %s%s; it is given up", (int)pid, comm,
		in_d ? "is in uninterruptible sleep and does not die"
		     : "does not go away after SIGKILL",
		n > 1 ? ", and others with it" : "");
	/* Beside what ended the group, not in its place. */
	agent_set_reason(a, "%s%s%s", a->reason, a->reason[0] ? "; " : "", text);
	if (n_then)
		snprintf(a->then + n_then, sizeof(a->then) - n_then, "; %s", text);
	log_error("%s", text);
	events_add(a->events, "stuck", a->attempt, -1,
		json_pack("{s:i, s:i}", "pid", (int)pid, "processes", n), "%s", text);
	agent_post(a, GROUP_EV_STUCK);
}

static void stop_give_up(struct agent *a)
{
	struct tree_except e = stop_except(a);
	char comm[17];
	pid_t pid;
	bool in_d;
	int n = tree_count(&e, &pid, comm, &in_d);

	if (n > 0)
		stop_stuck(a, n, pid, comm, in_d);
	for (int i = 0; i < a->n_tasks; i++)
		if (task_alive(&a->tasks[i])) {
			task_set_state(&a->tasks[i], TASK_FAILED, "does not die of SIGKILL");
			a->tasks[i].pid = 0;
		}
	stop_gone(a);
}

/* The stop signal, and the rest of the time for it. */
static void stop_send(struct agent *a)
{
	uint64_t now = loop_now_ms();

	a->dumping = false;
	(void)agent_signal_tasks(a, NULL, a->stop_signal, a->spec->stop.whom, NULL);
	/* A worker that somebody has stopped could not act on it. */
	(void)agent_signal_tasks(a, NULL, SIGCONT, a->spec->stop.whom, NULL);
	if (a->stop_deadline_ms <= now)
		agent_stop_kill(a);
	else
		loop_timer_arm(a->stop_timer, a->stop_deadline_ms - now);
}

void agent_stop_within(struct agent *a, uint64_t timeout_ms)
{
	uint64_t armed = timeout_ms;

	if (!a->in_stop || a->killing)
		return;
	a->stop_deadline_ms = loop_now_ms() + timeout_ms;
	/* Dumping and leftovers have shorter limits of their own, which hold. */
	if (a->dumping && armed > AGENT_DUMP_MS)
		armed = AGENT_DUMP_MS;
	if (a->leftovers && armed > AGENT_LEFTOVER_MS)
		armed = AGENT_LEFTOVER_MS;
	loop_timer_arm(a->stop_timer, armed);
}

void agent_stop_expired(void *arg)
{
	struct agent *a = arg;

	if (a->killing)
		stop_give_up(a);
	else if (a->dumping)
		stop_send(a);
	else
		agent_stop_kill(a);
}

/* All workers are gone, but not what they had started. */
static void stop_leftovers(struct agent *a)
{
	struct tree_except e = stop_except(a);
	uint64_t now = loop_now_ms();
	uint64_t left = a->stop_deadline_ms > now ? a->stop_deadline_ms - now : 0;
	int n;

	a->leftovers = true;
	if (a->killing || a->spec->stop.whom == SPEC_WHOM_MAIN || !left) {
		agent_stop_kill(a);
		return;
	}
	n = tree_signal(&e, a->stop_signal);
	if (n > 0)
		events_add(a->events, "leftovers", a->attempt, -1, NULL,
			"%d processes that workers had started outlived them", n);
	loop_timer_arm(a->stop_timer, left < AGENT_LEFTOVER_MS ? left : AGENT_LEFTOVER_MS);
}

void agent_stop_progress(struct agent *a)
{
	if (agent_alive(a))
		return;
	if (stop_tree_gone(a))
		stop_gone(a);
	else if (!a->leftovers)
		stop_leftovers(a);
	else if (a->killing)
		stop_kill_all(a); /* what was forked meanwhile */
}

static int64_t stop_timeout(struct agent *a)
{
	int64_t t = a->stop_timeout_ms;

	a->stop_timeout_ms = SPEC_UNSET;
	return t == SPEC_UNSET ? a->spec->stop.timeout_ms : t;
}

/* It has ended by itself, and is only not reaped yet. */
static bool stop_has_ended(const struct task *t)
{
	siginfo_t si = { 0 };

	return !t->attached && waitid(P_PID, (id_t)t->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       si.si_pid;
}

static void stop_mark(struct agent *a)
{
	int64_t now = (int64_t)loop_real_us();

	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];

		if (!task_alive(t) || stop_has_ended(t))
			continue;
		if (!t->stop_us) /* else a person was first */
			t->stop_us = now;
		if (!t->stop_signal)
			t->stop_signal = a->stop_signal;
		task_set_state(t, TASK_STOPPING, a->reason);
	}
}

void agent_stop_tasks(struct agent *a)
{
	int64_t timeout = stop_timeout(a);
	char name[SIGNALS_TEXT_MAX];

	agent_single_leave(a, a->leader_over ? "the leader has ended" : a->reason);
	workers_stopping(a, a->reason);
	dispatch_stopping(a);
	attach_stopping(a, NULL, a->reason);
	a->in_stop = true;
	a->killing = a->leftovers = a->dumping = false;
	a->stop_deadline_ms = loop_now_ms() + (uint64_t)timeout;
	if (!a->stop_signal)
		a->stop_signal = a->spec->stop.signal;
	if (!agent_alive(a)) {
		agent_stop_progress(a);
		return;
	}
	stop_mark(a);
	log_info("stopping %d workers with %s, %.3f s to go", agent_alive(a),
		signals_name(a->stop_signal, name), (double)timeout / 1000);
	if (a->group.goal != GOAL_TIMEOUT || !a->spec->stop.dump_signal) {
		stop_send(a);
		return;
	}
	/* Two signals at once, and the second one would end the worker in the middle of its dump.
	 */
	(void)agent_signal_tasks(a, NULL, a->spec->stop.dump_signal, SPEC_WHOM_MAIN, NULL);
	a->dumping = true;
	/* A short deadline is shared by both signals. */
	loop_timer_arm(
		a->stop_timer, timeout / 2 < AGENT_DUMP_MS ? (uint64_t)timeout / 2 : AGENT_DUMP_MS);
}
