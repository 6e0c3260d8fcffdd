/* SPDX-License-Identifier: Apache-2.0 */

/* Writes MIB mebibytes to standard output in calls of BYTES bytes, each one line, and appends the
 * nanoseconds it took to FILE. writer FILE MIB BYTES */

#include "bench/clock.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long long total, begun;
	size_t bytes;
	char *line;
	int fd;

	if (argc != 4 || atoi(argv[2]) <= 0 || atoi(argv[3]) <= 1) {
		fprintf(stderr, "usage: writer FILE MIB BYTES\n");
		return 2;
	}
	total = atoll(argv[2]) << 20;
	bytes = (size_t)atoi(argv[3]);
	line = malloc(bytes);
	fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
	if (!line || fd < 0) {
		perror(argv[1]);
		return 1;
	}
	memset(line, 'w', bytes - 1);
	line[bytes - 1] = '\n';
	begun = now_ns();
	for (long long done = 0; done < total; done += (long long)bytes) {
		if (write(STDOUT_FILENO, line, bytes) != (ssize_t)bytes) {
			perror("writer");
			return 1;
		}
	}
	dprintf(fd, "%lld\n", now_ns() - begun);
	close(fd);
	free(line);
	return 0;
}
