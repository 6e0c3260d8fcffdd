/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Appends "PID RANK NS", the time of day in nanoseconds, to FILE. With a PROGRAM it becomes that
 * one, and RANK is "-": the time is that of a launcher's start. Otherwise it is a worker, which
 * hangs until a signal ends it. stamp FILE [PROGRAM ARGUMENT...]
 */

#include "bench/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long long now = clock_ns(CLOCK_REALTIME);
	const char *rank = getenv("RANK");
	int fd;

	fd = argc > 1 ? open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;
	if (fd < 0) {
		fprintf(stderr, "usage: stamp FILE [PROGRAM ARGUMENT...]\n");
		return 2;
	}
	dprintf(fd, "%d %s %lld\n", (int)getpid(), argc > 2 ? "-" : rank ? rank : "?", now);
	if (argc > 2) {
		execvp(argv[2], argv + 2);
		perror(argv[2]);
		return 127;
	}
	for (;;)
		pause();
}
