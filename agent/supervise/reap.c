/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/feature.h"
#include "agent/supervise/orphans.h"
#include "agent/supervise/supervisor.h"
#include "common/base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { REAP_BATCH = 128 };

/* Whose doing it was. Also while all are stopped a worker may fail by itself. */
static const char *reap_by(const struct task *t)
{
	if (!t->stop_signal)
		return "";
	return task_ended_by_agent(t) || !task_bad_exit(t) ? ", stopped by the agent"
							   : ", while it was being stopped";
}

/* One line on each end: who, how, after how long. */
static void reap_obituary(struct agent *a, struct task *t)
{
	double seconds = (double)(t->ended_ms - t->started_ms) / 1000;
	bool agreed = a->on_notice && t->exit.code == agent_preempted_status(a);
	bool bad = task_complaint(t) || (task_bad_exit(t) && !agreed);

	log_msg(bad && !t->stop_us ? LOG_WARNING : LOG_INFO, "%s (pid %d): %s after %.3f s%s",
		task_called(t), (int)t->exit_pid, t->exit.text, seconds, reap_by(t));
	events_add(a->events, "worker-ended", a->attempt, t->rank, task_json(t),
		"%s (pid %d): %s after %.3f s%s", task_called(t), (int)t->exit_pid, t->exit.text,
		seconds, reap_by(t));
}

/* What its end makes of it; a person's word, then the task's own, then how it was ended. */
static enum task_state reap_state(const struct task *t, bool left)
{
	if (t->on_purpose)
		return agent_single_starts(t) ? TASK_WAITING : TASK_STOPPED;
	if (task_complaint(t))
		return TASK_FAILED;
	if (t->stop_us || left)
		return TASK_STOPPED;
	return task_bad_exit(t) ? TASK_FAILED : TASK_SUCCEEDED;
}

void agent_task_ended(struct agent *a, struct task *t, int code, int status)
{
	enum task_state state;
	char left[64] = "", reason[200];
	size_t n;

	t->ended_us = (int64_t)loop_real_us();
	t->ended_ms = loop_now_ms();
	task_set_exit(t, code, status);
	agent_oom_text(a, t, t->exit.note, sizeof(t->exit.note));
	n = strlen(t->exit.text);
	snprintf(t->exit.text + n, sizeof(t->exit.text) - n, "%s", t->exit.note);
	FEATURES_CALL(a, worker_left, a, t, left, sizeof(left));
	state = reap_state(t, left[0]);
	if (state == TASK_WAITING) {
		t->on_purpose = false;
		t->forgiven = true;
	}
	if (state == TASK_SUCCEEDED)
		t->relapsing = false;
	/* Who left as it was asked to has not failed, whatever its exit code. */
	t->forgiven = t->forgiven || left[0];
	snprintf(reason, sizeof(reason), left[0] ? "%s (%s)" : "%s%s", left, t->exit.text);
	task_set_state(t, state, state == TASK_SUCCEEDED ? NULL : reason);
	t->exit_pid = t->pid;
	t->pid = 0;
	FEATURES_CALL(a, worker_exited, a, t);
	/* Whoever waits for it is told before that is written down: a disk, or who reads the log,
	 * may take its time. */
	FEATURES_CALL(a, flush, a);
	reap_obituary(a, t);
	FEATURES_CALL(a, worker_end_told, a, t, left);
	t->logs_due = true;
}

/* Giving back what was reserved for a log file can take a disk milliseconds: whoever waits for
 * somebody who has ended is told before. */
static void reap_logs(struct agent *a)
{
	FEATURES_CALL(a, flush, a);
	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];

		if (t->logs_due)
			logs_task_ended(a->logs, t->local_rank);
		t->logs_due = false;
	}
}

/* All that ended by now is looked at together: who was first is decided by more than the order in
 * which the kernel tells. */
void agent_ends_seen(struct agent *a)
{
	reap_logs(a);
	leftovers_begin(a);
	agent_judge(a);
	agent_single_progress(a);
	leftovers_end(a);
	if (agent_in_stop(a))
		agent_stop_progress(a);
	agent_changed(a);
}

size_t agent_helpers(struct agent *a, pid_t *pids, size_t max)
{
	const pid_t *logs;
	size_t n_logs, n = 0;

	logs_helpers(a->logs, &logs, &n_logs);
	while (n < n_logs && n < max) {
		pids[n] = logs[n];
		n++;
	}
	return n + features_helper_pids(a, pids + n, max - n);
}

/* Those that have ended by now, up to REAP_BATCH. */
static int reap_batch(struct agent *a, siginfo_t *ends)
{
	int n = 0;

	while (n < REAP_BATCH) {
		siginfo_t *si = &ends[n];

		si->si_pid = 0;
		if (a->processes->waitid(P_ALL, 0, si, WEXITED | WNOHANG) < 0) {
			if (errno == EINTR)
				continue;
			break;
		}
		if (!si->si_pid)
			break;
		n++;
	}
	return n;
}

static bool reap_any_task(struct agent *a, const siginfo_t *ends, int n)
{
	for (int i = 0; i < n; i++)
		if (agent_task_by_pid(a, ends[i].si_pid))
			return true;
	return false;
}

void agent_reap(struct agent *a)
{
	siginfo_t ends[REAP_BATCH];
	bool any = false;
	int n;

	agent_settle(a);
	do {
		n = reap_batch(a, ends);
		/* Once for many that end together, and after the last of them wrote its last. */
		if (reap_any_task(a, ends, n))
			FEATURES_CALL(a, before_reap, a);
		for (int i = 0; i < n; i++) {
			const siginfo_t *si = &ends[i];
			struct task *t = agent_task_by_pid(a, si->si_pid);

			/* A helper of a feature tells nobody but that. */
			if (!t && features_child_exited(a, si))
				continue;
			any = true;
			if (t)
				agent_task_ended(a, t, si->si_code, si->si_status);
			else if (!logs_child_exited(a->logs, si->si_pid, si->si_status))
				log_debug("reaped pid %d, which a worker had left behind",
					(int)si->si_pid);
		}
	} while (n == REAP_BATCH);
	if (any)
		agent_ends_seen(a);
}
