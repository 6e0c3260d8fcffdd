/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Children of tests: each runs until it is let go or killed, and nothing waits by the clock. */

#include "common/base/cleanup.h"

#include <check.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Some of what real processes do is more than valgrind can follow. */
static inline bool under_valgrind(void)
{
	const char *preload = getenv("LD_PRELOAD");

	return preload && strstr(preload, "vgpreload");
}

/* How far a model is walked: all the way, less where a sanitizer makes it some 5 times as long (all
 * the way in ./bootstrap all), and little under valgrind, 50 times. */
static inline int walk_length(int whole, int sanitized, int valgrind)
{
#ifdef __SANITIZE_ADDRESS__
	if (!getenv("ELASTIC_ALL"))
		whole = sanitized;
#endif
	return under_valgrind() ? valgrind : whole;
}

struct child {
	pid_t pid;
	int hold; /* it ends when this is closed */
};

/*
 * A cat with that environment (NULL: an empty one), which runs when this returns: it has answered.
 * That its descriptors marked close-on-exec are closed says less: execve() has more to do then.
 */
static inline struct child child_start(char *const envp[], uid_t uid)
{
	static char cat_name[] = "cat", *const argv[] = { cat_name, NULL };
	static char *const none[] = { NULL };
	int hold[2], echo[2];
	struct child c;
	char byte = 'x';

	ck_assert_int_eq(pipe2(hold, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(echo, O_CLOEXEC), 0);
	c.pid = fork();
	if (c.pid == 0) {
		if (dup2(hold[0], 0) < 0 || dup2(echo[1], 1) < 0 ||
			(uid != getuid() && setresuid(uid, uid, uid) < 0))
			_exit(126);
		execve("/bin/cat", argv, envp ? envp : none);
		_exit(127);
	}
	ck_assert_int_gt(c.pid, 0);
	close(hold[0]);
	close(echo[1]);
	ck_assert_int_eq(write(hold[1], &byte, 1), 1);
	ck_assert_int_eq(read(echo[0], &byte, 1), 1);
	close(echo[0]);
	c.hold = hold[1];
	return c;
}

/* A child of this process that is there, or is to be waited for; 0: there is none. */
static inline pid_t child_any(void)
{
	_cleanup_file_ FILE *f = NULL;
	char children[64];
	int pid = 0;

	snprintf(children, sizeof(children), "/proc/self/task/%d/children", (int)getpid());
	f = fopen(children, "re");
	ck_assert_ptr_nonnull(f);
	return fscanf(f, "%d", &pid) == 1 ? pid : 0;
}

/* Waits for the end: the exit code, or the negative number of the signal. */
static inline int child_end(pid_t pid)
{
	siginfo_t si;

	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &si, WEXITED), 0);
	return si.si_code == CLD_EXITED ? si.si_status : -si.si_status;
}

/* Lets it go, and returns how it ended. */
static inline int child_release(struct child *c)
{
	c->hold = close_fd(c->hold);
	return child_end(c->pid);
}
