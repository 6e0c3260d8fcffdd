/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/orphans.h"

#include "agent/supervise/private.h"
#include "common/base/proc.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * A scan finds for each process below the agent the worker that owns it: the owner of its parent,
 * if that has one; else of its session or process group; else the worker that its environment
 * names. The result is the same for all workers that end in one turn, so one scan does for them.
 */

enum { ORPHANS_HELPERS = 64, ORPHANS_NAME = 256 };

/* Owners that are no worker's place. */
enum { OWNER_NONE = -1, OWNER_HELPER = -2, OWNER_UNSURE = -3 };

struct orphan_scan {
	struct proc_stat *procs; /* NULL: not taken yet */
	int *owners;		 /* places, or OWNER_... */
	size_t n;
};

struct orphan_pid {
	pid_t pid;
	int owner;
};

/* Pids whose owner is known, sorted. */
struct orphan_pids {
	struct orphan_pid *items;
	size_t n;
};

static void orphans_scan_fini(struct orphan_scan *scan)
{
	free(scan->procs);
	free(scan->owners);
	*scan = (struct orphan_scan){ 0 };
}

static int orphans_compare(const void *pa, const void *pb)
{
	const struct orphan_pid *a = pa, *b = pb;

	return (a->pid > b->pid) - (a->pid < b->pid);
}

static int orphans_pids(struct supervisor *sv, struct orphan_pids *ret)
{
	pid_t helpers[ORPHANS_HELPERS];
	size_t n_helpers = reap_helpers(sv, helpers, ORPHANS_HELPERS), n = 0;
	struct orphan_pid *items = calloc((size_t)sv->n_workers + n_helpers + 1, sizeof(*items));

	if (!items)
		return -ENOMEM;
	for (int i = 0; i < sv->n_workers; i++) {
		const struct worker *w = &sv->workers[i];
		pid_t pid = w->pid > 0 ? w->pid : w->exit_pid;

		if (pid > 0)
			items[n++] = (struct orphan_pid){ pid, w->place };
	}
	for (size_t i = 0; i < n_helpers; i++)
		items[n++] = (struct orphan_pid){ helpers[i], OWNER_HELPER };
	qsort(items, n, sizeof(*items), orphans_compare);
	*ret = (struct orphan_pids){ items, n };
	return 0;
}

static int orphans_by_pid(const struct orphan_pids *pids, pid_t pid)
{
	struct orphan_pid key = { .pid = pid }, *found;

	found = bsearch(&key, pids->items, pids->n, sizeof(key), orphans_compare);
	return found ? found->owner : OWNER_NONE;
}

/* The worker that the environment of a process names. */
static int orphans_by_environment(struct supervisor *sv, pid_t pid)
{
	char role[ORPHANS_NAME], index[16];
	const struct worker *w;
	int r = proc_environ_get(pid, "ELASTICD_ROLE=", role, sizeof(role));

	if (r == 1)
		r = proc_environ_get(pid, "ELASTICD_INDEX=", index, sizeof(index));
	if (r == -EAGAIN)
		return OWNER_UNSURE;
	if (r != 1)
		return OWNER_NONE;
	w = worker_named(sv, role, (int)strtol(index, NULL, 10));
	return w ? w->place : OWNER_NONE;
}

static int orphans_owner(
	struct supervisor *sv, const struct orphan_pids *pids, const struct proc_stat *p)
{
	int owner = orphans_by_pid(pids, p->pid);

	if (owner == OWNER_NONE)
		owner = orphans_by_pid(pids, p->session);
	if (owner == OWNER_NONE)
		owner = orphans_by_pid(pids, p->pgrp);
	return owner == OWNER_NONE && !proc_stat_dead(p) ? orphans_by_environment(sv, p->pid)
							 : owner;
}

static int orphans_scan(struct supervisor *sv, struct orphan_scan *ret)
{
	_cleanup_(orphans_scan_fini) struct orphan_scan scan = { 0 };
	struct orphan_pids pids;
	int r = proc_stat_all(&scan.procs, &scan.n);

	if (r < 0)
		return r;
	scan.n = proc_keep_descendants(scan.procs, scan.n, getpid());
	scan.owners = calloc(scan.n + 1, sizeof(*scan.owners));
	if (!scan.owners || orphans_pids(sv, &pids) < 0)
		return -ENOMEM;
	/* Parents come before their children in the list. */
	for (size_t i = 0; i < scan.n; i++) {
		int owner = OWNER_NONE;

		for (size_t k = 0; k < i && owner == OWNER_NONE && scan.procs[i].ppid != getpid();
			k++)
			if (scan.procs[k].pid == scan.procs[i].ppid &&
				scan.owners[k] != OWNER_UNSURE)
				owner = scan.owners[k];
		if (owner == OWNER_NONE)
			owner = orphans_owner(sv, &pids, &scan.procs[i]);
		scan.owners[i] = owner;
	}
	free(pids.items);
	*ret = scan;
	scan = (struct orphan_scan){ 0 };
	return 0;
}

void orphans_begin(struct supervisor *sv)
{
	orphans_end(sv);
	sv->orphan_scan = calloc(1, sizeof(*sv->orphan_scan));
}

void orphans_end(struct supervisor *sv)
{
	if (sv->orphan_scan)
		orphans_scan_fini(sv->orphan_scan);
	free(sv->orphan_scan);
	sv->orphan_scan = NULL;
}

int orphans_signal(struct supervisor *sv, const struct worker *w, int signo, bool *ret_unsure)
{
	_cleanup_(orphans_scan_fini) struct orphan_scan own = { 0 };
	struct orphan_scan *scan = sv->orphan_scan ? sv->orphan_scan : &own;
	int found = 0;
	int r = scan->procs ? 0 : orphans_scan(sv, scan);

	*ret_unsure = false;
	if (r < 0)
		return r;
	for (size_t i = 0; i < scan->n; i++) {
		if (proc_stat_dead(&scan->procs[i]))
			continue;
		*ret_unsure |= scan->owners[i] == OWNER_UNSURE;
		if (scan->owners[i] != w->place)
			continue;
		found++;
		if (signo)
			(void)proc_kill(&scan->procs[i], signo);
	}
	return found;
}
