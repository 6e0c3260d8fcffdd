/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The tests of logs share these: a directory and a loop of their own, files, and pipes as consoles.
 */

#include "common/loop/loop.h"

#include <check.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

struct logtest {
	char dir[64];
	struct loop *loop;
	int fds[16], n_fds; /* closed at the end */
};

static struct logtest *logtest_self;

/* Runs the loop until cond holds; the test's own time limit ends it otherwise. */
#define LOGTEST_UNTIL(t, cond)                          \
	do {                                            \
		while (!(cond))                         \
			loop_run_once((t)->loop, true); \
	} while (0)

/* One of a few static buffers. */
static inline const char *logtest_path(const struct logtest *t, const char *name)
{
	static char path[4][PATH_MAX];
	static int turn;

	turn = (turn + 1) % 4;
	snprintf(path[turn], PATH_MAX, "%s/%s", t->dir, name);
	return path[turn];
}

static inline void logtest_init(struct logtest *t)
{
	*t = (struct logtest){ 0 };
	logtest_self = t;
	snprintf(t->dir, sizeof(t->dir), "/tmp/logtest.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(t->dir));
	ck_assert_int_eq(loop_new(&t->loop), 0);
}

static inline void logtest_fini(struct logtest *t)
{
	char command[128];

	umount2(logtest_path(t, "disk"), MNT_DETACH);
	loop_free(t->loop);
	for (int i = 0; i < t->n_fds; i++)
		close(t->fds[i]);
	snprintf(command, sizeof(command), "rm -rf %s", t->dir);
	ck_assert_int_eq(system(command), 0);
}

static inline void logtest_pipe(int *ret_read, int *ret_write)
{
	int fds[2];

	ck_assert_int_eq(pipe2(fds, O_CLOEXEC), 0);
	*ret_read = fds[0];
	*ret_write = fds[1];
	logtest_self->fds[logtest_self->n_fds++] = fds[0];
	logtest_self->fds[logtest_self->n_fds++] = fds[1];
}

static inline const char *logtest_read(
	const struct logtest *t, const char *name, char *text, size_t size)
{
	FILE *f = fopen(logtest_path(t, name), "r");
	size_t n;

	ck_assert_msg(f != NULL, "%s is missing", name);
	n = fread(text, 1, size - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static inline void logtest_write(const struct logtest *t, const char *name, const char *text)
{
	FILE *f = fopen(logtest_path(t, name), "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static inline void logtest_say(int fd, const char *text)
{
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/*
 * A directory "disk" of its own file system with so few bytes and 64 files, in a mount name space
 * of the test's process alone. Returns false where that is not allowed.
 */
static inline bool logtest_small_disk(const struct logtest *t, size_t bytes)
{
	char options[64];

	snprintf(options, sizeof(options), "size=%zu,nr_inodes=64,mode=0755", bytes);
	return mkdir(logtest_path(t, "disk"), 0755) == 0 && unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("tmpfs", logtest_path(t, "disk"), "tmpfs", 0, options) == 0;
}

/* The bytes in the pipe now. */
static inline const char *logtest_console(int fd)
{
	static char text[262144];
	size_t n = 0;
	ssize_t r;

	ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	while ((r = read(fd, text + n, sizeof(text) - 1 - n)) > 0)
		n += r;
	text[n] = '\0';
	return text;
}

/* The line with this beginning among what has come to a pipe; NULL: not yet. The bytes that a pipe
 * takes at once may end anywhere, so the end of what came before is looked at again. Borrowed until
 * the next call. For one pipe of a test. */
static inline const char *logtest_line(int fd, const char *beginning)
{
	static char text[262144 + 256];
	size_t len = strlen(text), kept = len < 255 ? len : 255;
	const char *line;

	memmove(text, text + len - kept, kept);
	strcpy(text + kept, logtest_console(fd));
	line = strstr(text, beginning);
	return line && strchr(line, '\n') ? line : NULL;
}
