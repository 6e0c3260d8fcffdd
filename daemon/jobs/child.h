/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starts a program as some user, in two steps (so that its scope can be made before it runs), and
 * watches a process, child or not, to its end without polling.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <sys/types.h>

/* The user that a program runs as. All owned. */
struct child_user {
	uid_t uid;
	gid_t gid;
	char *name, *home, *shell;
	gid_t *groups;
	int n_groups;
};

/* From the user database. -ENOENT with err where it has no such user; the caller's own uid needs no
 * entry. */
_must_check_ int child_user_init(struct child_user *u, uid_t uid, struct error *err);
void child_user_fini(struct child_user *u);

/* The uid behind a name or a number. */
_must_check_ int child_user_uid(const char *name, uid_t *ret, struct error *err);

enum { CHILD_FDS_MAX = 4 };

/* The file for a child's standard output and error. The child's user owns it, since that user must
 * not write to elasticd's own log. */
#define CHILD_LOG "agent.log"

struct child_request {
	const char *program;
	char *const *argv;
	const struct child_user *user;
	int fds[CHILD_FDS_MAX]; /* stay open over exec, with the same numbers; 0 ends the list */
	const char *cgroup;	/* directory to join, or NULL */
	int log_dir_fd;		/* the user's directory, for CHILD_LOG; -1: output is discarded */
};

/* err: why the child could not execute the program; NULL: it did. The caller still owns the child.
 */
typedef void (*child_went_fn)(void *arg, const struct error *err);

struct child {
	pid_t pid;
	int pidfd;
	int gate_fd;   /* the child waits for a byte from it */
	int status_fd; /* the child writes here why it cannot go on */
	struct loop_fd *status;
	struct loop_timer *limit;
	child_went_fn went;
	void *arg;
};

/* Forks; the child then waits for child_go() or child_release(). Returns 0, or a negative errno
 * with err. */
_must_check_ int child_start(const struct child_request *q, struct child *ret, struct error *err);

/*
 * Lets the child go on. fn runs once, from the loop, when the child executes the program, when it
 * cannot, or after 30 s without either: it runs as its user by then, who can stop it. c must not
 * move until then. Returns 0 or a negative errno.
 */
_must_check_ int child_go(struct child *c, struct loop *loop, child_went_fn fn, void *arg);

/* Runs fn now if it is due, so that the caller handles it before other news of the child. */
void child_catch_up(struct child *c);

/* Lets the child go on without reporting; if it cannot, its end shows it. The caller keeps the
 * pidfd. */
void child_release(struct child *c);

/* The soft limit of open files for programs that are started: the one that this process began with.
 * Raises this process's own limit to the hard limit. */
void child_raise_nofile(void);

struct child_watch;

/* status: as of waitid() for a child (code CLD_*); code 0 for another process. May free the watch.
 */
typedef void (*child_end_fn)(void *arg, int code, int status);

/* Takes pidfd, also on failure. */
_must_check_ int child_watch_new(
	struct loop *loop, int pidfd, child_end_fn fn, void *arg, struct child_watch **ret);
struct child_watch *child_watch_free(struct child_watch *w);
/* Sends signo unless the process has ended. */
void child_watch_kill(struct child_watch *w, int signo);

/* Child processes whose owners are gone, but that must be reaped. */
struct child_orphans {
	struct child_watch *first;
};

/* Takes w: it lives until its process ends or child_orphans_fini(). */
void child_orphans_add(struct child_orphans *o, struct child_watch *w);
void child_orphans_fini(struct child_orphans *o);

/* Kills a child, which is reaped as soon as it is dead. That may take any time (its user traces it,
 * or it waits for a file system), and is not waited for. */
void child_abandon(struct child *c, struct loop *loop, struct child_orphans *o);
