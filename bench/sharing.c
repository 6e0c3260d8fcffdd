/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The costs of sharing for a worker in C. "sharing board N" prints nanoseconds of CPU time for one
 * step, beat and look for notices. As a worker, "sharing barrier N" has all workers meet N times,
 * "sharing pairs N" puts and gets N keys, "sharing pairs N nowait" does so with puts that do not
 * wait, "sharing pairs N 16" makes sixteen pairs at a time, and "sharing detect" waits at a barrier
 * for rank 1, which kills itself. Rank 0 prints, in nanoseconds: the median of a barrier, the time
 * of all pairs of all workers, the time from the kill to the barrier's failure.
 *
 * "sharing echo PATH" prints "ready", then sends back all bytes that come on connections to that
 * socket, as the fastest possible server.
 */

#include "bench/check.h"
#include "bench/clock.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct elasticd *h;

static void board(int n)
{
	long long begun = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	int up = 0;

	for (int i = 0; i < n; i++) {
		elasticd_step(h, i, NULL);
		elasticd_beat(h);
		up += elasticd_notice(h);
	}
	printf("%.2f\n", (double)(clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun + up) / n);
}

static void barriers(int n)
{
	long long *took = calloc((size_t)n, sizeof(*took));

	check(elasticd_barrier(h, "begin", NULL, 0, -1));
	for (int i = 0; i < n; i++) {
		took[i] = now_ns();
		check(elasticd_barrier(h, "b", NULL, 0, -1));
		took[i] = now_ns() - took[i];
	}
	qsort(took, (size_t)n, sizeof(*took), compare_ns);
	if (elasticd_rank(h) == 0)
		printf("%lld\n", took[n / 2]);
	free(took);
}

/* flags: of the puts, beside OVERWRITE. */
static void pairs(int n, int flags)
{
	char key[64];
	long long begun;
	void *value;

	check(elasticd_barrier(h, "begin", NULL, 0, -1));
	begun = now_ns();
	for (int i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "k/%d/%d", elasticd_rank(h), i % 64);
		check(elasticd_put(h, key, "value", 5, ELASTICD_PUT_OVERWRITE | flags));
		check(elasticd_get(h, key, 0, &value, NULL));
		free(value);
	}
	check(elasticd_barrier(h, "end", NULL, 0, -1));
	if (elasticd_rank(h) == 0)
		printf("%lld\n", now_ns() - begun);
}

static void pipeline(int rank, int first, int at_once)
{
	static char keys[64][64];
	struct elasticd_op ops[2 * 64] = { 0 };

	for (int i = 0; i < at_once; i++) {
		snprintf(keys[i], sizeof(keys[i]), "k/%d/%d", rank, (first + i) % 64);
		ops[2 * i] = (struct elasticd_op){ .kind = ELASTICD_OP_PUT,
			.flags = ELASTICD_PUT_OVERWRITE,
			.key = keys[i],
			.value = "value",
			.len = 5 };
		ops[2 * i + 1] = (struct elasticd_op){ .kind = ELASTICD_OP_GET, .key = keys[i] };
	}
	check(elasticd_pipeline(h, ops, 2 * (size_t)at_once, 0));
	elasticd_ops_clear(ops, 2 * (size_t)at_once);
}

static void pipelined(int n, int at_once)
{
	long long begun;

	check(elasticd_barrier(h, "begin", NULL, 0, -1));
	begun = now_ns();
	for (int i = 0; i < n; i += at_once)
		pipeline(elasticd_rank(h), i, at_once);
	check(elasticd_barrier(h, "end", NULL, 0, -1));
	if (elasticd_rank(h) == 0)
		printf("%lld\n", now_ns() - begun);
}

static void echo_back(int fd)
{
	char data[4096];
	ssize_t n = recv(fd, data, sizeof(data), 0);

	if (n <= 0)
		close(fd);
	else if (send(fd, data, (size_t)n, MSG_NOSIGNAL) < 0)
		perror("send");
}

static void echo(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int listener = socket(AF_UNIX, SOCK_STREAM, 0), epoll = epoll_create1(0);
	struct epoll_event e = { .events = EPOLLIN, .data.fd = listener };

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	if (bind(listener, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(listener, 128) < 0 ||
		epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &e) < 0)
		exit(1);
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		if (epoll_wait(epoll, &e, 1, -1) != 1)
			continue;
		if (e.data.fd != listener) {
			echo_back(e.data.fd);
			continue;
		}
		e.events = EPOLLIN;
		e.data.fd = accept(listener, NULL, NULL);
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, e.data.fd, &e) < 0)
			exit(1);
	}
}

static void detect(void)
{
	char text[32];
	void *value;

	if (elasticd_rank(h) == 1) {
		/* The others are at the barrier by then. */
		check(elasticd_get(h, "waits", -1, &value, NULL));
		nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
		snprintf(text, sizeof(text), "%lld", now_ns());
		check(elasticd_put(h, "killed", text, strlen(text), 0));
		raise(SIGKILL);
	}
	if (elasticd_rank(h) == 0) {
		long long seen;

		check(elasticd_put(h, "waits", "", 0, 0));
		if (!elasticd_barrier(h, "b", NULL, 0, -1))
			exit(1);
		seen = now_ns();
		check(elasticd_get(h, "killed", 0, &value, NULL));
		printf("%lld\n", seen - atoll(value));
		fflush(stdout);
		free(value);
	} else {
		elasticd_barrier(h, "b", NULL, 0, -1);
	}
}

int main(int argc, char *argv[])
{
	int n = argc > 2 ? atoi(argv[2]) : 1;

	if (argc > 2 && strcmp(argv[1], "echo") == 0)
		echo(argv[2]);
	check(elasticd_open(&h));
	if (argc > 1 && strcmp(argv[1], "board") == 0)
		board(n);
	else if (argc > 1 && strcmp(argv[1], "barrier") == 0)
		barriers(n);
	else if (argc > 3 && strcmp(argv[1], "pairs") == 0 && strcmp(argv[3], "nowait") == 0)
		pairs(n, ELASTICD_PUT_NOWAIT);
	else if (argc > 3 && strcmp(argv[1], "pairs") == 0)
		pipelined(n, atoi(argv[3]));
	else if (argc > 1 && strcmp(argv[1], "pairs") == 0)
		pairs(n, 0);
	else
		detect();
	elasticd_close(h);
	return 0;
}
