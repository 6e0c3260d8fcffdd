/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Measures elasticd's answers to Status: status_client SOCKET JOB rate CALLS prints calls per
 * second, pipelined on one connection; status_client SOCKET JOB latency CALLS HELD prints the
 * median and the 99th percentile in nanoseconds of calls one after the other while HELD other
 * connections are open.
 */

#include "bench/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { WINDOW = 64 };

static char call[512];
static size_t call_len;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int dial(const char *path)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(sun.sun_path, sizeof(sun.sun_path), "%s", path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&sun, sizeof(sun)) < 0)
		fail(path);
	return fd;
}

static void send_calls(int fd, int n)
{
	char block[WINDOW * sizeof(call)];
	size_t len = 0;

	for (; n > 0; n--) {
		memcpy(block + len, call, call_len);
		len += call_len;
	}
	for (size_t sent = 0; sent < len;) {
		ssize_t w = write(fd, block + sent, len - sent);

		if (w < 0)
			fail("write");
		sent += (size_t)w;
	}
}

/* Reads some; returns how many answers ended in it. */
static int receive(int fd)
{
	static char block[1 << 18];
	ssize_t n = read(fd, block, sizeof(block));
	int ends = 0;

	if (n <= 0)
		fail("read");
	if (memmem(block, (size_t)n, "\"error\":", 8)) {
		fprintf(stderr, "status_client: %.200s\n", block);
		exit(1);
	}
	for (const char *p = block; (p = memchr(p, 0, (size_t)(block + n - p))); p++)
		ends++;
	return ends;
}

static void measure_rate(int fd, int calls)
{
	int sent = 0, got = 0;
	long long begun = now_ns();

	while (got < calls) {
		int n = WINDOW - (sent - got);

		if (n > calls - sent)
			n = calls - sent;
		if (n > 0 && (n >= WINDOW / 2 || sent + n == calls)) {
			send_calls(fd, n);
			sent += n;
		}
		got += receive(fd);
	}
	printf("%.0f\n", calls * 1e9 / (double)(now_ns() - begun));
}

static void measure_latency(int fd, int calls)
{
	long long *times = calloc((size_t)calls, sizeof(*times));

	if (!times)
		fail("calloc");
	for (int i = 0; i < calls; i++) {
		long long begun = now_ns();

		send_calls(fd, 1);
		while (!receive(fd))
			;
		times[i] = now_ns() - begun;
	}
	qsort(times, (size_t)calls, sizeof(*times), compare_ns);
	printf("%lld %lld\n", times[calls / 2], times[calls * 99 / 100]);
	free(times);
}

int main(int argc, char **argv)
{
	struct rlimit files;
	int fd;

	if (argc < 5 || atoi(argv[4]) <= 0) {
		fprintf(stderr, "usage: status_client SOCKET JOB rate|latency CALLS [HELD]\n");
		return 2;
	}
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	call_len =
		(size_t)snprintf(call, sizeof(call),
			"{\"method\":\"io.elasticd.Manager.Status\",\"parameters\":{\"job\":\"%s\"}}",
			argv[2]) +
		1;
	for (int i = 0; argc > 5 && i < atoi(argv[5]); i++)
		dial(argv[1]);
	fd = dial(argv[1]);
	if (strcmp(argv[3], "rate") == 0)
		measure_rate(fd, atoi(argv[4]));
	else
		measure_latency(fd, atoi(argv[4]));
	return 0;
}
