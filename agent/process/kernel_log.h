/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The kernel's log about processes that died: where a bad access was, and errors of NVIDIA's GPUs
 * (Xid). It is read only when a worker has failed, from where it ended when the
 * attempt began, and up to a limit. Where this process may not read it, nothing is said.
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

/* Whether another worker is process pid. */
typedef bool (*kernel_log_other_fn)(void *arg, pid_t pid);

/* The line of a bad access of process pid, or else, with sure false, one of a process that no
 * worker is, such as a thread of it or its child. Each is returned once. false: there is none. */
bool kernel_log_take_trap(struct kernel_log *k, pid_t pid, kernel_log_other_fn other, void *arg,
	bool *ret_sure, char *text);
/* The first error of a GPU that names pid, else, with sure false, the first of any. */
bool kernel_log_find_xid(const struct kernel_log *k, pid_t pid, bool *ret_sure, char *text);
