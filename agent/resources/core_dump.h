/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Where the core dump of a process is, by the kernel's pattern (core(5)). */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Returns whether pattern names a program that gets core dumps. text then says for people where the
 * dump is, such as "coredumpctl info 71". */
bool core_dump_program(const char *pattern, pid_t pid, char *text, size_t size);

/* Splits pattern, with its % specifiers, into the directory ("": the process's own) and a pattern
 * for fnmatch() of the file's name. uses_pid: the kernel adds the pid where the pattern has none.
 * 0, or -ENAMETOOLONG, also where the directory has % specifiers. */
int core_dump_name(const char *pattern, bool uses_pid, pid_t pid, char *dir, size_t dir_size,
	char *name, size_t name_size);
