/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One worker of the group: its identity, the state of its process, and how that ended. Knows no
 * loop and makes no system call. Its state changes only by worker_set_state().
 */

#include "common/spec/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct restart_budget;

#define WORKER_STATES(X)          \
	X(WAITING, "waiting")     \
	X(STARTING, "starting")   \
	X(RUNNING, "running")     \
	X(STOPPING, "stopping")   \
	X(SUCCEEDED, "succeeded") \
	X(FAILED, "failed")       \
	X(STOPPED, "stopped")

enum worker_state {
#define X(name, text) WORKER_##name,
	WORKER_STATES(X)
#undef X
};

/* How its process ended; all zero while it runs. */
struct worker_exit {
	bool ended;
	int code;   /* exit code, when signal and error are 0 */
	int signal; /* deadly signal, or 0 */
	bool core;
	int error;	    /* errno when it was never executed, or 0 */
	bool before_exec;   /* the error is of a step before the program was tried */
	bool out_of_memory; /* the signal was the kernel's, which wanted memory */
	char *core_file;    /* owned: where its core dump is, a path or what a program has done with
			       it; or NULL */
	char *kernel;	    /* owned: what the kernel's log says about it, or NULL */
	/* The same for people: "exit code 3", "signal 9 (SIGKILL)". From `note` on, if that is not
	 * 0, it is an addition such as ", perhaps out of memory ...". */
	char text[256];
	unsigned note;
};

enum { WORKER_REASON_MAX = 160 };

/* A head has one for each worker of all hosts. */
struct worker {
	const struct spec_role *role;
	int index; /* within the role */
	/* The next three are equal while the group has one host. */
	int rank;	/* within the group */
	int local_rank; /* among the group's workers on this host; names its log directory */
	int place;	/* in the supervisor's list */
	int role_rank, role_world; /* ROLE_RANK and ROLE_WORLD_SIZE */
	enum worker_state state;
	char *reason;	/* owned, NULL: none */
	pid_t pid;	/* 0 when there is no process */
	pid_t exit_pid; /* of the process that ended */
	struct worker_exit exit;
	int64_t started_us;	       /* real time, just before its process is made; 0: not yet */
	int64_t ended_us;	       /* real time; 0: not yet */
	uint64_t started_ms, ended_ms; /* monotonic */
	int64_t stop_us;	       /* when the agent first signalled it to end, 0: never */
	int stop_signal;	       /* that the agent sent first to end it, 0: none */
	char *error_file;	       /* owned path, NULL without files */

	int slot;	 /* on the board; fixed for its role and index while the agent lives */
	uint64_t token;	 /* of its present process; 0 before the first */
	int start;	 /* number of the start within the attempt, from 0 */
	int restarts;	 /* times it alone was started again (scope worker, an operator) */
	bool logs_due;	 /* its process is gone, its logs are not closed yet */
	bool launched;	 /* it was started in this attempt */
	bool on_purpose; /* an operator stopped it: its end is no failure, and the job does not wait
			    for it */
	bool extra;	 /* added beyond the specification */
	bool replaced;	 /* it is being stopped to be run in a terminal: its end does not count */
	bool attached;	 /* runs in a caller's terminal: its process is not the agent's child */
	bool end_handled; /* a restart or an operator's request followed the end of its last process
			   */
	bool signalled;	  /* it got a notice's signal by an order of another agent */
	bool no_restart;  /* it failed, and gets no restart of its own */
	bool failed_before;    /* its process before this one had failed */
	bool failure_reported; /* its failure has its "worker-failed" event */

	/* Either of these makes it fail, however its process ends. */
	char blame[200];  /* found by the agent: "no beat for ..."; or "" */
	char *app_error;  /* owned: the error that it reported itself, or NULL */
	int64_t blame_us; /* when the first of the two was set, 0: never */
	/* From then on its end is a consequence of the leader's; 0: it is not. */
	int64_t grace_us;

	struct restart_budget *budget; /* owned, scope worker; NULL before its first restart */
	int64_t next_start_us;	       /* time of the start that it waits for, 0: none */
	/* Owned by agent/supervise/worker_lifecycle.c; NULL: nothing is under way. */
	struct worker_lifecycle *lifecycle;
};

void worker_init(struct worker *w, const struct spec_role *role, int index, int place);
/* lifecycle_free() must have been called. */
void worker_fini(struct worker *w);

/* Changes the state, as nothing else does, and logs that at level debug. */
void worker_set_state(struct worker *w, enum worker_state state, const char *reason);
/* Gives the state that it has another reason. */
void worker_set_reason(struct worker *w, const char *reason);

/* Sets how its process ended, as from waitid(): code is CLD_EXITED, CLD_KILLED or CLD_DUMPED. */
void worker_set_exit(struct worker *w, int code, int status);
/* Sets that program could not be executed, because stage failed with error. */
void worker_set_exec_error(struct worker *w, int error, const char *stage, const char *program);

/* Adds note to the text of how it ended. */
void worker_note_exit(struct worker *w, const char *note);
/* The addition to its text, or "". Borrowed. */
const char *worker_exit_note(const struct worker_exit *x);

/* Sets it from worker_exit_json() of another agent. */
void worker_set_exit_json(struct worker *w, const json_t *exit);

/* Whether it has a process that was not reaped. */
bool worker_alive(const struct worker *w);
/* Whether it ended with anything but exit code 0. */
bool worker_bad_exit(const struct worker *w);
/* Whether it ended with a bad exit or a complaint, and neither a restart nor an operator's request
 * has followed. */
bool worker_has_failed(const struct worker *w);
/* The failure that the agent found or that the worker itself reported, or NULL. Borrowed. */
const char *worker_complaint(const struct worker *w);
/* Its name in texts for people and in commands: "worker:3". Borrowed until the next call. */
const char *worker_name(const struct worker *w);
/* Prepares it for its next start: forgets how the last process ended. */
void worker_renew(struct worker *w);

/* Whether the agent's signals ended its process, or its exit code says so, such as 143. */
bool worker_ended_by_agent(const struct worker *w);
/* The exit status of a job that this worker's failure ended. It is that of a shell: exit code, 128
 * + signal, 126 or 127 where the program cannot be executed; 125 where a step before it failed. But
 * it is 1 in place of 0, and if the agent's signal ended the process, since that says nothing about
 * the failure. */
int worker_failed_status(const struct worker *w);

const char *worker_state_name(enum worker_state s);

/* io.elasticd.Manager.Exit, owned, or NULL while it has not ended. */
json_t *worker_exit_json(const struct worker_exit *x);
/* io.elasticd.Manager.Worker without live figures, owned. */
json_t *worker_json(const struct worker *w);
