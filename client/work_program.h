/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One run of a program, for a program with a loop: bytes go to its standard input, what it prints
 * is kept, and what it says on standard error is handed on as it comes. It leads a process group of
 * its own, of which nothing is left when it has ended, and dies with its caller.
 */

#include "common/cleanup.h"
#include "common/error.h"
#include "common/loop.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	WORK_OUTPUT_MAX = 1 << 20,
	WORK_ERRORS_MAX = 4096,
	WORK_KILL_MS = 5000, /* from SIGTERM to SIGKILL */
};

struct work_program;

/* It has ended, and all that it printed is there. May free it. */
typedef void (*work_program_fn)(void *arg);

/*
 * argv[0] is looked for in PATH. env: entries "NAME=value" over our own, ended by NULL. payload is
 * copied. Returns 0, or a negative errno with err: -ENOENT and such where it cannot be executed.
 */
_must_check_ int work_program_start(struct loop *loop, char *const *argv, char *const *env,
	const void *payload, size_t len, work_program_fn fn, void *arg, struct work_program **ret,
	struct error *err);
/* Kills what runs. */
struct work_program *work_program_free(struct work_program *p);
DEFINE_CLEANUP(struct work_program *, work_program_free)

/* SIGTERM to its group, and SIGKILL when it has not ended WORK_KILL_MS later; fn still runs. */
void work_program_end(struct work_program *p);
/* SIGKILL, now. */
void work_program_kill(struct work_program *p);

/* Once it has ended: its status, as of waitpid(). */
int work_program_status(const struct work_program *p);
/* Whether it printed more than WORK_OUTPUT_MAX; it was ended for that. */
bool work_program_too_much(const struct work_program *p);
/* What it printed. Borrowed. */
const char *work_program_output(const struct work_program *p, size_t *ret_len);
/* The end of what it said on standard error. Borrowed. */
const char *work_program_errors(const struct work_program *p, size_t *ret_len);
