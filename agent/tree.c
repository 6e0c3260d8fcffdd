/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/tree.h"

#include "common/cleanup.h"
#include "common/proc.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static bool tree_excepted(const struct tree_except *except, const struct proc_stat *p)
{
	for (size_t i = 0; except && i < except->n; i++)
		if (except->pids[i] == p->pid || except->pids[i] == p->ppid)
			return true;
	return false;
}

static bool tree_alive(const struct proc_stat *p)
{
	return p->state != 'Z' && p->state != 'X';
}

int tree_signal(const struct tree_except *except, int signo)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n;
	int sent = 0;
	int r = proc_stat_all(&procs, &n);

	if (r < 0)
		return r;
	n = proc_keep_descendants(procs, n, getpid());
	for (size_t i = 0; i < n; i++) {
		_cleanup_close_ int pidfd = -1;
		struct proc_stat again;

		if (!tree_alive(&procs[i]) || tree_excepted(except, &procs[i]))
			continue;
		/* A grandchild may be gone and its pid a stranger's by now: pin it, look again. */
		pidfd = proc_pidfd(procs[i].pid);
		if (pidfd < 0 || proc_stat_read(procs[i].pid, &again) < 0 ||
			again.start_ticks != procs[i].start_ticks)
			continue;
		if (proc_pidfd_kill(pidfd, signo) == 0)
			sent++;
	}
	return sent;
}

int tree_count(const struct tree_except *except, pid_t *ret_pid, char *ret_comm, bool *ret_stuck)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	size_t n;
	int count = 0;
	int r = proc_stat_all(&procs, &n);

	*ret_stuck = false;
	*ret_pid = 0;
	ret_comm[0] = '\0';
	if (r < 0)
		return r;
	n = proc_keep_descendants(procs, n, getpid());
	for (size_t i = 0; i < n; i++) {
		if (!tree_alive(&procs[i]) || tree_excepted(except, &procs[i]))
			continue;
		if (!count || (procs[i].state == 'D' && !*ret_stuck)) {
			*ret_pid = procs[i].pid;
			*ret_stuck = procs[i].state == 'D';
			memcpy(ret_comm, procs[i].comm, sizeof(procs[i].comm));
		}
		count++;
	}
	return count;
}

bool tree_empty(void)
{
	siginfo_t si;

	return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}
