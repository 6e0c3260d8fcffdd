/* SPDX-License-Identifier: Apache-2.0 */
#include "common/base/proc.h"

#include "common/base/cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

static int proc_open(pid_t pid, const char *file)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	return fd;
}

/* The fields after the name, which is the only one that can hold spaces and parentheses. */
static int proc_parse_stat(char *text, struct proc_stat *ret)
{
	char *open_paren = strchr(text, '(');
	char *close_paren = strrchr(text, ')');
	unsigned long utime, stime, rss;
	unsigned long long start;
	int ppid, pgrp, session;
	char state;
	long tick = sysconf(_SC_CLK_TCK);

	if (!open_paren || !close_paren || close_paren < open_paren)
		return -EBADMSG;
	if (sscanf(close_paren + 1,
		    " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu "
		    "%*u %lu",
		    &state, &ppid, &pgrp, &session, &utime, &stime, &start, &rss) != 8)
		return -EBADMSG;
	*close_paren = '\0';
	ret->pid = (pid_t)strtol(text, NULL, 10);
	ret->ppid = ppid;
	ret->pgrp = pgrp;
	ret->session = session;
	ret->state = state;
	ret->cpu_ms = (uint64_t)(utime + stime) * 1000 / (uint64_t)tick;
	ret->rss_bytes = (uint64_t)rss * (uint64_t)sysconf(_SC_PAGESIZE);
	ret->start_ticks = start;
	snprintf(ret->comm, sizeof(ret->comm), "%s", open_paren + 1);
	return 0;
}

int proc_stat_read(pid_t pid, struct proc_stat *ret)
{
	_cleanup_close_ int fd = proc_open(pid, "stat");
	char buf[1024];
	ssize_t n;

	if (fd < 0)
		return fd;
	n = read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		return n < 0 ? -errno : -ESRCH;
	buf[n] = '\0';
	return proc_parse_stat(buf, ret);
}

struct proc_list {
	struct proc_stat *procs;
	size_t n, cap;
};

/* Adds a process, unless it is gone. Returns 0 or -ENOMEM. */
static int proc_list_add(struct proc_list *l, pid_t pid)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 16;
		struct proc_stat *bigger = reallocarray(l->procs, cap, sizeof(*bigger));

		if (!bigger)
			return -ENOMEM;
		l->procs = bigger;
		l->cap = cap;
	}
	if (!proc_stat_read(pid, &l->procs[l->n]))
		l->n++;
	return 0;
}

/* Hands the list to the caller where r is 0, else frees it. Returns r. */
static int proc_list_end(struct proc_list *l, int r, struct proc_stat **ret, size_t *ret_n)
{
	if (r < 0) {
		free(l->procs);
		return r;
	}
	*ret = l->procs;
	*ret_n = l->n;
	return 0;
}

/* Adds the children of one thread. */
static int proc_list_children(struct proc_list *l, int task_dir, const char *tid)
{
	_cleanup_close_ int fd = -1;
	_cleanup_file_ FILE *f = NULL;
	char path[64];
	int pid, r = 0;

	snprintf(path, sizeof(path), "%.32s/children", tid);
	fd = openat(task_dir, path, O_RDONLY | O_CLOEXEC);
	f = fd < 0 ? NULL : fdopen(fd, "r");
	if (!f)
		return fd < 0 && errno == ENOENT ? 0 : -errno;
	TAKE_FD(fd);
	while (!r && fscanf(f, "%d", &pid) == 1)
		r = proc_list_add(l, pid);
	return r;
}

/* Adds the children of all threads of a process. */
static int proc_list_below(struct proc_list *l, pid_t pid)
{
	_cleanup_dir_ DIR *d = NULL;
	struct dirent *e;
	char path[64];
	int r = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	while (!r && d && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]))
			r = proc_list_children(l, dirfd(d), e->d_name);
	return r;
}

int proc_stat_all(struct proc_stat **ret, size_t *ret_n)
{
	_cleanup_dir_ DIR *d = opendir("/proc");
	struct proc_list l = { 0 };
	struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (!r && (e = readdir(d)))
		if (isdigit((unsigned char)e->d_name[0]))
			r = proc_list_add(&l, (pid_t)strtol(e->d_name, NULL, 10));
	return proc_list_end(&l, r, ret, ret_n);
}

int proc_stat_below(pid_t root, struct proc_stat **ret, size_t *ret_n)
{
	struct proc_list l = { 0 };
	int r;

	if (access("/proc/thread-self/children", R_OK) < 0) {
		r = proc_stat_all(ret, ret_n);
		if (!r)
			*ret_n = proc_keep_descendants(*ret, *ret_n, root);
		return r;
	}
	r = proc_list_below(&l, root);
	for (size_t i = 0; !r && i < l.n; i++)
		r = proc_list_below(&l, l.procs[i].pid);
	return proc_list_end(&l, r, ret, ret_n);
}

size_t proc_keep_descendants(struct proc_stat *procs, size_t n, pid_t root)
{
	size_t kept = 0;
	bool grew = true;

	/* Moves the descendants to the front; each pass adds children of those found. */
	while (grew) {
		grew = false;
		for (size_t i = kept; i < n; i++) {
			bool mine = procs[i].ppid == root;

			for (size_t k = 0; k < kept && !mine; k++)
				mine = procs[i].ppid == procs[k].pid;
			if (mine && procs[i].pid != root) {
				struct proc_stat found = procs[i];

				procs[i] = procs[kept];
				procs[kept++] = found;
				grew = true;
			}
		}
	}
	return kept;
}

