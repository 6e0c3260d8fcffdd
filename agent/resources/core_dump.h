/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where the core dump of a process is, by the kernel's pattern (core(5)). */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* A program that gets core dumps: what to tell people, such as "coredumpctl info 71". Returns
 * whether pattern is one. */
bool core_dump_program(const char *pattern, pid_t pid, char *text, size_t size);

/* The directory ("": the process's own) and a pattern for fnmatch() of a file's name, for pattern
 * with its % specifiers. uses_pid: the kernel adds the pid where the pattern has none. 0, or
 * -ENAMETOOLONG. */
int core_dump_name(const char *pattern, bool uses_pid, pid_t pid, char *dir, size_t dir_size,
	char *name, size_t name_size);
