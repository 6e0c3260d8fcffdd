/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Real etcds on loopback, with their data in a directory of the test. They end with the test. */

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MEMBERS_MAX = 3, MEMBER_ARGS = 48, LOG_BYTES = 1 << 20 };

struct member {
	char name[16], dir[64], client[64], peer[64], address[32];
	int log; /* what it prints */
	pid_t pid;
};

static struct member members[MEMBERS_MAX];
static int n_members;
static char real_dir[32];

static inline bool etcd_is_here(void)
{
	return access("/usr/bin/etcd", X_OK) == 0 || access("/usr/local/bin/etcd", X_OK) == 0;
}

/* A port where no process listens, another one each time; the kernel gives none of these to a
 * connection by itself, and tests/e2e use none of them. */
static inline int free_port(void)
{
	static bool given[10000];
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int one = 1, fd, port, taken;

	do {
		unsigned short random;

		ck_assert_int_eq(getrandom(&random, sizeof(random), 0), sizeof(random));
		port = 5000 + random % 5000;
		a.sin_port = htons((uint16_t)port);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		ck_assert_int_ge(fd, 0);
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		taken = given[port] || bind(fd, (struct sockaddr *)&a, sizeof(a));
		close(fd);
	} while (taken);
	given[port] = true;
	return port;
}

/* Addresses and directories of a cluster; client addresses begin with scheme. */
static inline void members_plan(int n, const char *scheme)
{
	int port;

	snprintf(real_dir, sizeof(real_dir), "/tmp/elastic-etcd-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(real_dir));
	n_members = n;
	for (int i = 0; i < n; i++) {
		struct member *m = &members[i];

		*m = (struct member){ .log = -1 };
		snprintf(m->name, sizeof(m->name), "m%d", i);
		snprintf(m->dir, sizeof(m->dir), "%.31s/m%d", real_dir, i);
		port = free_port();
		snprintf(m->address, sizeof(m->address), "127.0.0.1:%d", port);
		snprintf(m->client, sizeof(m->client), "%s://127.0.0.1:%d", scheme, port);
		snprintf(m->peer, sizeof(m->peer), "http://127.0.0.1:%d", free_port());
	}
}

static inline void members_cluster(char *to, size_t room)
{
	size_t n = 0;

	for (int i = 0; i < n_members; i++)
		n += (size_t)snprintf(to + n, room - n, "%s%s=%s", i ? "," : "", members[i].name,
			members[i].peer);
}

/* more: further arguments, NULL-ended, or NULL. */
static inline void member_start(struct member *m, const char *const *more)
{
	char cluster[512];
	const char *argv[MEMBER_ARGS] = { "etcd", "--name", m->name, "--data-dir", m->dir,
		"--listen-client-urls", m->client, "--advertise-client-urls", m->client,
		"--listen-peer-urls", m->peer, "--initial-advertise-peer-urls", m->peer,
		"--initial-cluster", cluster, "--heartbeat-interval", "20", "--election-timeout",
		"200", "--unsafe-no-fsync", "--logger", "zap" };
	int n = 0, log[2];

	members_cluster(cluster, sizeof(cluster));
	while (argv[n])
		n++;
	for (int i = 0; more && more[i]; i++)
		argv[n++] = more[i];
	ck_assert_int_lt(n, MEMBER_ARGS);
	ck_assert_int_eq(pipe2(log, O_CLOEXEC), 0);
	/* Room for all that it prints: no process reads it unless it does not start. */
	fcntl(log[1], F_SETPIPE_SZ, LOG_BYTES);
	m->pid = fork();
	if (m->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(log[1], 1);
		dup2(log[1], 2);
		execvp("etcd", (char **)(void *)argv);
		_exit(127);
	}
	ck_assert_int_gt(m->pid, 0);
	close(log[1]);
	m->log = log[0];
}

/* Until it serves, and so has a leader. */
static inline void member_wait(struct member *m)
{
	static char text[LOG_BYTES];
	size_t len = 0;
	ssize_t n;

	while ((n = read(m->log, text + len, sizeof(text) - 1 - len)) > 0) {
		len += (size_t)n;
		text[len] = '\0';
		if (strstr(text, "serving client traffic"))
			return;
	}
	ck_abort_msg("etcd has not started: ...%s", text + (len > 2000 ? len - 2000 : 0));
}

static inline void member_kill(struct member *m, int signo)
{
	if (m->pid <= 0)
		return;
	kill(m->pid, signo);
	kill(m->pid, SIGCONT);
	ck_assert_int_eq(waitpid(m->pid, NULL, 0), m->pid);
	m->pid = 0;
	close(m->log);
}

/* Returns when it stands still; kill() alone returns before each of its threads does. */
static inline void member_stop(struct member *m)
{
	int status;

	ck_assert_int_eq(kill(m->pid, SIGSTOP), 0);
	ck_assert_int_eq(waitpid(m->pid, &status, WUNTRACED), m->pid);
	ck_assert(WIFSTOPPED(status));
}

static inline int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static inline void members_end(void)
{
	for (int i = 0; i < n_members; i++)
		member_kill(&members[i], SIGKILL);
	if (real_dir[0])
		nftw(real_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	real_dir[0] = '\0';
}

static inline void members_start(int n)
{
	members_plan(n, "http");
	for (int i = 0; i < n; i++)
		member_start(&members[i], NULL);
	for (int i = 0; i < n; i++)
		member_wait(&members[i]);
}
