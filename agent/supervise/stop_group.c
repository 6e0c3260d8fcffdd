/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/process_tree.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "common/base/log.h"
#include "common/base/proc.h"
#include "common/base/signals.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

/*
 * The stop of all workers together, as agent/policy/stop_machine.h decides. When nothing is left,
 * or what is left was given up, the group's machine gets GROUP_EV_GONE, once.
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

static int stop_signal_task(struct agent *a, struct task *t, int signo, enum spec_whom whom)
{
	if (whom == SPEC_WHOM_MAIN)
		return a->processes->kill(t->pid, signo) < 0 ? -errno : 0;
	if (whom == SPEC_WHOM_GROUP)
		return a->processes->kill(-t->pid, signo) < 0 ? -errno : 0;
	return 0;
}

/* The worker and all its descendants that are still below it. */
static int stop_signal_below(struct agent *a, struct task *t, int signo)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n;
	int r = proc_stat_all(&procs, &n);

	if (r < 0)
		return r;
	n = proc_keep_descendants(procs, n, t->pid);
	for (size_t i = 0; i < n; i++)
		(void)proc_kill(&procs[i], signo);
	return a->processes->kill(t->pid, signo) < 0 ? -errno : 0;
}

int agent_signal_task(struct agent *a, struct task *t, int signo, enum spec_whom whom)
{
	int r;

	if (!task_alive(t) || a->opt.alone)
		return -ESRCH;
	r = whom == SPEC_WHOM_ALL ? stop_signal_below(a, t, signo)
				  : stop_signal_task(a, t, signo, whom);
	if (r == -EPERM && features_signal_worker(a, t, signo))
		r = 0;
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

	FEATURES_CALL(a, kill_workers, a);
	/* In a cgroup it is one step that nothing can escape by forking. */
	if (cgroup_kill(a->cgroup) == 0 && cgroup_populated(a->cgroup))
		return;
	for (int i = 0; i < a->n_tasks; i++)
		if (task_alive(&a->tasks[i]))
			(void)a->processes->kill(-a->tasks[i].pid, SIGKILL);
	if (!stop_tree_gone(a))
		tree_kill(&e);
}

static void stop_kill_late(struct agent *a)
{
	int alive = agent_alive(a);

	if (alive) {
		log_warning("%d of %d workers are still there: SIGKILL", alive, a->n_tasks);
		events_add(a->events, "killed", a->attempt, -1, NULL,
			"SIGKILL for %d worker%s that did not end in time", alive,
			alive == 1 ? "" : "s");
	}
	stop_kill_all(a);
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
	agent_post(a, GROUP_EV_GONE);
}

static void stop_send(struct agent *a)
{
	(void)agent_signal_tasks(a, NULL, a->stop_signal, a->spec->stop.whom, NULL);
	/* A worker that somebody has stopped could not act on it. */
	(void)agent_signal_tasks(a, NULL, SIGCONT, a->spec->stop.whom, NULL);
}

static void stop_clean(struct agent *a)
{
	struct tree_except e = stop_except(a);
	int n = tree_signal(&e, a->stop_signal);

	if (n > 0)
		events_add(a->events, "leftovers", a->attempt, -1, NULL,
			"%d processes that workers had started outlived them", n);
}

static void stop_post(struct agent *a, enum stop_event event, const struct stop_input *in);

/* Ends what workers left behind, where there is anything. */
static void stop_act_on_rest(struct agent *a, unsigned actions)
{
	struct stop_input in = { .now_ms = loop_now_ms() };

	if (stop_tree_gone(a))
		stop_post(a, STOP_EV_GONE, &in);
	else if (actions & STOP_DO_CLEAN)
		stop_clean(a);
	else if (actions & STOP_DO_SWEEP)
		stop_kill_all(a);
}

