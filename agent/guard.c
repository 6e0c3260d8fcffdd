/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/guard.h"

#include "agent/last_error.h"
#include "agent/tree.h"
#include "common/file.h"
#include "common/log.h"
#include "common/signals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GUARD_WAIT_S = 10, GUARD_LAST_S = 1 };

static pid_t guard_pid; /* in the agent proper */

/* Kills whatever is below, until nothing is, or for wait_s: some processes do not die. */
static void guard_clean(struct cgroup *cgroup, int wait_s)
{
	struct timespec end, now, tick = { .tv_nsec = 20000000 };
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += wait_s;
	for (;;) {
		siginfo_t si = { .si_pid = 0 };

		while (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) == 0 && si.si_pid)
			si.si_pid = 0;
		if (tree_empty())
			return;
		cgroup_kill(cgroup);
		tree_kill(NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec >= end.tv_sec) {
			char comm[17];
			bool stuck;
			pid_t pid;
			int n = tree_count(NULL, &pid, comm, &stuck);

			log_error(
				"%d processes do not die of SIGKILL and are given up, among them %d (%s)%s",
				n, (int)pid, comm, stuck ? " in uninterruptible sleep" : "");
			return;
		}
		/* A death wakes this; the short limit is for what forks faster than it dies. */
		sigtimedwait(&chld, NULL, &tick);
	}
}

static void guard_close(int keep_fd)
{
	if (keep_fd > 3)
		close_range(3, (unsigned)keep_fd - 1, 0);
	close_range(keep_fd >= 3 ? (unsigned)keep_fd + 1 : 3, ~0U, 0);
}

/* Stops until somebody continues this process. The kernel does not stop one that no shell could
 * continue (its process group is orphaned). */
static void guard_stop(void)
{
	const struct timespec now = { 0 };
	sigset_t stop, cont;

	sigemptyset(&stop);
	sigaddset(&stop, SIGTSTP);
	sigemptyset(&cont);
	sigaddset(&cont, SIGCONT);
	signal(SIGTSTP, SIG_DFL);
	raise(SIGTSTP);
	sigprocmask(SIG_UNBLOCK, &stop, NULL);
	/* Here it stands still. */
	sigprocmask(SIG_BLOCK, &stop, NULL);
	while (sigtimedwait(&cont, NULL, &now) == SIGCONT)
		;
}

/* SIGTSTP, and what comes of it. Returns whether the agent is about to stand still. */
static bool guard_job_control(pid_t agent, const siginfo_t *si, bool asked)
{
	if (si->si_signo == SIGTSTP) {
		if (!asked)
			kill(agent, SIGTSTP);
		return true;
	}
	if (si->si_pid != agent)
		return asked;
	guard_stop();
	kill(agent, SIGCONT);
	return false;
}

/* Job control and terminal trouble are not the agent's. */
static bool guard_hands_on(int signo)
{
	return signo != SIGTSTP && signo != SIGTTIN && signo != SIGTTOU && signo != SIGPIPE &&
	       signo != SIGCONT && signo != SIGWINCH && signo != GUARD_DIED_SIGNAL &&
	       signo != GUARD_STILL_SIGNAL;
}

/* Returns the exit status once the agent has ended. */
static int guard_watch(pid_t agent, bool foreground)
{
	bool asked = false;
	sigset_t all;

	sigfillset(&all);
	for (;;) {
		siginfo_t si = { 0 };
		int signo = sigwaitinfo(&all, &si);

		if (signo < 0)
			continue;
		if (foreground && (signo == SIGTSTP || signo == GUARD_STILL_SIGNAL))
			asked = guard_job_control(agent, &si, asked);
		if (signo != SIGCHLD) {
			if (guard_hands_on(signo))
				kill(agent, signo);
			continue;
		}
		for (;;) {
			si.si_pid = 0;
			if (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) < 0 || !si.si_pid)
				break;
			if (si.si_pid != agent)
				continue;
			if (si.si_code == CLD_EXITED)
				return si.si_status;
			return -si.si_status;
		}
	}
}

/* For elasticd, which sees no more than that it has gone, and for the next agent. */
static void guard_tell(pid_t agent, int signo, const char *state_dir)
{
	char name[SIGNALS_TEXT_MAX], text[96];

	snprintf(text, sizeof(text), "the agent (pid %d) was killed by %s", (int)agent,
		signals_name(signo, name));
	log_error("%s: ending what it left", text);
	last_error_save(state_dir, text);
}

int guard_fork(struct cgroup *cgroup, const struct guard_job *job, sigset_t *ret_mask)
{
	pid_t guard = getpid();
	sigset_t all;
	pid_t pid;
	int status;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, ret_mask);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid = fork();
	if (pid < 0)
		return -errno;
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, GUARD_DIED_SIGNAL);
		prctl(PR_SET_CHILD_SUBREAPER, 1);
		prctl(PR_SET_NAME, "elastic-agent");
		if (getppid() != guard)
			_exit(125);
		/* A group of its own: a terminal's Ctrl-C reaches the guard alone, which hands it
		 * on, so that one stroke is one signal. */
		setpgid(0, 0);
		guard_pid = guard;
		return 0;
	}
	setpgid(pid, pid);
	prctl(PR_SET_NAME, "elastic-guard");
	cgroup_close(cgroup);
	guard_close(job->keep_fd);
	status = guard_watch(pid, job->foreground);
	if (status < 0)
		guard_tell(pid, -status, job->state_dir);
	cgroup_reopen(cgroup);
	/* An agent that ended by itself has waited for them already. */
	guard_clean(cgroup, status < 0 ? GUARD_WAIT_S : GUARD_LAST_S);
	cgroup_free(cgroup);
	if (job->dir)
		(void)!file_rm_rf(job->dir);
	exit(status < 0 ? 125 : status);
}

bool guard_gone(void)
{
	return guard_pid && getppid() != guard_pid;
}

void guard_stands_still(void)
{
	if (!guard_gone())
		kill(guard_pid, GUARD_STILL_SIGNAL);
}
