/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host/path_watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

struct path_watch {
	char *path;
	int fd, wd;
	size_t at; /* of the path component that is waited for */
	struct loop_fd *watch;
	loop_fn fn;
	void *arg;
};

enum { TRIES = 8, MASK = IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF };

static size_t component_length(const struct path_watch *a)
{
	return strcspn(a->path + a->at, "/");
}

static bool is_awaited(const struct path_watch *a, const struct inotify_event *e)
{
	size_t n = component_length(a);

	if (e->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_Q_OVERFLOW))
		return true;
	return e->len && strlen(e->name) == n && !strncmp(e->name, a->path + a->at, n);
}

static int watch_once(struct path_watch *a)
{
	char dir[PATH_MAX];
	size_t end = strlen(a->path);

	if (a->wd >= 0)
		inotify_rm_watch(a->fd, a->wd);
	while (end > 0) {
		while (end > 0 && a->path[end - 1] != '/')
			end--;
		a->at = end;
		while (end > 1 && a->path[end - 1] == '/')
			end--;
		memcpy(dir, a->path, end);
		dir[end] = '\0';
		a->wd = inotify_add_watch(a->fd, dir, MASK | IN_ONLYDIR);
		if (a->wd >= 0 || (errno != ENOENT && errno != ENOTDIR) || end <= 1)
			break;
	}
	return a->wd < 0 ? -errno : 0;
}

static bool at_last(const struct path_watch *a)
{
	return !a->path[a->at + component_length(a)];
}

/* Whether the component was created before its directory was watched. */
static bool passed_by(const struct path_watch *a)
{
	char next[PATH_MAX];

	snprintf(next, sizeof(next), "%.*s", (int)(a->at + component_length(a)), a->path);
	return !at_last(a) && !access(next, F_OK);
}

/* Watches the deepest directory of the path that exists. */
static int watch_deepest(struct path_watch *a)
{
	int r = watch_once(a);

	for (int i = 0; i < TRIES && !r && passed_by(a); i++)
		r = watch_once(a);
	return r;
}

static void on_ready(int fd, int events, void *arg)
{
	struct path_watch *a = arg;
	union {
		struct inotify_event e;
		char bytes[4096];
	} u;
	bool hit = false;
	ssize_t n;

	while ((n = read(fd, &u, sizeof(u))) > 0)
		for (char *p = u.bytes; p < u.bytes + n;) {
			const struct inotify_event *e = (const struct inotify_event *)p;

			hit |= is_awaited(a, e);
			p += sizeof(*e) + e->len;
		}
	if (!hit)
		return;
	/* The component may have been created before the new watch: check. */
	if (watch_deepest(a) == 0 && !at_last(a))
		return;
	if (!access(a->path, F_OK))
		a->fn(a->arg);
}

struct path_watch *path_watch_free(struct path_watch *a)
{
	if (!a)
		return NULL;
	loop_fd_free(a->watch);
	close_fd(a->fd);
	free(a->path);
	free(a);
	return NULL;
}

int path_watch_new(
	struct loop *loop, const char *path, loop_fn fn, void *arg, struct path_watch **ret)
{
	struct path_watch *a = calloc(1, sizeof(*a));
	int r = 0;

	if (!a)
		return -ENOMEM;
	*a = (struct path_watch){ .fd = -1, .wd = -1, .fn = fn, .arg = arg };
	a->path = strdup(path);
	if (!a->path || strlen(path) >= PATH_MAX || path[0] != '/')
		r = a->path ? -EINVAL : -ENOMEM;
	if (!r && (a->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) < 0)
		r = -errno;
	if (!r)
		r = watch_deepest(a);
	if (!r)
		r = loop_fd_new(loop, a->fd, LOOP_READ, on_ready, a, &a->watch);
	if (r < 0) {
		path_watch_free(a);
		return r;
	}
	*ret = a;
	return 0;
}
