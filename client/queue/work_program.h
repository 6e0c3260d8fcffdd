/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One run of a program, for a program with a loop: writes bytes to its standard input, keeps its
 * output, and passes on its standard error as it comes. It leads a process group of its own, which
 * is killed when it ends, and dies with its caller.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	WORK_OUTPUT_MAX = 1 << 20,
	WORK_ERRORS_MAX = 4096,
	WORK_KILL_MS = 5000, /* from SIGTERM to SIGKILL */
};

struct work_program;

/* The program has ended, and all of its output is there. May free it. */
typedef void (*work_program_fn)(void *arg);

/*
 * Searches argv[0] in PATH. env: entries "NAME=value" that replace our own, ended by NULL. Copies
 * payload. Returns 0, or a negative errno with err: -ENOENT and others if it cannot be executed.
 */
_must_check_ int work_program_start(struct loop *loop, char *const *argv, char *const *env,
	const void *payload, size_t len, work_program_fn fn, void *arg, struct work_program **ret,
	struct error *err);
/* Kills the program if it runs. */
struct work_program *work_program_free(struct work_program *p);
DEFINE_CLEANUP(struct work_program *, work_program_free)

/* Sends SIGTERM to its group, and SIGKILL if it has not ended after WORK_KILL_MS; fn still runs. */
void work_program_end(struct work_program *p);
/* Kills it at once; fn still runs. */
void work_program_kill(struct work_program *p);

/* Its status, as of waitpid(), once it has ended. */
int work_program_status(const struct work_program *p);
/* Whether it printed more than WORK_OUTPUT_MAX, for which it was killed. */
bool work_program_too_much(const struct work_program *p);
/* Its output. Borrowed. */
const char *work_program_output(const struct work_program *p, size_t *ret_len);
/* The end of its standard error. Borrowed. */
const char *work_program_errors(const struct work_program *p, size_t *ret_len);
