/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "common/log.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* One line on each end: who, how, after how long. */
static void reap_obituary(struct agent *a, struct task *t)
{
	double seconds = (double)(t->ended_ms - t->started_ms) / 1000;
	bool bad = task_bad_exit(t) && !t->stop_us;

	log_msg(bad ? LOG_WARNING : LOG_INFO, "worker %d (pid %d): %s after %.3f s%s", t->rank,
		(int)t->pid, t->exit.text, seconds, t->stop_us ? ", stopped by the agent" : "");
	events_add(a->events, "worker-ended", a->attempt, t->rank, task_json(t),
		"worker %d (pid %d): %s after %.3f s%s", t->rank, (int)t->pid, t->exit.text,
		seconds, t->stop_us ? ", stopped by the agent" : "");
}

static void reap_task(struct agent *a, struct task *t, const siginfo_t *si)
{
	size_t n;

	t->ended_us = (int64_t)loop_real_us();
	t->ended_ms = loop_now_ms();
	task_set_exit(t, si->si_code, si->si_status);
	agent_oom_text(a, t, t->exit.note, sizeof(t->exit.note));
	n = strlen(t->exit.text);
	snprintf(t->exit.text + n, sizeof(t->exit.text) - n, "%s", t->exit.note);
	reap_obituary(a, t);
	if (t->stop_us)
		task_set_state(t, TASK_STOPPED, t->exit.text);
	else if (task_bad_exit(t))
		task_set_state(t, TASK_FAILED, t->exit.text);
	else
		task_set_state(t, TASK_SUCCEEDED, NULL);
	t->exit_pid = t->pid;
	t->pid = 0;
	logs_task_ended(a->logs, t->local_rank);
}

void agent_reap(struct agent *a)
{
	bool any = false;

	for (;;) {
		siginfo_t si = { .si_pid = 0 };
		struct task *t;

		if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) < 0) {
			if (errno == EINTR)
				continue;
			break;
		}
		if (!si.si_pid)
			break;
		any = true;
		t = agent_task_by_pid(a, si.si_pid);
		if (t)
			reap_task(a, t, &si);
		else if (!logs_child_exited(a->logs, si.si_pid, si.si_status))
			log_debug("reaped pid %d, which a worker had left behind", (int)si.si_pid);
	}
	if (!any)
		return;
	/* All that ended by now is looked at together: who was first is decided by more than the
	 * order in which the kernel tells. */
	if (a->group.state == GROUP_STARTING || a->group.state == GROUP_RUNNING)
		agent_judge(a);
	if (a->in_stop)
		agent_stop_progress(a);
	agent_changed(a);
}
