/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/process/cgroup.h"

#include "common/base/cgroup_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct cgroup {
	char *own; /* directory of the agent's own cgroup */
	char *dir; /* the run's: has the limits; killing it kills all */
	int fd;
	char leaf[24]; /* the attempt's, "" before the first */
	int leaf_fd;
	bool limits_lost; /* dir was made again, without limits */
};

int cgroup_new(const char *run, struct cgroup **ret)
{
	const char *off = getenv("ELASTIC_CGROUP");
	_cleanup_free_ char *own = NULL;
	_cleanup_(cgroup_freep) struct cgroup *c = NULL;

	*ret = NULL;
	if (off && !strcmp(off, "off"))
		return 0;
	own = cgroup_dir_of(getpid(), NULL);
	if (!own)
		return 0;
	c = calloc(1, sizeof(*c));
	if (!c)
		return -ENOMEM;
	c->fd = c->leaf_fd = -1;
	c->own = TAKE_PTR(own);
	if (asprintf(&c->dir, "%s/elastic.%s", c->own, run) < 0)
		return -ENOMEM;
	if (mkdir(c->dir, 0755) < 0 && errno != EEXIST) {
		free(c->dir);
		c->dir = NULL;
		return 0;
	}
	c->fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* Kernels before 5.14 have no cgroup.kill; a foreign directory may not be written. */
	if (c->fd < 0 || faccessat(c->fd, "cgroup.kill", W_OK, AT_EACCESS) < 0 ||
		faccessat(c->fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
		return 0;
	*ret = TAKE_PTR(c);
	return 0;
}

static void cgroup_remove_leaves(const struct cgroup *c)
{
	_cleanup_dir_ DIR *d = opendir(c->dir);
	struct dirent *e;

	while (d && (e = readdir(d)))
		if (e->d_type == DT_DIR && e->d_name[0] == 'a')
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
}

struct cgroup *cgroup_drop(struct cgroup *c)
{
	if (!c)
		return NULL;
	close_fd(c->leaf_fd);
	close_fd(c->fd);
	free(c->dir);
	free(c->own);
	free(c);
	return NULL;
}

struct cgroup *cgroup_free(struct cgroup *c)
{
	if (c && c->dir) {
		cgroup_remove_leaves(c);
		rmdir(c->dir);
	}
	return cgroup_drop(c);
}

void cgroup_begin(struct cgroup *c, int attempt)
{
	if (!c)
		return;
	c->leaf_fd = close_fd(c->leaf_fd);
	if (c->leaf[0])
		unlinkat(c->fd, c->leaf, AT_REMOVEDIR); /* fails while a process is in it */
	snprintf(c->leaf, sizeof(c->leaf), "a%d", attempt);
	(void)!cgroup_make_again(c);
}

static int cgroup_make_leaf(struct cgroup *c)
{
	if (mkdirat(c->fd, c->leaf, 0755) < 0 && errno != EEXIST)
		return -errno;
	c->leaf_fd = openat(c->fd, c->leaf, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return c->leaf_fd < 0 ? -errno : 0;
}

int cgroup_make_again(struct cgroup *c)
{
	int r;

	c->leaf_fd = close_fd(c->leaf_fd);
	r = cgroup_make_leaf(c);
	if (r != -ENOENT || mkdir(c->dir, 0755) < 0)
		return r;
	c->limits_lost = true;
	close_fd(c->fd);
	c->fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return c->fd < 0 ? -errno : cgroup_make_leaf(c);
}

bool cgroup_limits_lost(struct cgroup *c)
{
	bool lost = c && c->limits_lost;

	if (lost)
		c->limits_lost = false;
	return lost;
}

int cgroup_fd(const struct cgroup *c)
{
	return c ? c->leaf_fd : -1;
}

const char *cgroup_dir(const struct cgroup *c)
{
	return c ? c->dir : NULL;
}

void cgroup_close(struct cgroup *c)
{
	if (c)
		c->fd = close_fd(c->fd);
}

void cgroup_reopen(struct cgroup *c)
{
	if (c && c->fd < 0)
		c->fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int cgroup_write(int dir, const char *file, const char *text)
{
	_cleanup_close_ int fd = openat(dir, file, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

static int cgroup_read(int dir, const char *file, char *buf, size_t size)
{
	_cleanup_close_ int fd = openat(dir, file, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return -errno;
	n = read(fd, buf, size - 1);
	if (n < 0)
		return -errno;
	buf[n] = '\0';
	return 0;
}

int cgroup_kill(struct cgroup *c)
{
	return c ? cgroup_write(c->fd, "cgroup.kill", "1") : -ENOENT;
}

bool cgroup_populated(const struct cgroup *c)
{
	char buf[128];

	return c && !cgroup_read(c->fd, "cgroup.events", buf, sizeof(buf)) &&
	       strstr(buf, "populated 1");
}

void cgroup_usage(const struct cgroup *c, int64_t *ret_memory_bytes, int64_t *ret_cpu_ms)
{
	char text[1024] = "";
	const char *at = NULL;

	if (c && !cgroup_read(c->fd, "cpu.stat", text, sizeof(text)))
		at = strstr(text, "usage_usec ");
	*ret_cpu_ms = at ? strtoll(at + strlen("usage_usec "), NULL, 10) / 1000 : -1;
	*ret_memory_bytes = -1;
	if (c && !cgroup_read(c->fd, "memory.current", text, sizeof(text)) && *text)
		*ret_memory_bytes = strtoll(text, NULL, 10);
}

/* Moves the agent and its guard to a leaf, since only leaves may hold processes. */
static void cgroup_leave_inner(int own)
{
	char pids[2][16];

	if (mkdirat(own, "agent", 0755) < 0 && errno != EEXIST)
		return;
	snprintf(pids[0], sizeof(pids[0]), "%d", (int)getppid());
	snprintf(pids[1], sizeof(pids[1]), "%d", (int)getpid());
	for (int i = 0; i < 2; i++)
		(void)cgroup_write(own, "agent/cgroup.procs", pids[i]);
}

static int cgroup_enable(struct cgroup *c, const char *controller, bool exclusive)
{
	_cleanup_close_ int own = open(c->own, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char text[32];
	int r;

	if (own < 0)
		return -errno;
	snprintf(text, sizeof(text), "+%s", controller);
	r = cgroup_write(own, "cgroup.subtree_control", text);
	if (r == -EBUSY && exclusive) {
		cgroup_leave_inner(own);
		r = cgroup_write(own, "cgroup.subtree_control", text);
	}
	return r;
}

static int cgroup_limit_error(struct error *err, int error, const char *key, const char *controller)
{
	if (!controller)
		return error_field(
			err, error, key, "not enforced: no writable cgroup v2 on this host");
	if (error == -ENOENT)
		return error_field(err, error, key,
			"not enforced: the %s controller is not available here in cgroup v2",
			controller);
	return error_field(err, error, key, "not enforced: %s", strerror(-error));
}

int cgroup_limit(
	struct cgroup *c, const struct spec_resources *res, bool exclusive, struct error *err)
{
	const struct {
		const char *key, *controller, *file;
		int64_t value;
	} limits[] = {
		{ "resources.memory_max", "memory", "memory.max", res->memory_max },
		{ "resources.cpu_weight", "cpu", "cpu.weight", res->cpu_weight },
		{ "resources.tasks_max", "pids", "pids.max", res->tasks_max },
	};
	int result = 0;

	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		char text[32];
		int r;

		if (limits[i].value == SPEC_UNSET)
			continue;
		snprintf(text, sizeof(text), "%" PRId64, limits[i].value);
		r = c ? cgroup_enable(c, limits[i].controller, exclusive) : -ENOENT;
		if (!r)
			r = cgroup_write(c->fd, limits[i].file, text);
		if (r < 0 && !result)
			result = cgroup_limit_error(
				err, r, limits[i].key, c ? limits[i].controller : NULL);
	}
	return result;
}
