/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/dump_writer.h"

#include "common/base/file.h"
#include "common/base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* Opens a new file in dir, or returns NULL: a file that cannot be written is left out. */
static FILE *dump_create(const char *dir, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", dir, name) >= (int)sizeof(path))
		return NULL;
	return fopen(path, "wxe");
}

/* Writes a file of /proc below a title, ending in a newline; or the reason why it cannot be read.
 */
static void dump_write_section(FILE *out, const char *title, pid_t pid, int tid, const char *file)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	size_t len = 0;
	int r;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, tid, file);
	r = file_read(path, 1 << 20, &text, &len);
	fprintf(out, "%s%s", title, strchr(title, '\n') ? "" : ": ");
	if (r < 0)
		fprintf(out, "(%s)\n", strerror(-r));
	else
		fprintf(out, "%s%s", text, len && text[len - 1] == '\n' ? "" : "\n");
}

static void dump_write_thread(FILE *out, pid_t pid, int tid)
{
	fprintf(out, "\n== thread %d\n", tid);
	dump_write_section(out, "name", pid, tid, "comm");
	dump_write_section(out, "waits in", pid, tid, "wchan");
	dump_write_section(out, "system call", pid, tid, "syscall");
	dump_write_section(out, "kernel stack:\n", pid, tid, "stack");
	dump_write_section(out, "status:\n", pid, tid, "status");
}

static void dump_write_threads(FILE *out, pid_t pid)
{
	char path[64];
	_cleanup_dir_ DIR *dir = NULL;
	const struct dirent *e;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	while (dir && (e = readdir(dir))) {
		int tid = atoi(e->d_name);

		if (tid <= 0)
			continue;
		if (n++ == DUMP_THREADS) {
			fprintf(out, "\n(and more threads)\n");
			return;
		}
		dump_write_thread(out, pid, tid);
	}
}

/* Writes the lines of the tables in /proc/<pid>/net about a socket with this inode. */
static void dump_write_socket(FILE *out, pid_t pid, const char *inode)
{
	static const char *const tables[] = { "tcp", "tcp6", "udp", "udp6", "unix" };

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		_cleanup_file_ FILE *f = NULL;
		_cleanup_free_ char *line = NULL;
		char path[64], word[128];
		size_t cap = 0;

		snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, tables[i]);
		snprintf(word, sizeof(word), " %.100s ", inode);
		f = fopen(path, "re");
		while (f && getline(&line, &cap, f) > 0)
			if (strstr(line, word)) {
				fprintf(out, "      %s %s", tables[i], line);
				return;
			}
	}
}

static void dump_write_descriptor(FILE *out, pid_t pid, const char *fd)
{
	char path[300], to[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.20s", (int)pid, fd);
	n = readlink(path, to, sizeof(to) - 1);
	if (n < 0)
		return;
	to[n] = '\0';
	fprintf(out, "  %s -> %s\n", fd, to);
	if (!strncmp(to, "socket:[", 8)) {
		to[n - 1] = '\0';
		dump_write_socket(out, pid, to + 8);
	}
}

static void dump_write_descriptors(FILE *out, pid_t pid)
{
	char path[64];
	_cleanup_dir_ DIR *dir = NULL;
	const struct dirent *e;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	dir = opendir(path);
	fprintf(out, "\n== open files%s%s\n", dir ? "" : ": ", dir ? "" : strerror(errno));
	while (dir && (e = readdir(dir)) && n < DUMP_DESCRIPTORS)
		if (e->d_name[0] != '.') {
			dump_write_descriptor(out, pid, e->d_name);
			n++;
		}
}

static void dump_write_command(FILE *out, pid_t pid)
{
	_cleanup_free_ char *text = NULL;
	char path[64];
	size_t len = 0;

	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	if (file_read(path, 1 << 20, &text, &len) < 0)
		return;
	for (size_t i = 0; i + 1 < len; i++)
		if (!text[i])
			text[i] = ' ';
	fprintf(out, "command: %s\n", text);
}

static void dump_write_process(const char *dir, const struct proc_stat *p)
{
	_cleanup_file_ FILE *out = NULL;
	char name[32];

	snprintf(name, sizeof(name), "%d.txt", (int)p->pid);
	out = dump_create(dir, name);
	if (!out)
		return;
	fprintf(out, "process %d (%s), parent %d, state %c\n", (int)p->pid, p->comm, (int)p->ppid,
		p->state);
	dump_write_command(out, p->pid);
	dump_write_section(out, "cgroup:\n", p->pid, p->pid, "cgroup");
	fflush(out);
	dump_write_threads(out, p->pid);
	fflush(out);
	dump_write_descriptors(out, p->pid);
}

/* Lists the worker first, then its descendants. Returns how many; ret is owned. */
static size_t dump_processes(pid_t pid, struct proc_stat **ret)
{
	struct proc_stat *procs = NULL, self;
	size_t n = 0;

	*ret = NULL;
	if (proc_stat_read(pid, &self) < 0 || proc_stat_all(&procs, &n) < 0)
		return 0;
	n = proc_keep_descendants(procs, n, pid);
	if (n > DUMP_PROCESSES - 1)
		n = DUMP_PROCESSES - 1;
	*ret = calloc(n + 1, sizeof(**ret));
	if (*ret) {
		(*ret)[0] = self;
		memcpy(*ret + 1, procs, n * sizeof(*procs));
	}
	free(procs);
	return *ret ? n + 1 : 0;
}

static void dump_write_why(const struct dump_worker *worker, const char *dir)
{
	_cleanup_file_ FILE *why = dump_create(dir, "why.txt");
	_cleanup_file_ FILE *tail = dump_create(dir, "tail.txt");
	time_t now = time(NULL);
	char text[64];
	struct tm tm;

	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S%z", localtime_r(&now, &tm));
	if (why)
		fprintf(why, "%s\n%s (rank %d, pid %d): %s\n", text, worker->name, worker->rank,
			(int)worker->pid, worker->why);
	for (size_t i = 0; tail && i < json_array_size(worker->tail); i++)
		fprintf(tail, "%s\n", json_string_value(json_array_get(worker->tail, i)));
}

void dump_write_kernel(const struct dump_worker *worker, const char *dir)
{
	_cleanup_free_ struct proc_stat *procs = NULL;
	_cleanup_file_ FILE *list = NULL;
	size_t n;

	dump_write_why(worker, dir);
	n = dump_processes(worker->pid, &procs);
	list = dump_create(dir, "processes.txt");
	for (size_t i = 0; i < n; i++) {
		if (list)
			fprintf(list,
				"pid %d parent %d state %c cpu %.3f s memory %llu KiB name %s\n",
				(int)procs[i].pid, (int)procs[i].ppid, procs[i].state,
				(double)procs[i].cpu_ms / 1000,
				(unsigned long long)procs[i].rss_bytes >> 10, procs[i].comm);
		dump_write_process(dir, &procs[i]);
	}
}
