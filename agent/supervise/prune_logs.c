/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/prune_logs.h"

#include "agent/files/file_system.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/loop/loop.h"
#include "common/text/json.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#define PRUNED ".pruned-"

enum { JOB_MAX = 16 << 20 };

struct prune_run {
	char *run, *job; /* owned */
};

/* A lock on root/name if that is a directory of this user that no agent has locked, or -1. */
static int prune_lock(int root_fd, const char *name)
{
	_cleanup_close_ int fd = safe_open_dir(root_fd, name);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
		flock(fd, LOCK_EX | LOCK_NB) < 0)
		return -1;
	return TAKE_FD(fd);
}

/* job.json of a run that has no record at elasticd; owned, or NULL. */
static json_t *prune_read_job(const char *root, const char *run)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_json_ json_t *doc = NULL;
	char path[PATH_MAX];
	size_t len;

	if (snprintf(path, sizeof(path), "%s/%s/job.json", root, run) >= (int)sizeof(path) ||
		log_fs_read(path, JOB_MAX, &text, &len) < 0)
		return NULL;
	doc = json_loadb(text, len, 0, NULL);
	if (strcmp(json_get_string(doc, "run", ""), run) != 0 || json_object_get(doc, "record"))
		return NULL;
	return TAKE_PTR(doc);
}

/* When the run's verdict was written, or else its last event, or its job.json. */
static int64_t prune_ended_us(int dir)
{
	static const char *const names[] = { "verdict.json", "events.jsonl", "job.json" };
	struct stat st;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (fstatat(dir, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			return (int64_t)st.st_mtim.tv_sec * 1000000 + st.st_mtim.tv_nsec / 1000;
	return 0;
}

/* Removes what an interrupted removal has left. */
static void prune_finish_earlier(const char *root, int root_fd, const char *name)
{
	_cleanup_close_ int lock = prune_lock(root_fd, name);
	_cleanup_free_ char *path = lock >= 0 ? paths_join(root, name) : NULL;

	if (path && file_rm_rf(path) < 0)
		log_debug("%s: cannot be removed", path);
}

static void prune_add(
	const char *root, int root_fd, const char *name, struct retention_run *runs, size_t *n)
{
	/* A run locks its directory and then writes its job.json. Without job.json do not take the
	 * lock: the run that begins needs it. */
	_cleanup_json_ json_t *doc = prune_read_job(root, name);
	_cleanup_close_ int lock = doc ? prune_lock(root_fd, name) : -1;
	_cleanup_free_ char *path = doc ? paths_join(root, name) : NULL;
	struct retention_run r = { 0 };
	struct prune_run *f;

	if (lock < 0 || !path || !(f = calloc(1, sizeof(*f))))
		return;
	f->run = strdup(name);
	f->job = strdup(json_get_string(doc, "name", ""));
	r.arg = f;
	r.ended_us = prune_ended_us(lock);
	if (log_fs_usage(path, &r.bytes) < 0)
		r.bytes = 0;
	runs[(*n)++] = r;
}

/* Removes <job>.latest if it leads to the run. */
static void prune_latest(int root_fd, const struct prune_run *f)
{
	_cleanup_free_ char *link = NULL;
	char target[NAME_MAX + 1];
	ssize_t len;

	if (asprintf(&link, "%s.latest", f->job) < 0) {
		link = NULL;
		return;
	}
	len = readlinkat(root_fd, link, target, sizeof(target) - 1);
	target[len > 0 ? len : 0] = '\0';
	if (len > 0 && !strcmp(target, f->run))
		unlinkat(root_fd, link, 0);
}

static bool prune_remove(const char *root, int root_fd, const struct prune_run *f, const char *why)
{
	_cleanup_close_ int lock = prune_lock(root_fd, f->run);
	_cleanup_free_ char *name = NULL, *path = NULL;
	int r;

	if (lock < 0)
		return false;
	if (asprintf(&name, PRUNED "%s", f->run) < 0)
		name = NULL;
	path = name ? paths_join(root, name) : NULL;
	if (!path)
		return false;
	log_notice("removing the logs of %s: %s", f->run, why);
	r = renameat(root_fd, f->run, root_fd, name) < 0 ? -errno : file_rm_rf(path);
	if (r < 0)
		log_warning("%s/%s: %s", root, f->run, strerror(-r));
	prune_latest(root_fd, f);
	return r == 0;
}

static int prune_root(const char *root, int root_fd, const struct retention *k, char **names)
{
	struct retention_run *runs;
	size_t n = 0;
	int removed = 0;

	while (names[n])
		n++;
	runs = calloc(n + 1, sizeof(*runs));
	if (!runs)
		return 0;
	n = 0;
	for (char **name = names; *name; name++) {
		if (!strncmp(*name, PRUNED, strlen(PRUNED)))
			prune_finish_earlier(root, root_fd, *name);
		else
			prune_add(root, root_fd, *name, runs, &n);
	}
	retention_choose(k, runs, n, (int64_t)loop_real_us());
	for (size_t i = 0; i < n; i++) {
		struct prune_run *f = runs[i].arg;
		char why[RETENTION_TEXT_MAX];

		if (runs[i].why != RETENTION_KEEP && f->run && f->job)
			removed +=
				prune_remove(root, root_fd, f, retention_text(k, runs[i].why, why));
		free(f->run);
		free(f->job);
		free(f);
	}
	free(runs);
	return removed;
}

int prune_logs(const char *root, const struct retention *k)
{
	_cleanup_strings_ char **names = NULL;
	_cleanup_free_ char *real = realpath(root, NULL);
	_cleanup_close_ int fd = real ? safe_open_dir(AT_FDCWD, real) : -1;

	if (fd < 0 || log_fs_names(real, &names) < 0)
		return 0;
	return prune_root(real, fd, k, names);
}

void prune_logs_start(const char *root, const struct retention *k)
{
	pid_t parent = getpid(), pid;

	if (!root || !strcmp(root, "/dev/null") || (!k->runs && !k->days && !k->bytes))
		return;
	pid = fork();
	if (pid < 0)
		log_debug("fork: %m");
	if (pid != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	prctl(PR_SET_NAME, "log-prune");
	setpriority(PRIO_PROCESS, 0, 19);
	prune_logs(root, k);
	_exit(0);
}
