/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A program in the caller's terminal, as a shell runs it: in a process group of its own, which has
 * the terminal while it runs; stopped by Ctrl-Z it takes its caller with it, and goes on with it.
 * It dies with its caller. Knows nothing of jobs.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/spec.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>
#include <termios.h>

/* What it does before it is the program, in this order. */
enum foreground_stage { FOREGROUND_CWD, FOREGROUND_LIMITS, FOREGROUND_EXEC };

struct foreground {
	pid_t pid;
	bool ended;
	int status;   /* of waitpid(), once it has ended */
	bool has_tty; /* standard input is a terminal that was ours when it began */
	bool given;   /* the program has it now */
	struct termios ours, its;
	sigset_t before;	     /* the caller's signal mask */
	int signal_fd;		     /* ready when foreground_take() has something to do */
	int go_fd;		     /* what the program waits for before it is executed */
	int error_fd;		     /* why it could not be */
	enum foreground_stage stage; /* what failed, where foreground_go() did */
};

struct foreground_program {
	char *const *argv;
	char *const *envp;		  /* PATH of it is where the program is looked for */
	const char *cwd;		  /* NULL: the caller's */
	int umask;			  /* SPEC_UNSET: the caller's */
	const struct spec_rlimit *limits; /* over the caller's */
	size_t n_limits;
};

/*
 * Makes the process, which waits for foreground_go(). From now on signals come by signal_fd alone.
 * Returns 0, or a negative errno with err.
 */
_must_check_ int foreground_start(
	struct foreground *f, const struct foreground_program *program, struct error *err);

/* Lets it execute. Returns 0, or the negative errno of f->stage: it has ended then. */
_must_check_ int foreground_go(struct foreground *f);

/* Takes what signal_fd has: hands signals on, stops and continues with the program, and sees its
 * end. */
void foreground_take(struct foreground *f);

/* Sends signo to its process group, a stopped one too. */
void foreground_signal(struct foreground *f, int signo);

/* Waits for its end, after SIGKILL. */
void foreground_kill(struct foreground *f);

/* Takes the terminal back and restores it and the caller's signals. It has ended, or never began.
 */
void foreground_end(struct foreground *f);
