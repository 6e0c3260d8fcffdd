/* SPDX-License-Identifier: Apache-2.0 */

/* The least that restarting a group can cost: waits until one of N workers fails, kills the others,
 * reaps all, and starts N again, until all N succeed. RANK and TORCHELASTIC_RESTART_COUNT are set
 * as a supervisor does. restart_loop N PROGRAM [ARGUMENT...] */

#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

static void set_number(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

static void start_all(pid_t *pids, int n, char **argv)
{
	for (int i = 0; i < n; i++) {
		int r;

		set_number("RANK", i);
		r = posix_spawn(&pids[i], argv[0], NULL, NULL, argv, environ);
		if (r) {
			fprintf(stderr, "restart_loop: %s: %s\n", argv[0], strerror(r));
			exit(1);
		}
	}
}

/* Waits for all; kills the others when one fails. Returns whether all succeeded. */
static bool wait_for_all(pid_t *pids, int n)
{
	bool failed = false;

	for (int left = n; left > 0; left--) {
		int status = 0;
		pid_t pid = wait(&status);
		bool first = status && !failed;

		failed |= status != 0;
		for (int i = 0; i < n; i++) {
			if (pids[i] == pid)
				pids[i] = 0;
			else if (first && pids[i])
				kill(pids[i], SIGKILL);
		}
	}
	return !failed;
}

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 0;
	pid_t *pids = n > 0 ? calloc((size_t)n, sizeof(*pids)) : NULL;

	if (!pids) {
		fprintf(stderr, "usage: restart_loop N PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	for (int attempt = 0;; attempt++) {
		set_number("TORCHELASTIC_RESTART_COUNT", attempt);
		start_all(pids, n, argv + 2);
		if (wait_for_all(pids, n))
			break;
	}
	free(pids);
	return 0;
}
