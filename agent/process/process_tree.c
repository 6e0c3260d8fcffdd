/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/process_tree.h"

#include "common/base/cleanup.h"
#include "common/base/proc.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static bool tree_listed(const struct tree_except *except, pid_t pid)
{
	for (size_t i = 0; except && i < except->n; i++)
		if (except->pids[i] == pid)
			return true;
	return false;
}

/* The living descendants in an owned array, without the given processes and their descendants.
 * Returns how many, or a negative errno. */
static int tree_list(const struct tree_except *except, struct proc_stat **ret)
{
	enum { EXCEPTED = '-' };
	struct proc_stat *procs;
	size_t n, kept = 0;
	int r = proc_stat_all(&procs, &n);

	if (r < 0)
		return r;
	n = proc_keep_descendants(procs, n, getpid());
	/* Parents come before their children in the list. */
	for (size_t i = 0; i < n; i++) {
		if (tree_listed(except, procs[i].pid))
			procs[i].state = EXCEPTED;
		for (size_t k = 0; k < i; k++)
			if (procs[k].state == EXCEPTED && procs[k].pid == procs[i].ppid)
				procs[i].state = EXCEPTED;
	}
	for (size_t i = 0; i < n; i++)
		if (procs[i].state != EXCEPTED && !proc_stat_dead(&procs[i]))
			procs[kept++] = procs[i];
	*ret = procs;
	return (int)kept;
}

int tree_signal(const struct tree_except *except, int signo)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	int n = tree_list(except, &procs), sent = 0;

	for (int i = 0; i < n; i++)
		if (proc_kill(&procs[i], signo) == 0)
			sent++;
	return n < 0 ? n : sent;
}

/* Processes forked between listing and signal show up in the next round. A process that does not
 * stop at once (it waits for a disk) has the signal pending. */
void tree_stop(void)
{
	enum { TREE_LOOKS = 8 };
	int going = 1;

	for (int look = 0; look < TREE_LOOKS && going > 0; look++) {
		_cleanup_free_ struct proc_stat *procs = NULL;
		int n = tree_list(NULL, &procs);

		going = 0;
		for (int i = 0; i < n; i++)
			if (procs[i].state != 'T' && procs[i].state != 't' &&
				proc_kill(&procs[i], SIGSTOP) == 0)
				going++;
	}
}

int tree_count(const struct tree_except *except, pid_t *ret_pid, char *ret_comm, bool *ret_stuck)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	int n = tree_list(except, &procs);

	*ret_stuck = false;
	*ret_pid = 0;
	ret_comm[0] = '\0';
	for (int i = 0; i < n; i++) {
		if (i && (procs[i].state != 'D' || *ret_stuck))
			continue;
		*ret_pid = procs[i].pid;
		*ret_stuck = procs[i].state == 'D';
		memcpy(ret_comm, procs[i].comm, sizeof(procs[i].comm));
	}
	return n;
}

bool tree_empty(void)
{
	siginfo_t si;

	return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
}

/*
 * The direct children, dead or alive, as the kernel lists them; NULL where it does not. All
 * children present at the start are in it, as long as nothing is reaped.
 */
static FILE *tree_children(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)gettid());
	return fopen(path, "re");
}

bool tree_gone(const struct tree_except *except)
{
	_cleanup_file_ FILE *f = NULL;
	char comm[17];
	bool stuck;
	pid_t pid;

	if (tree_empty())
		return true;
	if (!except || !except->n)
		return false;
	f = tree_children();
	if (!f) /* a walk may miss a process that forks and ends; two walks in a row seldom do */
		return !tree_count(except, &pid, comm, &stuck) &&
		       !tree_count(except, &pid, comm, &stuck);
	while (fscanf(f, "%d", &pid) == 1)
		if (!tree_listed(except, pid))
			return false;
	return true;
}

void tree_kill(const struct tree_except *except)
{
	_cleanup_file_ FILE *f = tree_children();
	pid_t pid;

	/* Children first: they cannot vanish before they are reaped, and this is fast enough to
	 * catch a chain of processes that each fork once and end. */
	while (f && fscanf(f, "%d", &pid) == 1)
		if (!tree_listed(except, pid))
			kill(pid, SIGKILL);
	(void)tree_signal(except, SIGKILL);
}
