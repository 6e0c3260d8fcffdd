/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Writes what a person needs to understand a hanging worker, before it is stopped: for each of its
 * processes the kernel's stack and wait channel, status, threads, open files and sockets with their
 * peers; its last lines; and the output of py-spy or gdb where they are installed. Everything goes
 * to attempt_<n>/<rank>/hang/ (a second dump to hang.1/, ...), bounded in time and size. A child of
 * low priority does the work: the agent itself waits for nothing.
 *
 * No process is in two dumps at once, since two debuggers cannot attach to it. When another dump is
 * already writing a worker, this one uses that dump's directory and waits for its end.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

struct dumps; /* all dumps of an agent */

struct dump_worker {
	pid_t pid;
	int rank;
	char name[128];	 /* "worker:3" */
	const char *dir; /* attempt_<n>/<rank>; borrowed, as the others */
	const char *why; /* into hang/why.txt */
	json_t *tail;	 /* last lines of its output: strings */
};

/* Called when all workers are dumped, or the time is over. dirs: a directory for each worker, in
 * order; NULL where none could be made. */
typedef void (*dump_done_fn)(void *arg, char *const *dirs, size_t n);

_must_check_ int dumps_new(struct loop *loop, struct dumps **ret);
/* Kills the running children, and calls back for each dump with what it has so far. */
struct dumps *dumps_free(struct dumps *h);

/* Dumps n workers in one child; fn is called once, later. timeout_ms bounds all of it, including
 * the wait for another dump. */
_must_check_ int dumps_begin(struct dumps *h, const struct dump_worker *workers, size_t n,
	uint64_t timeout_ms, dump_done_fn fn, void *arg, struct error *err);
/* The caller has reaped a child: returns true when it was one of a dump. */
bool dumps_child_exited(struct dumps *h, pid_t pid);
/* The children that run now, at most max. Returns how many. */
size_t dumps_helper_pids(struct dumps *h, pid_t *pids, size_t max);
