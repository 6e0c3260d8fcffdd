/* SPDX-License-Identifier: Apache-2.0 */
#include "client/output/pager.h"

#include "common/base/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

/* Without less, the text is worth more than a pager. */
#define USUAL_PAGER "if command -v less >/dev/null; then exec less -FRX; fi; exec cat"

static pid_t pager;
static int pager_before[2] = { -1, -1 }; /* standard output and error */

static const char *pager_command(void)
{
	const char *command = getenv("ELASTICD_PAGER");

	command = command ? command : getenv("PAGER");
	if (!command)
		return USUAL_PAGER;
	return *command && strcmp(command, "cat") != 0 ? command : NULL;
}

/* Starts it with fd as its standard input. Returns 0 or an errno. */
static int pager_start(const char *command, int fd)
{
	char name[] = "sh", flag[] = "-c", *argv[] = { name, flag, (char *)command, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t usual;
	int r = posix_spawn_file_actions_init(&actions);

	if (r)
		return r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		sigemptyset(&usual);
		sigaddset(&usual, SIGINT);
		sigaddset(&usual, SIGPIPE);
		posix_spawnattr_setsigdefault(&attributes, &usual);
		posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
		r = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
		if (r == 0)
			r = posix_spawn(&pager, "/bin/sh", &actions, &attributes, argv, environ);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* Has standard output, and error if that is on the terminal, too, go to fd. */
static void pager_take(int fd)
{
	/* The user ends the pager, not ^C; when it is gone, writing fails, and the verb goes on. */
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	for (int i = 0; i < 2; i++) {
		if (!isatty(STDOUT_FILENO + i))
			continue;
		pager_before[i] = fcntl(STDOUT_FILENO + i, F_DUPFD_CLOEXEC, 3);
		dup2(fd, STDOUT_FILENO + i);
	}
	atexit(pager_end);
}

void pager_begin(bool utf8)
{
	const char *command = pager_command(), *term = getenv("TERM");
	int fds[2], r;

	if (!command || pager || !isatty(STDOUT_FILENO) || !term || !*term || !strcmp(term, "dumb"))
		return;
	/* Unless the user says otherwise: leave when all fits on the screen, pass colours, and
	 * leave the text there. */
	setenv("LESS", "FRX", 0);
	if (utf8)
		setenv("LESSCHARSET", "utf-8", 0);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return;
	r = pager_start(command, fds[0]);
	close(fds[0]);
	if (r == 0)
		pager_take(fds[1]);
	else
		pager = 0;
	close(fds[1]);
}

bool pager_runs(void)
{
	return pager > 0;
}

void pager_end(void)
{
	if (!pager)
		return;
	/* The pager sees the end of the text. */
	for (int i = 0; i < 2; i++)
		if (pager_before[i] >= 0) {
			dup2(pager_before[i], STDOUT_FILENO + i);
			close(pager_before[i]);
		}
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
	pager = 0;
}
