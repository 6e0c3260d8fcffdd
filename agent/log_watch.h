/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes of files and directories, by inotify. A process has one inotify descriptor however many
 * watches it holds, because the kernel allows a user few of them (128). Where it allows none, the
 * watches that must not miss anything are called four times a second instead, and the log says so.
 */

#include "common/cleanup.h"
#include "common/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct log_watch;

enum {
	LOG_WATCH_MODIFY = 1, /* written to, or truncated */
	LOG_WATCH_GONE = 2,   /* unlinked, replaced or moved (perhaps: look) */
	LOG_WATCH_NAMES = 4,  /* a directory: a name appeared in it */
	LOG_WATCH_MUST = 8,   /* without inotify: call at intervals */
};

/* what: which of the above, all where events were lost. May free its own watch and others. */
typedef void (*log_watch_fn)(void *arg, int what);

/* Watches fd's file (an open file or directory, borrowed during the call). events may be 0 at
 * first. All watches of a process are on one loop. Returns 0 or a negative errno. */
_must_check_ int log_watch_new(
	struct loop *loop, int fd, int events, log_watch_fn fn, void *arg, struct log_watch **ret);
struct log_watch *log_watch_free(struct log_watch *w);

/*
 * Keeps the inotify descriptor over times without a watch: closing one waits for the kernel's
 * readers, some ten milliseconds, and a restart of the group must not pay that. Each hold wants
 * its release, before the loop is freed.
 */
void log_watch_hold(void);
void log_watch_release(void);

/* Changes the events. What happened while they were off is not reported: look after this. fd as at
 * the start. */
_must_check_ int log_watch_set(struct log_watch *w, int fd, int events);
