/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Starting a program as some user, in two steps (so that its scope can be made before it runs), and
 * watching a process, child or not, to its end without polling.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"

#include <stdbool.h>
#include <sys/types.h>

/* Whom a program runs as. All owned. */
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

/* What a child writes to standard output and error. It belongs to the child's user, who is not to
 * write to what elasticd logs to. */
#define CHILD_LOG "agent.log"

struct child_request {
	const char *program;
	char *const *argv;
	const struct child_user *user;
	int fds[CHILD_FDS_MAX]; /* stay open over exec, with the same numbers; 0 ends the list */
	int lock_fd;		/* the child writes its pid there; -1: none */
	const char *cgroup;	/* directory to join, or NULL */
	int log_dir_fd; /* of the user's, where CHILD_LOG takes its output; -1: nothing does */
};

struct child {
	pid_t pid;
	int pidfd;
	int gate_fd;   /* what the child waits for */
	int status_fd; /* what it says when it cannot go on */
};

/* Forks; the child then waits for child_go(). Returns 0, or a negative errno with err. */
_must_check_ int child_start(const struct child_request *q, struct child *ret, struct error *err);

/* Lets it go on, and returns once it executes the program: 0, or a negative errno with err. The
 * pidfd stays the caller's. */
_must_check_ int child_go(struct child *c, struct error *err);

/* Kills a child that was never let go, and reaps it. */
void child_abandon(struct child *c);

/* How soft the limit of open files is for programs that are started: the one that this process
 * began with. Raises this process's own to the hard limit. */
void child_raise_nofile(void);

struct child_watch;

/* status: as of waitid() where it was a child (code CLD_*), else code 0. May free the watch. */
typedef void (*child_end_fn)(void *arg, int code, int status);

/* Takes pidfd, also on failure. */
_must_check_ int child_watch_new(
	struct loop *loop, int pidfd, child_end_fn fn, void *arg, struct child_watch **ret);
struct child_watch *child_watch_free(struct child_watch *w);
/* Sends it signo, where it has not ended. */
void child_watch_kill(struct child_watch *w, int signo);

/* Processes that nobody waits for any more, but that must be reaped. */
struct child_orphans {
	struct child_watch *first;
};

/* Takes w: it lives until its process ends or child_orphans_fini(). */
void child_orphans_add(struct child_orphans *o, struct child_watch *w);
void child_orphans_fini(struct child_orphans *o);
