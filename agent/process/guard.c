/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/guard.h"

#include "agent/process/fence.h"
#include "agent/process/last_error.h"
#include "agent/process/process_tree.h"
#include "common/base/clock.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GUARD_WAIT_S = 10, GUARD_LAST_S = 1, GUARD_FDS_MAX = 4096 };

static pid_t guard_pid; /* in the agent proper */

/* Kills all descendants until none is left, for at most wait_s: some processes do not die. Returns
 * whether none is left. */
static bool guard_clean(struct cgroup *cgroup, int wait_s)
{
	const struct timespec tick = { .tv_nsec = 20000000 };
	uint64_t end_ms = monotonic_ms() + (uint64_t)wait_s * 1000;
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		siginfo_t si = { .si_pid = 0 };

		while (waitid(P_ALL, 0, &si, WEXITED | WNOHANG) == 0 && si.si_pid)
			si.si_pid = 0;
		if (tree_empty())
			return true;
		cgroup_kill(cgroup);
		tree_kill(NULL);
		if (monotonic_ms() >= end_ms) {
			char comm[17];
			bool stuck;
			pid_t pid;
			int n = tree_count(NULL, &pid, comm, &stuck);

			log_error(
				"%d processes do not die of SIGKILL and are given up, among them %d (%s)%s",
				n, (int)pid, comm, stuck ? " in uninterruptible sleep" : "");
			return false;
		}
		/* A death ends the wait early. The time limit is short for processes that fork
		 * faster than they die. */
		sigtimedwait(&chld, NULL, &tick);
	}
}

static void guard_close(int keep_fd)
{
	if (keep_fd > 3)
		close_range(3, (unsigned)keep_fd - 1, 0);
	close_range(keep_fd >= 3 ? (unsigned)keep_fd + 1 : 3, ~0U, 0);
}

/* Stops this process until SIGCONT. The kernel does not stop a process that no shell could continue
 * (its process group is orphaned). */
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
	/* The process was stopped here. */
	sigprocmask(SIG_BLOCK, &stop, NULL);
	while (sigtimedwait(&cont, NULL, &now) == SIGCONT)
		;
}

/* Handles SIGTSTP and the agent's answer. Returns true while the agent is stopping the workers. */
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

/* True for signals that the guard passes on: not those of job control, terminals, or its own. */
static bool guard_hands_on(int signo)
{
	return signo != SIGTSTP && signo != SIGTTIN && signo != SIGTTOU && signo != SIGPIPE &&
	       signo != SIGCONT && signo != SIGWINCH && signo != GUARD_DIED_SIGNAL &&
	       signo != GUARD_SUSPENDED_SIGNAL && signo != GUARD_LEFT_SIGNAL &&
	       signo != GUARD_FENCE_SIGNAL;
}

/* Waits for a signal. Where workers may live only until a deadline, and the agent has let that
 * pass, kills them first. */
static int guard_wait(pid_t agent, struct cgroup *cgroup, const sigset_t *signals, siginfo_t *ret)
{
	int64_t left;

	while (!(left = fence_left_ms())) {
		cgroup_reopen(cgroup);
		if (!fence_left_ms()) /* the agent may have gone on meanwhile */
			cgroup_kill(cgroup);
		cgroup_close(cgroup);
		fence_kill(agent);
	}
	if (left < 0)
		return sigwaitinfo(signals, ret);
	return sigtimedwait(signals, ret,
		&(struct timespec){ .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 });
}

/* Returns the agent's exit status once it has ended or called guard_leave(); negative: the signal.
 */
static int guard_watch(pid_t agent, struct cgroup *cgroup, bool foreground)
{
	bool asked = false;
	sigset_t all;

	sigfillset(&all);
	for (;;) {
		siginfo_t si = { 0 };
		int signo = guard_wait(agent, cgroup, &all, &si);

		if (signo < 0)
			continue;
		if (foreground && (signo == SIGTSTP || signo == GUARD_SUSPENDED_SIGNAL))
			asked = guard_job_control(agent, &si, asked);
		if (signo == GUARD_LEFT_SIGNAL && si.si_pid == agent)
			return si.si_value.sival_int;
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

/* Notes how the agent died, for elasticd, which only sees that it is gone, and for the next agent.
 */
static void guard_note_death(pid_t agent, int signo, const char *state_dir)
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
	int status = job->fence ? fence_make() : 0;

	if (status < 0)
		return status;
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
		/* The agent gets a process group of its own: a terminal's Ctrl-C then reaches the
		 * guard alone, which passes it on once. */
		setpgid(0, 0);
		guard_pid = guard;
		return 0;
	}
	setpgid(pid, pid);
	prctl(PR_SET_NAME, "elastic-guard");
	cgroup_close(cgroup);
	guard_close(job->keep_fd);
	status = guard_watch(pid, cgroup, job->foreground);
	if (status < 0)
		guard_note_death(pid, -status, job->state_dir);
	cgroup_reopen(cgroup);
	/* An agent that ended by itself has waited for its descendants already. */
	if (guard_clean(cgroup, status < 0 ? GUARD_WAIT_S : GUARD_LAST_S) && status < 0)
		fence_say_last_word();
	cgroup_free(cgroup);
	if (job->dir)
		(void)!file_rm_rf(job->dir);
	exit(status < 0 ? 125 : status);
}

bool guard_gone(void)
{
	return guard_pid && getppid() != guard_pid;
}

static bool guard_shares(int fd)
{
	socklen_t len = sizeof(int);
	int type;

	return fcntl(fd, F_GETPIPE_SZ) >= 0 ||
	       getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0;
}

void guard_leave(int status, int lock_fd)
{
	/* The hanging thread shares the descriptors. Close pipes and sockets, so that their readers
	 * see the end; others may be files on the file system that hangs. */
	for (int fd = 0; fd < GUARD_FDS_MAX; fd++)
		if (guard_shares(fd))
			close(fd);
	close_fd(lock_fd);
	if (!guard_gone())
		sigqueue(guard_pid, GUARD_LEFT_SIGNAL, (union sigval){ .sival_int = status });
}

void guard_fence(uint64_t deadline_ms)
{
	if (fence_set(deadline_ms) && !guard_gone())
		kill(guard_pid, GUARD_FENCE_SIGNAL);
}

void guard_suspended(void)
{
	if (!guard_gone())
		kill(guard_pid, GUARD_SUSPENDED_SIGNAL);
}
