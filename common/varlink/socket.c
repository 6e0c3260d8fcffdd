/* SPDX-License-Identifier: Apache-2.0 */
#include "common/varlink/socket.h"

#include "common/base/user_name.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

struct address {
	struct sockaddr_un sun;
	int dir; /* -1 if the path itself fits */
};

static void address_fini(struct address *a)
{
	close_fd(a->dir);
}

static int address_init(struct address *a, const char *path, struct error *err)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *dir = NULL;
	int n;

	*a = (struct address){ .sun.sun_family = AF_UNIX, .dir = -1 };
	if (!*path)
		return error_set(err, -EINVAL, "a socket's path is empty");
	if (strlen(path) < sizeof(a->sun.sun_path)) {
		strcpy(a->sun.sun_path, path);
		return 0;
	}
	dir = slash ? strndup(path, slash - path + 1) : strdup(".");
	if (!dir)
		return error_set(err, -ENOMEM, "out of memory");
	a->dir = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (a->dir < 0)
		return error_set(err, -errno, "%s: %s", path, strerror(errno));
	n = snprintf(a->sun.sun_path, sizeof(a->sun.sun_path), "/proc/self/fd/%d/%s", a->dir,
		slash ? slash + 1 : path);
	if (n >= (int)sizeof(a->sun.sun_path))
		return error_set(err, -ENAMETOOLONG, "%s: too long for a socket's name", path);
	return 0;
}

int varlink_socket_connect(const char *path, int flags, int *ret, struct error *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
	_cleanup_(address_fini) struct address a = { .dir = -1 };
	int r;

	if (fd < 0)
		return error_set(
			err, -errno, "%s: cannot make a socket: %s", path, strerror(errno));
	r = address_init(&a, path, err);
	if (r < 0)
		return r;
	do
		r = connect(fd, (struct sockaddr *)&a.sun, sizeof(a.sun));
	while (r < 0 && errno == EINTR);
	if (r < 0)
		return error_set(err, -errno, "%s: cannot connect: %s", path, strerror(errno));
	*ret = TAKE_FD(fd);
	return 0;
}

int varlink_socket_check_peer(int fd, const char *path, uid_t trusted, struct error *err)
{
	char peer[USER_NAME_MAX], own[USER_NAME_MAX], named[USER_NAME_MAX];
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) < 0)
		return error_set(
			err, -EPERM, "%s: cannot see who listens there: %s", path, strerror(errno));
	if (cred.uid == 0 || cred.uid == geteuid() || (trusted != (uid_t)-1 && cred.uid == trusted))
		return 0;
	return error_set(err, -EPERM, "%s: user %s listens there, expected %s%s%s%s", path,
		user_name(cred.uid, peer), geteuid() == 0 ? "" : "root or ",
		user_name(geteuid(), own), trusted == (uid_t)-1 ? "" : " or ",
		trusted == (uid_t)-1 ? "" : user_name(trusted, named));
}

/* Returns 0 if path is free or a socket on which no process listens. */
static int check_stale(const char *path, struct error *err)
{
	_cleanup_close_ int fd = -1;
	struct error ignored;
	struct stat st;
	int r;

	if (lstat(path, &st) < 0)
		return errno == ENOENT ? 0
				       : error_set(err, -errno, "%s: %s", path, strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return error_set(err, -EEXIST, "%s: is in the way and not a socket", path);
	r = varlink_socket_connect(path, SOCK_NONBLOCK, &fd, &ignored);
	if (r == -ECONNREFUSED || r == -ENOENT)
		return 0;
	/* connect() worked, the backlog is full, or access was denied: a process listens. */
	return error_set(err, -EADDRINUSE, "%s: another process listens there already", path);
}

/* Binds a short temporary name beside path, until the socket has its mode. */
static int bind_beside(int fd, const char *path, mode_t mode, char **ret_name, struct error *err)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *name = NULL;
	_cleanup_(address_fini) struct address a = { .dir = -1 };
	int r;

	if (asprintf(&name, "%.*s.s-%d", slash ? (int)(slash - path + 1) : 0, path, getpid()) < 0) {
		name = NULL;
		return error_set(err, -ENOMEM, "out of memory");
	}
	r = address_init(&a, name, err);
	if (r < 0)
		return r;
	/* Left by a killed process that had the same pid. */
	unlink(name);
	if (bind(fd, (struct sockaddr *)&a.sun, sizeof(a.sun)) < 0)
		return error_set(err, -errno, "%s: cannot bind: %s", path, strerror(errno));
	if (chmod(name, mode) < 0 || listen(fd, SOMAXCONN) < 0) {
		r = error_set(err, -errno, "%s: cannot listen: %s", path, strerror(errno));
		unlink(name);
		return r;
	}
	*ret_name = TAKE_PTR(name);
	return 0;
}

int varlink_socket_listen(
	const char *path, mode_t mode, int *ret, struct stat *ret_st, struct error *err)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	_cleanup_free_ char *name = NULL;
	int r;

	if (fd < 0)
		return error_set(
			err, -errno, "%s: cannot make a socket: %s", path, strerror(errno));
	r = *path ? check_stale(path, err) : error_set(err, -EINVAL, "a socket's path is empty");
	if (r == 0)
		r = bind_beside(fd, path, mode, &name, err);
	if (r < 0)
		return r;
	if (lstat(name, ret_st) < 0 || rename(name, path) < 0) {
		r = error_set(err, -errno, "%s: cannot name the socket: %s", path, strerror(errno));
		unlink(name);
		return r;
	}
	*ret = TAKE_FD(fd);
	return 0;
}

union control {
	struct cmsghdr align;
	char data[CMSG_SPACE(sizeof(int))];
};

ssize_t varlink_socket_send_fd(int fd, const void *data, size_t len, int with)
{
	union control control = { .data = { 0 } };
	struct iovec iov = { .iov_base = (void *)data, .iov_len = len };
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.data,
		.msg_controllen = sizeof(control.data) };
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	ssize_t n;

	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof(with));
	memcpy(CMSG_DATA(h), &with, sizeof(with));
	do
		n = sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

ssize_t varlink_socket_receive_fd(int fd, void *data, size_t len, int *ret_with)
{
	union control control;
	struct iovec iov = { .iov_base = data, .iov_len = len };
	/* The buffer's padding has room for a second descriptor, but only one is wanted. */
	struct msghdr m = { .msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.data,
		.msg_controllen = CMSG_LEN(sizeof(int)) };
	struct cmsghdr *h;
	ssize_t n;

	*ret_with = -1;
	n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0)
		return -errno;
	h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS &&
		h->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_with, CMSG_DATA(h), sizeof(int));
	return n;
}
