/* SPDX-License-Identifier: Apache-2.0 */

/* The least that starting N programs can cost: posix_spawn() in a loop, then waitpid() in another.
 * spawn_loop N PROGRAM [ARGUMENT...] */

#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

int main(int argc, char **argv)
{
	int n = argc > 2 ? atoi(argv[1]) : 0;
	pid_t *pids = n > 0 ? calloc((size_t)n, sizeof(*pids)) : NULL;
	int failed = 0;

	if (!pids) {
		fprintf(stderr, "usage: spawn_loop N PROGRAM [ARGUMENT...]\n");
		return 2;
	}
	for (int i = 0; i < n; i++) {
		int r = posix_spawn(&pids[i], argv[2], NULL, NULL, argv + 2, environ);

		if (r) {
			fprintf(stderr, "spawn_loop: %s: %s\n", argv[2], strerror(r));
			return 1;
		}
	}
	for (int i = 0; i < n; i++) {
		int status = 0;

		while (waitpid(pids[i], &status, 0) < 0 && errno == EINTR)
			;
		failed += status != 0;
	}
	free(pids);
	return failed ? 1 : 0;
}
