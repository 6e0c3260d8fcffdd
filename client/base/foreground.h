/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A program in the caller's terminal, as a shell runs it: in a process group of its own, which has
 * the terminal while it runs. When Ctrl-Z stops it, its caller stops and continues with it. It dies
 * with its caller. Knows nothing of jobs.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/spec/spec.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

/* The steps of the child before it executes the program, in this order. */
enum foreground_stage { FOREGROUND_CWD, FOREGROUND_LIMITS, FOREGROUND_EXEC };

struct foreground {
	pid_t pid;
	bool ended;
	int status;   /* of waitpid(), once it has ended */
	bool has_tty; /* standard input is a terminal that we had at the start */
	bool given;   /* the program has the terminal now */
	struct termios ours, its;
	sigset_t before;	     /* the caller's signal mask */
	int signal_fd;		     /* readable when foreground_take() has something to do */
	int go_fd;		     /* the child waits for a byte from it */
	int error_fd;		     /* the child writes here why it failed */
	enum foreground_stage stage; /* the step that failed in foreground_go() */
};

struct foreground_program {
	char *const *argv;
	char *const *envp;		  /* its PATH is where the program is searched for */
	const char *cwd;		  /* NULL: the caller's */
	int umask;			  /* SPEC_UNSET: the caller's */
	const struct spec_rlimit *limits; /* over the caller's */
	size_t n_limits;
};

/*
 * Makes the process, which waits for foreground_go(). From now on the caller gets signals through
 * signal_fd only. Returns 0, or a negative errno with err.
 */
_must_check_ int foreground_start(
	struct foreground *f, const struct foreground_program *program, struct error *err);

/* Lets the child execute the program. Returns 0, or the negative errno of f->stage: the child has
 * ended then. */
_must_check_ int foreground_go(struct foreground *f);

/* Handles what signal_fd has: passes signals on, stops and continues with the program, notices its
 * end. */
void foreground_take(struct foreground *f);

/* Sends signo to the program's process group, even while it is stopped. */
void foreground_signal(struct foreground *f, int signo);

/* Kills the program and waits for its end. */
void foreground_kill(struct foreground *f);

/* Takes the terminal back, and restores it and the caller's signals. Call it when the program has
 * ended, or never began. */
void foreground_end(struct foreground *f);
