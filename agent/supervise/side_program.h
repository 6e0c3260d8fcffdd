/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A program of the job's user that runs once beside the workers: a source of notices, a hook. It
 * leads a session and a process group, has a limit in time, and nothing waits for it. Of its
 * streams the first lines are kept, and the rest is read and dropped, so that it never waits for a
 * reader.
 */

#include "agent/process/env_list.h"
#include "agent/supervise/supervisor.h"

struct side_program;

struct side_program_request {
	char *const *argv;
	char *const *envp;
	const char *input; /* for its standard input; NULL: none. Copied */
	uint64_t limit_ms; /* then its group is killed */
};

/* status: an exit code, or the signal that ended it where code is not CLD_EXITED. Both lines are
 * borrowed until the callback returns. */
struct side_program_end {
	int code, status;
	bool late; /* it was killed at its limit */
	uint64_t took_ms;
	const char *out, *err;
};

typedef void (*side_program_fn)(void *arg, const struct side_program_end *end);

/* Returns 0 with an owned handle; fn runs once, from side_program_exited(), and may free it. A
 * negative errno with err where the program cannot be executed. */
_must_check_ int side_program_new(struct supervisor *sv, const struct side_program_request *req,
	side_program_fn fn, void *arg, struct side_program **ret, struct error *err);
/* Kills its group; the guard reaps it. */
struct side_program *side_program_free(struct side_program *p);
void side_program_kill(struct side_program *p);
/* Limits the time that is left. */
void side_program_hurry(struct side_program *p, uint64_t most_ms);
pid_t side_program_pid(const struct side_program *p);
/* Whether that was p's process; then fn has run. p may be NULL. */
bool side_program_exited(struct side_program *p, const siginfo_t *si);

/* Adds the agent's environment, ELASTICD_JOB and ELASTICD_RUN. -ENOMEM. */
_must_check_ int side_program_environment(const struct supervisor *sv, struct env *e);

/* "it exited with 3: cannot connect", "it was ended by SIGKILL", "it did not end in 10 s, and was
 * killed"; "" where it exited with 0. */
void side_program_fault(const struct side_program_end *end, char *text, size_t size);
