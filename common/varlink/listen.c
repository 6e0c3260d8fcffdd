/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection that cannot be accepted stays in the kernel's queue and would be reported again at
 * once. So when descriptors have run out the listeners rest for a moment; if that does not help,
 * waiting connections are accepted with the spare descriptor and closed, so that the peers notice.
 */
#include "common/base/log.h"
#include "common/varlink/private.h"
#include "common/varlink/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#define REST_MS 100
/* Few, so that connections that have ended are closed before many new ones count against the limit.
 */
#define ACCEPTS_PER_TURN 16
#define DROPS_PER_TURN 256
/* The same, of those that cost next to nothing: they stand in front of others in the kernel's
 * queue.
 */
#define LEFT_PER_TURN 128

struct varlink_listener {
	struct varlink_server *server;
	TAILQ_ENTRY(varlink_listener) entry;
	int fd;
	struct loop_fd *watch;
	char *path; /* to be removed, unless the file was replaced */
	dev_t dev;
	ino_t ino;
};

static void listener_free(struct varlink_listener *l)
{
	struct stat st;

	loop_fd_free(l->watch);
	close_fd(l->fd);
	if (l->path && lstat(l->path, &st) == 0 && st.st_dev == l->dev && st.st_ino == l->ino)
		unlink(l->path);
	free(l->path);
	free(l);
}

static void watch_all(struct varlink_server *s, int events)
{
	struct varlink_listener *l;
	int r;

	TAILQ_FOREACH (l, &s->listeners, entry) {
		r = loop_fd_set(l->watch, events);
		if (r < 0)
			log_debug("varlink: cannot watch a listening socket: %s", strerror(-r));
	}
}

static void on_rested(void *arg)
{
	watch_all(arg, LOOP_READ);
}

static void pause_accepting(struct varlink_server *s)
{
	watch_all(s, 0);
	loop_timer_arm(s->accept_again, REST_MS);
}

static void drop_waiting(struct varlink_server *s, int listening)
{
	int fd;

	s->spare_fd = close_fd(s->spare_fd);
	for (int i = 0; i < DROPS_PER_TURN; i++) {
		fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC);
		if (fd < 0)
			break;
		close(fd);
	}
	s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void accept_failed(struct varlink_server *s, int listening, int error)
{
	log_debug("varlink: cannot accept a connection: %s", strerror(error));
	if (error == EMFILE && s->exhausted)
		drop_waiting(s, listening);
	s->exhausted = true;
	pause_accepting(s);
}

void varlink_listen_send_error(
	const struct varlink_server *s, int fd, const char *error, json_t *parameters)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_json_ json_t *p = parameters;
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	struct varlink_out out = { .parameters = p };

	if (asprintf(&name, "%s.%s", s->interfaces[VARLINK_OWN].idl->name, error) < 0)
		name = NULL;
	out.error = name;
	if (!name || varlink_buffer_message(&b, &out, s->limits.reply_bytes) < 0 ||
		varlink_buffer_send(&b, fd, SIZE_MAX) != 0)
		log_debug("varlink: could not tell a connection that it is refused");
}

void varlink_listen_refuse(const struct varlink_server *s, int fd, const char *what, int64_t limit)
{
	log_debug("varlink: refusing a connection over the limit of %" PRId64 " %s", limit, what);
	varlink_listen_send_error(s, fd, VARLINK_LIMIT_ERROR, varlink_limit_error(what, limit));
}

/* Whether the peer has gone without a word. */
static bool has_left(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* Accepts some connections; returns whether more may be waiting. */
static bool accept_some(const struct varlink_listener *l)
{
	struct varlink_server *s = l->server;
	struct error err;
	int served = 0;

	for (int i = 0; i < LEFT_PER_TURN && served < ACCEPTS_PER_TURN; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0 && errno == EAGAIN)
			return false;
		if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		if (fd < 0) {
			accept_failed(s, l->fd, errno);
			return false;
		}
		s->exhausted = false;
		if (has_left(fd)) {
			close(fd);
			continue;
		}
		served++;
		if (varlink_connection_new(s, fd, &err) < 0)
			log_debug("varlink: cannot serve a connection: %s", err.text);
	}
	return true;
}

static void on_waiting(int listening, int events, void *arg)
{
	(void)accept_some(arg);
}

void varlink_listen_accept(struct varlink_server *s)
{
	struct varlink_listener *l;

	TAILQ_FOREACH (l, &s->listeners, entry)
		for (int i = 0; i < DROPS_PER_TURN / ACCEPTS_PER_TURN; i++)
			if (!accept_some(l))
				break;
}

static int listener_add(
	struct varlink_server *s, int fd, struct varlink_listener **ret, struct error *err)
{
	struct varlink_listener *l = calloc(1, sizeof(*l));
	int r;

	if (!l) {
		close(fd);
		return error_set(err, -ENOMEM, "out of memory");
	}
	*l = (struct varlink_listener){ .server = s, .fd = fd };
	r = loop_fd_new(s->loop, fd, LOOP_READ, on_waiting, l, &l->watch);
	if (r == 0 && !s->accept_again)
		r = loop_timer_new(s->loop, on_rested, s, &s->accept_again);
	if (r < 0) {
		listener_free(l);
		return error_set(err, r, "cannot watch a listening socket: %s", strerror(-r));
	}
	if (s->spare_fd < 0)
		s->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	TAILQ_INSERT_TAIL(&s->listeners, l, entry);
	*ret = l;
	return 0;
}

int varlink_server_listen_fd(struct varlink_server *s, int fd, struct error *err)
{
	struct varlink_listener *l;
	int flags = fcntl(fd, F_GETFL);
	int r;

	/* listen() again makes peers see this process's credentials, not those of the process that
	 * bound the socket and passed it on. */
	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
		fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || listen(fd, SOMAXCONN) < 0) {
		r = error_set(err, -errno, "descriptor %d: cannot listen: %s", fd, strerror(errno));
		close_fd(fd);
		return r;
	}
	return listener_add(s, fd, &l, err);
}

int varlink_server_listen_path(
	struct varlink_server *s, const char *path, mode_t mode, struct error *err)
{
	_cleanup_free_ char *copy = strdup(path);
	struct varlink_listener *l;
	struct stat st;
	int fd, r;

	if (!copy)
		return error_set(err, -ENOMEM, "out of memory");
	r = varlink_socket_listen(path, mode, &fd, &st, err);
	if (r < 0)
		return r;
	r = listener_add(s, fd, &l, err);
	if (r < 0) {
		unlink(path);
		return r;
	}
	l->path = TAKE_PTR(copy);
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	return 0;
}

void varlink_listen_fini(struct varlink_server *s)
{
	struct varlink_listener *l;

	while ((l = TAILQ_FIRST(&s->listeners))) {
		TAILQ_REMOVE(&s->listeners, l, entry);
		listener_free(l);
	}
	s->accept_again = loop_timer_free(s->accept_again);
	s->spare_fd = close_fd(s->spare_fd);
}
