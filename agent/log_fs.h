/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The file system that logs are on. Workers may write to it, so every file is opened by
 * safe_open(); and it may hang (a server of files that is gone, a FUSE program that has stopped),
 * so calls to it are made by a thread of their own, for which the caller waits LOG_FS_LIMIT_MS at
 * most. From then on all calls fail with -ETIMEDOUT at once, until that thread has caught up: who
 * wanted a log goes without it, and the loop goes on. Without the thread (other programs, children
 * after fork()) calls are made directly. All return 0 or a negative errno unless they say
 * otherwise; safe_open_text() tells people what it means.
 */

#include "common/safe_open.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

enum { LOG_FS_LIMIT_MS = 3000 };

/* Starts the thread, with the time that a caller waits for it. */
_must_check_ int log_fs_start(int limit_ms);
/* Ends it; one that a file system holds is left behind. */
void log_fs_stop(void);

/* Absolute paths. The descriptors are closed with log_fs_close(). */
_must_check_ int log_fs_open(const char *path, int flags, mode_t mode);
_must_check_ int log_fs_open_dir(const char *path);
/* Names in a directory without "." and "..", owned, ended by NULL. */
_must_check_ int log_fs_names(const char *path, char ***ret);
void log_fs_names_free(char ***names);
_must_check_ int log_fs_mkdir(const char *path, mode_t mode);
/* Links are not followed. */
_must_check_ int log_fs_stat(const char *path, struct stat *ret);
_must_check_ int log_fs_rename(const char *from, const char *to);
int log_fs_unlink(const char *path);
/* file_write_atomic(), without a sync. */
_must_check_ int log_fs_replace(const char *path, const void *data, size_t len, mode_t mode);
/* Bytes on the disk of a directory and all below it, as far as they are counted in half a second
 * and in 100,000 entries; no link is followed. */
_must_check_ int log_fs_usage(const char *path, int64_t *ret);
/* The whole regular file, at most max bytes; owned, with a NUL behind it. */
_must_check_ int log_fs_read(const char *path, size_t max, char **ret, size_t *ret_len);

/* It as a stream for reading, or NULL. */
FILE *log_fs_stream(const char *path);

_must_check_ int log_fs_fstat(int fd, struct stat *ret);
/* As write(), but what was handed over when the file system began to hang counts as written: it
 * will be, or it fails as that file system does. */
_must_check_ ssize_t log_fs_write(int fd, const void *data, size_t len);
_must_check_ ssize_t log_fs_pread(int fd, void *buf, size_t len, off_t offset);
_must_check_ int log_fs_truncate(int fd, off_t size);
/* inotify_add_watch(); returns the watch's number. */
_must_check_ int log_fs_watch(int inotify_fd, const char *path, uint32_t mask);
/* Closes fd, any time, without waiting for it. -1 is fine. Returns -1. */
int log_fs_close(int fd);

#define _cleanup_log_fd_ _cleanup_(log_fs_closep)
static inline void log_fs_closep(int *fd)
{
	log_fs_close(*fd);
}

/* A call of its own kind, embedded in what it needs, which is all its own (owned). */
struct log_fs_op {
	int (*fn)(struct log_fs_op *op);    /* makes the call, in the thread */
	void (*drop)(struct log_fs_op *op); /* frees it and what it has got */
	/* log_fs's */
	struct log_fs_op *next;
	bool done, abandoned;
	int result;
};

/* Makes the call and returns what fn did, or -ETIMEDOUT. *op is NULL afterwards where the thread
 * still has it: it drops it then. */
_must_check_ int log_fs_do(struct log_fs_op **op);
/* The same without waiting; takes op. */
void log_fs_later(struct log_fs_op *op);
