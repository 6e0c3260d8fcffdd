/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel's log about processes that died: where a bad access was, and errors of NVIDIA's GPUs
 * (Xid). The agent reads it only when a worker has failed, from where it ended when the attempt
 * began, and up to a limit. Where this process may not read it, no call returns anything.
 */

#include "common/base/cleanup.h"

#include <stdbool.h>
#include <sys/types.h>

enum { KERNEL_LOG_TEXT = 200 };

struct kernel_log;

/* path: "/dev/kmsg". Owned; NULL where it cannot be read. */
struct kernel_log *kernel_log_open(const char *path);
struct kernel_log *kernel_log_close(struct kernel_log *k);
DEFINE_CLEANUP(struct kernel_log *, kernel_log_close)

/* Forgets all lines so far. */
void kernel_log_begin(struct kernel_log *k);

/* Reads the new lines. */
void kernel_log_read(struct kernel_log *k);

/* Whether process pid is another worker. */
typedef bool (*kernel_log_other_fn)(void *arg, pid_t pid);

/* The line of a bad access by process pid, or else, with ret_sure false, by a process that is no
 * worker, such as a thread or a child of it. Returns each line once; false: there is none. text has
 * KERNEL_LOG_TEXT bytes. */
bool kernel_log_take_trap(struct kernel_log *k, pid_t pid, kernel_log_other_fn other, void *arg,
	bool *ret_sure, char *text);
/* The first error of a GPU that names pid, or else, with ret_sure false, the first of any. */
bool kernel_log_find_xid(const struct kernel_log *k, pid_t pid, bool *ret_sure, char *text);