static void stop_act(struct agent *a, unsigned actions)
{
	/* With the stop signal right behind it a worker would end in the middle of its dump. */
	if (actions & STOP_DO_DUMP)
		(void)agent_signal_tasks(a, NULL, a->spec->stop.dump_signal, SPEC_WHOM_MAIN, NULL);
	if (actions & STOP_DO_SEND)
		stop_send(a);
	if (actions & STOP_DO_KILL)
		stop_kill_late(a);
	if (actions & STOP_DO_KILL_MORE)
		stop_kill_all(a);
	if (actions & (STOP_DO_CLEAN | STOP_DO_LOOK | STOP_DO_SWEEP))
		stop_act_on_rest(a, actions);
	if (actions & STOP_DO_FINISH)
		agent_post(a, GROUP_EV_GONE);
	if (actions & (STOP_DO_GIVE_UP | STOP_DO_ABANDON))
		stop_give_up(a);
}

static void stop_post(struct agent *a, enum stop_event event, const struct stop_input *in)
{
	enum stop_state before = a->stop.state;
	unsigned actions = 0;

	if (stop_step(&a->stop, event, in, &actions) < 0)
		log_error("stop event %s cannot happen while %s", stop_event_name(event),
			stop_state_name(before));
	if (a->stop.state == STOP_IDLE)
		loop_timer_disarm(a->stop_timer);
	else
		loop_timer_arm(a->stop_timer,
			a->stop.due_ms > in->now_ms ? a->stop.due_ms - in->now_ms : 0);
	stop_act(a, actions);
}

bool agent_in_stop(const struct agent *a)
{
	return a->stop.state != STOP_IDLE;
}

void agent_stop_kill(struct agent *a)
{
	struct stop_input in = { .now_ms = loop_now_ms() };

	stop_post(a, STOP_EV_KILL, &in);
}

void agent_stop_within(struct agent *a, uint64_t timeout_ms)
{
	struct stop_input in = { .now_ms = loop_now_ms(), .timeout_ms = timeout_ms };

	stop_post(a, STOP_EV_LIMIT, &in);
}

void agent_stop_expired(void *arg)
{
	struct stop_input in = { .now_ms = loop_now_ms() };

	stop_post(arg, STOP_EV_DUE, &in);
}

void agent_stop_progress(struct agent *a)
{
	struct stop_input in = {
		.now_ms = loop_now_ms(),
		.main_only = a->spec->stop.whom == SPEC_WHOM_MAIN,
	};

	if (!agent_alive(a))
		stop_post(a, STOP_EV_ENDED, &in);
}

static int64_t stop_timeout(struct agent *a)
{
	int64_t t = a->stop_timeout_ms;

	a->stop_timeout_ms = SPEC_UNSET;
	return t == SPEC_UNSET ? a->spec->stop.timeout_ms : t;
}

/* It has ended by itself, and is only not reaped yet. */
static bool stop_has_ended(const struct agent *a, const struct task *t)
{
	siginfo_t si = { 0 };

	return !t->attached &&
	       a->processes->waitid(P_PID, (id_t)t->pid, &si, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       si.si_pid;
}

static void stop_mark(struct agent *a)
{
	int64_t now = (int64_t)loop_real_us();

	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];

		if (!task_alive(t) || stop_has_ended(a, t))
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
	struct stop_input in = {
		.timeout_ms = (uint64_t)stop_timeout(a),
		.dump = a->group.goal == GOAL_TIMEOUT && a->spec->stop.dump_signal,
		.main_only = a->spec->stop.whom == SPEC_WHOM_MAIN,
	};
	char name[SIGNALS_TEXT_MAX];

	agent_single_leave(a, a->leader_over ? "the leader has ended" : a->reason);
	FEATURES_CALL(a, group_stopping, a, a->reason);
	in.now_ms = loop_now_ms();
	in.alive = agent_alive(a);
	if (!a->stop_signal)
		a->stop_signal = a->spec->stop.signal;
	if (in.alive) {
		stop_mark(a);
		log_info("stopping %d workers with %s, %.3f s to go", agent_alive(a),
			signals_name(a->stop_signal, name), (double)in.timeout_ms / 1000);
	}
	stop_post(a, STOP_EV_END, &in);
}
