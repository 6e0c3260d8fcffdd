/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Saves what a person needs of a worker that hangs, before it is stopped: of each of its processes
 * the kernel's stack and wait channel, status, threads, open files and sockets with their peers;
 * its last lines; and what py-spy or gdb say where they are installed. All of it in
 * attempt_<n>/<rank>/hang/ (a second dump in hang.1/, ...), bounded in time and size, by a child of
 * low priority: the agent itself waits for nothing.
 *
 * No process is in two dumps at once, as no two debuggers can have it. What another dump that runs
 * is saving of a task is this one's, too: it takes that directory for it and waits for its end.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"

#include <stdbool.h>
#include <sys/types.h>

struct hang;
struct hang_dumps; /* all dumps of an agent */

struct hang_task {
	pid_t pid;
	int rank;
	const char *name;	 /* "worker:3" */
	const char *dir;	 /* attempt_<n>/<rank> */
	const char *why;	 /* into hang/why.txt */
	const char *const *tail; /* last lines of its output, NULL-ended */
};

/* All are saved, or the time was over: dir of each that could be made (in order; NULL where not) */
typedef void (*hang_done_fn)(void *arg, char *const *dirs, size_t n);

_must_check_ int hang_dumps_new(struct loop *loop, struct hang_dumps **ret);
/* Kills what still runs, and calls back for each with what there is by then. */
struct hang_dumps *hang_dumps_free(struct hang_dumps *h);

/* Saves n tasks in one child; fn is called once, later. timeout_ms bounds all of it, also the wait
 * for another dump. */
_must_check_ int hang_dump(struct hang_dumps *h, const struct hang_task *tasks, size_t n,
	uint64_t timeout_ms, hang_done_fn fn, void *arg, struct error *err);
/* As logs_child_exited() and logs_helpers(). */
bool hang_child_exited(struct hang_dumps *h, pid_t pid, int status);
size_t hang_helpers(struct hang_dumps *h, pid_t *pids, size_t max);
