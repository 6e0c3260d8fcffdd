/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Changes of files and directories, by inotify. The process has one inotify descriptor for all its
 * watches, because the kernel allows a user few (128). Where it allows none, watches with
 * LOG_WATCH_MUST are called four times a second instead, and the log says so.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

struct log_watch;

enum {
	LOG_WATCH_MODIFY = 1, /* written to, or truncated */
	LOG_WATCH_GONE = 2,   /* perhaps unlinked, replaced or moved: check */
	LOG_WATCH_NAMES = 4,  /* a name appeared in the directory */
	LOG_WATCH_MUST = 8,   /* without inotify: call at intervals */
};

/* events: which of the above; all of them when the kernel lost events. May free its own watch and
 * others. */
typedef void (*log_watch_fn)(void *arg, int events);

/* Watches the file or directory open at fd (borrowed during the call). events may be 0 at first.
 * All watches of a process are on one loop. Returns 0 or a negative errno. */
_must_check_ int log_watch_new(
	struct loop *loop, int fd, int events, log_watch_fn fn, void *arg, struct log_watch **ret);
struct log_watch *log_watch_free(struct log_watch *w);

/*
 * Keeps the inotify descriptor open while there is no watch: closing it takes some ten milliseconds
 * in the kernel, which a restart of the group must not pay. Each call of the first needs one of the
 * second before the loop is freed.
 */
void log_watcher_ref(void);
void log_watcher_unref(void);

/* Changes the events; fd: as in log_watch_new(). Changes made while an event was off are not
 * reported, so look at the file afterwards. */
_must_check_ int log_watch_set(struct log_watch *w, int fd, int events);
