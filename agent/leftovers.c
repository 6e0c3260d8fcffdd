/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/leftovers.h"

#include "common/proc.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

enum { LEFTOVERS_HELPERS = 64 };

enum mark { MARK_NONE, MARK_OTHERS, MARK_MINE, MARK_UNSURE };

struct look {
	struct agent *a;
	const struct task *t;
	char *role, *index; /* entries of the environment */
	pid_t helpers[LEFTOVERS_HELPERS];
	size_t n_helpers;
};

static enum mark look_environ(const struct look *l, pid_t pid)
{
	int has = proc_environ_has(pid, l->role);

	if (has == 1)
		has = proc_environ_has(pid, l->index);
	if (has == -EAGAIN)
		return MARK_UNSURE;
	return has == 1 ? MARK_MINE : MARK_NONE;
}

static enum mark look_at(const struct look *l, const struct proc_stat *p)
{
	for (size_t i = 0; i < l->n_helpers; i++)
		if (l->helpers[i] == p->pid)
			return MARK_OTHERS;
	/* Not yet reaped, and the head of its session: nobody is a stranger there. */
	if (agent_task_by_pid(l->a, p->pid))
		return MARK_OTHERS;
	if (p->session == l->t->exit_pid || p->pgrp == l->t->exit_pid)
		return MARK_MINE;
	return look_environ(l, p->pid);
}

static int look_all(struct look *l, struct proc_stat *procs, size_t n, int signo, bool *ret_unsure)
{
	_cleanup_free_ unsigned char *marks = calloc(n + 1, 1);
	int found = 0;

	if (!marks)
		return -ENOMEM;
	/* Parents come before their children there. */
	for (size_t i = 0; i < n; i++) {
		bool dead = procs[i].state == 'Z' || procs[i].state == 'X';

		for (size_t k = 0; k < i; k++)
			if (procs[k].pid == procs[i].ppid && marks[k] != MARK_UNSURE)
				marks[i] = marks[k];
		if (marks[i] == MARK_NONE && !dead)
			marks[i] = (unsigned char)look_at(l, &procs[i]);
		*ret_unsure |= !dead && marks[i] == MARK_UNSURE;
		if (dead || marks[i] != MARK_MINE)
			continue;
		found++;
		if (signo)
			(void)proc_kill(&procs[i], signo);
	}
	return found;
}

int leftovers_signal(struct agent *a, const struct task *t, int signo, bool *ret_unsure)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	_cleanup_free_ char *role = NULL, *index = NULL;
	struct look l = { .a = a, .t = t };
	size_t n;
	int r;

	*ret_unsure = false;
	if (asprintf(&role, "ELASTICD_ROLE=%s", t->role->name) < 0) {
		role = NULL;
		return -ENOMEM;
	}
	if (asprintf(&index, "ELASTICD_INDEX=%d", t->index) < 0) {
		index = NULL;
		return -ENOMEM;
	}
	l.role = role;
	l.index = index;
	l.n_helpers = agent_helpers(a, l.helpers, LEFTOVERS_HELPERS);
	r = proc_stat_all(&procs, &n);
	if (r < 0)
		return r;
	n = proc_keep_descendants(procs, n, getpid());
	return look_all(&l, procs, n, signo, ret_unsure);
}
