/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Access to the file system that logs are on. Workers may write to it, so every file is opened by
 * safe_open(). It may hang (an unreachable file server, a stopped FUSE program), so a thread makes
 * the calls, and the caller waits at most LOG_FS_LIMIT_MS for it. After that all calls fail with
 * -ETIMEDOUT at once until the thread has caught up: the caller does without its log, and the loop
 * goes on. For a while the allowed wait is shorter: it grows back to the limit with a twentieth of
 * the time that passes, so that a file system that hangs again and again does not take more of the
 * loop. Without the thread (other programs, children after fork()) calls are made directly. All
 * functions return 0 or a negative errno unless they say otherwise; safe_open_text() has the text
 * for people.
 */

#include "common/base/safe_open.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { LOG_FS_LIMIT_MS = 3000 };

/* Starts the thread; limit_ms: the longest that a caller waits for it. */
_must_check_ int log_fs_start(int limit_ms);
/* Ends the thread. Returns true when the file system holds it in a call: the process cannot end
 * before that call returns. */
bool log_fs_stop(void);

/* Absolute paths. The descriptors are closed with log_fs_close(). */
_must_check_ int log_fs_open(const char *path, int flags, mode_t mode);
_must_check_ int log_fs_open_dir(const char *path);
/* The names in a directory without "." and "..", owned, ended by NULL. Of a directory with too many
 * (see log_fs_usage()) only the first; that is logged once. */
_must_check_ int log_fs_names(const char *path, char ***ret);
_must_check_ int log_fs_mkdir(const char *path, mode_t mode);
/* Makes a directory and its parents. -EACCES or the like where it may not be written. The caller
 * may try another directory instead, so the second thread makes the call (see struct log_fs_op). */
_must_check_ int log_fs_make_root(const char *path, mode_t mode);
/* Does not follow links. */
_must_check_ int log_fs_stat(const char *path, struct stat *ret);
_must_check_ int log_fs_rename(const char *from, const char *to);
int log_fs_unlink(const char *path);
/* Appends all of data to a file, which is made with this mode if it is missing, or nothing of it:
 * a part that found room on a full disk is cut off again. */
int log_fs_append(const char *path, const void *data, size_t len, mode_t mode);
/* file_write_atomic(), without a sync. */
_must_check_ int log_fs_replace(const char *path, const void *data, size_t len, mode_t mode);
/* Disk space of a directory and all below it, as far as half a second and 100,000 entries allow.
 * Does not follow links. */
_must_check_ int log_fs_usage(const char *path, int64_t *ret);
/* Reads a whole regular file of at most max bytes (0: any); owned, with a NUL behind it. */
_must_check_ int log_fs_read(const char *path, size_t max, char **ret, size_t *ret_len);
/* The same, with the state of the file that was read. */
_must_check_ int log_fs_read_stat(
	const char *path, size_t max, char **ret, size_t *ret_len, struct stat *ret_stat);

/* Opens a file as a stream for reading, or returns NULL. */
FILE *log_fs_stream(const char *path);

_must_check_ int log_fs_fstat(int fd, struct stat *ret);
/* As write(). Bytes handed to the thread when the file system began to hang count as written: they
 * will be, unless the file system then fails. */
_must_check_ ssize_t log_fs_write(int fd, const void *data, size_t len);
_must_check_ ssize_t log_fs_pread(int fd, void *buf, size_t len, off_t offset);
/* inotify_add_watch(): returns the watch descriptor, or a negative errno. */
_must_check_ int log_fs_watch(int inotify_fd, const char *path, uint32_t mask);
/* Closes fd at some time, without waiting. -1 is fine. Returns -1. */
int log_fs_close(int fd);

#define _cleanup_log_fd_ _cleanup_(log_fs_closep)
static inline void log_fs_closep(int *fd)
{
	log_fs_close(*fd);
}

/* A call of the caller's own kind, embedded in a struct that owns everything the call needs. */
struct log_fs_op {
	int (*fn)(struct log_fs_op *op);    /* makes the call, in the thread */
	void (*drop)(struct log_fs_op *op); /* frees it and its results; NULL: free() */
	/* Not NULL: the call is not about the logs but about this (static text), and the second
	 * thread makes it. */
	const char *aside;
	/* private to log_fs */
	struct log_fs_op *next;
	bool done, abandoned;
	int result;
};

/* Frees a call that the thread does not have; NULL is fine. */
void log_fs_op_free(struct log_fs_op *op);
DEFINE_CLEANUP(struct log_fs_op *, log_fs_op_free)

/* Makes the call and returns the result of fn, or -ETIMEDOUT. Sets *op to NULL when the thread
 * still works on it; the thread then drops it. */
_must_check_ int log_fs_do(struct log_fs_op **op);
/* Hands the call to the thread without waiting; takes op. */
void log_fs_later(struct log_fs_op *op);
