/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/feature.h"
#include "agent/supervise/orphans.h"
#include "agent/supervise/private.h"
#include "common/base/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

enum { REAP_BATCH = 128 };

/* For people: whether the agent ended it. A worker may also fail by itself during a stop. */
static const char *reap_stopped_text(const struct worker *w)
{
	if (!w->stop_signal)
		return "";
	return worker_ended_by_agent(w) || !worker_bad_exit(w) ? ", stopped by the agent"
							       : ", while it was being stopped";
}

/* One line about each end: which worker, how, after how long. */
static void reap_obituary(struct supervisor *sv, struct worker *w)
{
	double seconds = (double)(w->ended_ms - w->started_ms) / 1000;
	bool agreed = sv->on_notice && w->exit.code == supervisor_preempted_status(sv);
	bool bad = worker_complaint(w) || (worker_bad_exit(w) && !agreed);
	json_t *data = worker_json(w);

	FEATURES_CALL(sv, describe_end, sv, w, data);
	supervisor_report(sv, bad && !w->stop_us ? LOG_WARNING : LOG_INFO, "worker-ended", w->rank,
		data, "%s (pid %d): %s after %.3f s%s", worker_name(w), (int)w->exit_pid,
		w->exit.text, seconds, reap_stopped_text(w));
}

/* The state after its end. An operator's request counts most, then a failure that the worker or the
 * agent reported, then the way its process ended. */
static enum worker_state reap_state(const struct worker *w, bool left)
{
	if (w->on_purpose)
		return lifecycle_starts(w) ? WORKER_WAITING : WORKER_STOPPED;
	if (worker_complaint(w))
		return WORKER_FAILED;
	if (w->stop_us || left)
		return WORKER_STOPPED;
	return worker_bad_exit(w) ? WORKER_FAILED : WORKER_SUCCEEDED;
}

void reap_worker_ended(struct supervisor *sv, struct worker *w, int code, int status)
{
	enum worker_state state;
	char left[64] = "", reason[200];

	w->ended_us = (int64_t)loop_real_us();
	w->ended_ms = loop_now_ms();
	worker_set_exit(w, code, status);
	supervisor_note_oom(sv, w);
	FEATURES_CALL(sv, worker_end_known, sv, w);
	FEATURES_CALL(sv, worker_left, sv, w, left, sizeof(left));
	state = reap_state(w, left[0]);
	if (state == WORKER_WAITING) {
		w->on_purpose = false;
		w->end_handled = true;
	}
	if (state == WORKER_SUCCEEDED)
		w->failed_before = false;
	/* A worker that left as it was asked to has not failed, whatever its exit code. */
	w->end_handled = w->end_handled || left[0];
	snprintf(reason, sizeof(reason), left[0] ? "%s (%s)" : "%s%s", left, w->exit.text);
	worker_set_state(w, state, state == WORKER_SUCCEEDED ? NULL : reason);
	w->exit_pid = w->pid;
	w->pid = 0;
	FEATURES_CALL(sv, worker_exited, sv, w);
	/* Send the answers to waiting callers before the log lines, which a disk or a slow reader
	 * may delay. */
	FEATURES_CALL(sv, flush, sv);
	reap_obituary(sv, w);
	FEATURES_CALL(sv, worker_end_reported, sv, w, left);
	w->logs_due = true;
}

/* Releasing the space reserved for a log file can take a disk milliseconds: sends the answers to
 * waiting callers first. */
static void reap_logs(struct supervisor *sv)
{
	FEATURES_CALL(sv, flush, sv);
	for (int i = 0; i < sv->n_workers; i++) {
		struct worker *w = &sv->workers[i];

		if (w->logs_due)
			logs_worker_ended(sv->logs, w->local_rank);
		w->logs_due = false;
	}
}

/* Handles all ends seen so far together: the order in which the kernel reports them does not decide
 * which worker failed first. */
void reap_ends_seen(struct supervisor *sv)
{
	reap_logs(sv);
	orphans_begin(sv);
	apply_decisions(sv);
	lifecycle_progress(sv);
	orphans_end(sv);
	if (stop_group_active(sv))
		stop_group_progress(sv);
	supervisor_changed(sv);
}

size_t reap_helpers(struct supervisor *sv, pid_t *pids, size_t max)
{
	size_t n = logs_helper_pids(sv->logs, pids, max);

	return n + features_helper_pids(sv, pids + n, max - n);
}

/* Reaps children that have ended, at most REAP_BATCH. Returns how many. */
static int reap_batch(struct supervisor *sv, siginfo_t *ends)
{
	int n = 0;

	while (n < REAP_BATCH) {
		siginfo_t *si = &ends[n];

		si->si_pid = 0;
		if (sv->processes->waitid(P_ALL, 0, si, WEXITED | WNOHANG) < 0) {
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

static bool reap_any_worker(struct supervisor *sv, const siginfo_t *ends, int n)
{
	bool any = false;

	sv->sigkilled = 0;
	for (int i = 0; i < n; i++)
		if (worker_list_by_pid(sv, ends[i].si_pid)) {
			any = true;
			sv->sigkilled +=
				ends[i].si_code == CLD_KILLED && ends[i].si_status == SIGKILL;
		}
	return any;
}

void reap_children(struct supervisor *sv)
{
	siginfo_t ends[REAP_BATCH];
	bool any = false;
	int n;

	supervisor_settle(sv);
	do {
		n = reap_batch(sv, ends);
		/* Once for all workers that end together, when the last of them can write no more.
		 */
		if (reap_any_worker(sv, ends, n))
			FEATURES_CALL(sv, before_reap, sv);
		for (int i = 0; i < n; i++) {
			const siginfo_t *si = &ends[i];
			struct worker *w = worker_list_by_pid(sv, si->si_pid);

			/* The end of a feature's helper concerns only that feature. */
			if (!w && FEATURES_ANY(sv, child_exited, sv, si))
				continue;
			any = true;
			if (w)
				reap_worker_ended(sv, w, si->si_code, si->si_status);
			else if (!logs_child_exited(sv->logs, si->si_pid, si->si_status))
				log_debug("reaped pid %d, which a worker had left behind",
					(int)si->si_pid);
		}
	} while (n == REAP_BATCH);
	if (any)
		reap_ends_seen(sv);
}
