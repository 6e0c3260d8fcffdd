/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A worker that writes when it lived: appends "s RANK ATTEMPT NS" to FILE as soon as it executes.
 * Rank 0 then waits MS milliseconds, appends "d RANK ATTEMPT NS" and fails, LIVES times; the others
 * hang. After that all succeed. mortal FILE LIVES MS
 */

#include "bench/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int fd;
static int rank, attempt;

static void write_time(char what)
{
	dprintf(fd, "%c %d %d %lld\n", what, rank, attempt, now_ns());
}

static int number(const char *name)
{
	const char *value = getenv(name);

	return value ? atoi(value) : 0;
}

int main(int argc, char **argv)
{
	struct timespec pause_for;

	if (argc != 4)
		return 2;
	fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	rank = number("RANK");
	attempt = number("TORCHELASTIC_RESTART_COUNT");
	write_time('s');
	if (attempt >= atoi(argv[2]))
		return 0;
	if (rank != 0)
		for (;;)
			pause();
	pause_for = (struct timespec){ atoi(argv[3]) / 1000, atoi(argv[3]) % 1000 * 1000000 };
	nanosleep(&pause_for, NULL);
	write_time('d');
	_exit(1);
}
