/* SPDX-License-Identifier: Apache-2.0 */
#include "client/top/gpus.h"

#include "common/base/clock.h"
#include "common/base/paths.h"
#include "common/base/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GPUS_ANSWER_MAX = 1 << 20, GPUS_END_MS = 100 };

struct gpus {
	pid_t pid;
	int fd; /* its standard input and output */
	int64_t awaited_ms;
	char *text; /* of the answer that comes */
	size_t len;
};

/* Keys that the user presses send it no signal. Returns an errno. */
static int gpus_spawn(const char *program, int fd, pid_t *ret)
{
	char name[] = "elastic-agent", option[] = "--gpu-usage", *argv[] = { name, option, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t none, usual;
	int r = posix_spawn_file_actions_init(&actions);

	if (r)
		return r;
	r = posix_spawnattr_init(&attributes);
	if (r == 0) {
		sigemptyset(&none);
		sigfillset(&usual);
		posix_spawnattr_setsigmask(&attributes, &none);
		posix_spawnattr_setsigdefault(&attributes, &usual);
		posix_spawnattr_setflags(&attributes,
			POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
		r = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
		r = r ? r : posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
		r = r ? r
		      : posix_spawn_file_actions_addopen(
				&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
		r = r ? r : posix_spawn(ret, program, &actions, &attributes, argv, environ);
		posix_spawnattr_destroy(&attributes);
	}
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

int gpus_new(struct gpus **ret)
{
	_cleanup_free_ char *program = paths_agent_program(NULL, NULL);
	struct gpus *g;
	int fds[2], r;

	if (!program)
		return -ENOENT;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		return -errno;
	g = calloc(1, sizeof(*g));
	r = g ? gpus_spawn(program, fds[1], &g->pid) : ENOMEM;
	close(fds[1]);
	if (r) {
		close(fds[0]);
		free(g);
		return -r;
	}
	g->fd = fds[0];
	*ret = g;
	return 0;
}

struct gpus *gpus_free(struct gpus *g)
{
	_cleanup_close_ int pidfd = g ? proc_pidfd(g->pid) : -1;
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	if (!g)
		return NULL;
	close(g->fd);
	kill(g->pid, SIGKILL);
	/* Where it hangs in the driver, init reaps it later. */
	(void)!poll(&p, 1, GPUS_END_MS);
	(void)waitpid(g->pid, NULL, WNOHANG);
	free(g->text);
	free(g);
	return NULL;
}

int gpus_fd(const struct gpus *g)
{
	return g->fd;
}

void gpus_ask(struct gpus *g, int64_t now_ms)
{
	if (!g->awaited_ms && send(g->fd, "\n", 1, MSG_NOSIGNAL | MSG_DONTWAIT) == 1)
		g->awaited_ms = now_ms;
}

int64_t gpus_awaited_ms(const struct gpus *g)
{
	return g->awaited_ms;
}

/* Adds what has come. Returns 1 where the answer is whole, 0, or a negative errno. */
static int gpus_take(struct gpus *g)
{
	char part[4096];
	ssize_t n = recv(g->fd, part, sizeof(part), MSG_DONTWAIT);
	char *grown;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n == 0 || g->len + (size_t)n > GPUS_ANSWER_MAX)
		return -EPIPE;
	grown = realloc(g->text, g->len + (size_t)n);
	if (!grown)
		return -ENOMEM;
	g->text = grown;
	memcpy(g->text + g->len, part, (size_t)n);
	g->len += (size_t)n;
	return g->text[g->len - 1] == '\n';
}

int gpus_read(struct gpus *g, json_t **ret)
{
	int r = gpus_take(g);
	json_t *answer;

	if (r <= 0)
		return r;
	answer = json_loadb(g->text, g->len, 0, NULL);
	g->awaited_ms = 0;
	g->len = 0;
	if (!answer)
		return -EPROTO;
	*ret = answer;
	return 1;
}

int gpus_wait(struct gpus *g, int limit_ms, json_t **ret)
{
	int64_t until = monotonic_ms() + limit_ms, left;
	int r;

	while ((r = gpus_read(g, ret)) == 0 && (left = until - monotonic_ms()) > 0) {
		struct pollfd p = { .fd = g->fd, .events = POLLIN };

		(void)!poll(&p, 1, (int)left);
	}
	return r;
}