/*
 * Whether total bytes were all of pid's environment: 0 if so, -EAGAIN if execve() or the end of the
 * process cut the reading short. The kernel sets the new memory's fields of stat in this order:
 * env_start and env_end (50, 51; first at the same address, which is also how an empty environment
 * looks), env_end again, then end_code (27), which is 0 until then.
 */
static int proc_environ_all(pid_t pid, uint64_t total)
{
	_cleanup_close_ int fd = proc_open(pid, "stat");
	char path[32], exe[8], buf[2048];
	uint64_t end_code = 0, start;
	char *p;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (fd < 0 || readlink(path, exe, sizeof(exe)) < 0)
		return -ESRCH; /* dead, or a kernel thread */
	n = read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		return -ESRCH;
	buf[n] = '\0';
	p = strrchr(buf, ')');
	for (int field = 2; p && field < 50; field++) {
		p = strchr(p + 1, ' ');
		if (p && field == 26)
			end_code = strtoull(p, NULL, 10);
	}
	if (!p)
		return -EINVAL;
	start = strtoull(p, &p, 10);
	return end_code && start && strtoull(p, NULL, 10) - start == total ? 0 : -EAGAIN;
}

/* With ret NULL, searches a whole entry; else an entry that begins so, and ret gets the rest. */
static int proc_environ_find(pid_t pid, const char *entry, char *ret, size_t size)
{
	_cleanup_close_ int fd = proc_open(pid, "environ");
	size_t want = strlen(entry);
	char buf[16384];
	uint64_t total = 0;
	size_t have = 0;
	bool skip = false;
	ssize_t n;

	if (fd < 0)
		return fd;
	while ((n = read(fd, buf + have, sizeof(buf) - have)) > 0) {
		char *p = buf, *end = buf + have + n, *nul;

		total += (uint64_t)n;
		while ((nul = memchr(p, '\0', (size_t)(end - p)))) {
			size_t len = (size_t)(nul - p);

			if (!skip && (ret ? len >= want : len == want) && !memcmp(p, entry, want)) {
				if (ret)
					snprintf(ret, size, "%s", p + want);
				return 1;
			}
			skip = false;
			p = nul + 1;
		}
		have = (size_t)(end - p);
		if (have == sizeof(buf)) { /* an entry longer than the buffer is not ours */
			skip = true;
			have = 0;
		}
		memmove(buf, p, have);
	}
	if (n < 0)
		return -errno;
	return proc_environ_all(pid, total);
}

int proc_environ_has(pid_t pid, const char *entry)
{
	return proc_environ_find(pid, entry, NULL, 0);
}

int proc_environ_get(pid_t pid, const char *prefix, char *ret, size_t size)
{
	return proc_environ_find(pid, prefix, ret, size);
}

int proc_uid(pid_t pid, uid_t *ret)
{
	_cleanup_close_ int fd = proc_open(pid, "status");
	char buf[2048];
	const char *at;
	unsigned long uid;
	ssize_t n;
	char *end;

	if (fd < 0)
		return fd;
	n = read(fd, buf, sizeof(buf) - 1);
	if (n <= 0)
		return n < 0 ? -errno : -ESRCH;
	buf[n] = '\0';
	at = strstr(buf, "\nUid:\t");
	if (!at)
		return -EBADMSG;
	uid = strtoul(at + 6, &end, 10);
	if (*end != '\t')
		return -EBADMSG;
	*ret = (uid_t)uid;
	return 0;
}

bool proc_in_cgroup(pid_t pid, const char *name)
{
	_cleanup_close_ int fd = proc_open(pid, "cgroup");
	size_t len = strlen(name);
	char buf[4096];
	const char *at;
	ssize_t n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);

	if (n <= 0 || !len)
		return false;
	buf[n] = '\0';
	at = strstr(buf, "0::/");
	while (at && at > buf && at[-1] != '\n')
		at = strstr(at + 1, "0::/");
	for (at = at ? at + 3 : NULL; at && *at == '/'; at += strcspn(at, "/\n"))
		if (!strncmp(++at, name, len) && strchr("/\n", at[len]))
			return true;
	return false;
}

int proc_pidfd(pid_t pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -errno : fd;
}

int proc_pidfd_kill(int pidfd, int signo)
{
	return syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0) < 0 ? -errno : 0;
}

int proc_kill(const struct proc_stat *p, int signo)
{
	_cleanup_close_ int pidfd = proc_pidfd(p->pid);
	struct proc_stat again;
	int r;

	if (pidfd < 0 && pidfd != -ENOSYS && pidfd != -EPERM)
		return pidfd;
	r = proc_stat_read(p->pid, &again);
	if (r < 0)
		return r;
	if (again.start_ticks != p->start_ticks)
		return -ESRCH;
	if (pidfd >= 0)
		return proc_pidfd_kill(pidfd, signo);
	/* Some containers' filters refuse pidfds: the check above has to be enough. */
	return kill(p->pid, signo) < 0 ? -errno : 0;
}
