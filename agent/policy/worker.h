/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One worker of the group: who it is, what its process does, how it ended. Knows no loop and makes
 * no system call; the agent's parts change it through worker_set_state().
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
	int error;	  /* errno when it was never executed, or 0 */
	bool before_exec; /* the error is of a step before the program was tried */
	char note[128];	  /* more about it, "" mostly: ", perhaps out of memory ..." */
	char text[256];	  /* the same for people: "exit code 3", "signal 9 (SIGKILL)" */
};

struct worker {
	const struct spec_role *role;
	int index; /* within the role */
	/* Three numbers that are alike as long as the group has one host: in the group; among its
	 * workers on this host (its log directory); in the supervisor's list. */
	int rank, local_rank, place;
	int role_rank, role_world;
	enum worker_state state;
	char reason[160];
	pid_t pid;	/* 0 when there is no process */
	pid_t exit_pid; /* of the process that ended */
	struct worker_exit exit;
	int64_t started_us, ended_us;  /* real time, 0: not yet; started before its process was */
	uint64_t started_ms, ended_ms; /* monotonic */
	int64_t stop_us;	       /* when the agent first signalled it to end, 0: never */
	int stop_signal;	       /* with which the agent began to end it, 0: it did not */
	char *error_file;	       /* owned path, NULL without files */

	int slot;	  /* on the board; of its role and index as long as the agent lives */
	uint64_t token;	  /* of its present process; 0 before the first */
	int start;	  /* its starts within the attempt, from 0 */
	int restarts;	  /* times it was started again by itself (scope worker, a person) */
	bool logs_due;	  /* its process is gone, its logs are not closed yet */
	bool launched;	  /* it was started in this attempt */
	bool on_purpose;  /* a person stopped it: it is never blamed, nor waited for */
	bool extra;	  /* added beyond the specification */
	bool replaced;	  /* it is stopped to be run in a terminal: its end is not judged before */
	bool attached;	  /* runs in a caller's terminal: its process is not the agent's child */
	bool end_handled; /* how its last process ended was answered: by a restart, by a person */
	bool no_restart;  /* it failed, and gets no restart of its own */
	bool failed_before;    /* its process before this one had failed */
	bool failure_reported; /* an event has told that its present process failed */

	/* Why it counts as failed however its process ends. */
	char blame[200];  /* "": else what the agent itself found: "no beat for ..." */
	char *app_error;  /* owned: what it reported as an error; NULL: nothing */
	int64_t blame_us; /* when either of the two came, 0: never */
	/* Since when its end is the consequence of the leader's, 0: it is not. */
	int64_t grace_us;

	struct restart_budget *budget;	/* owned, scope worker; NULL before its first restart */
	int64_t next_start_us;		/* of its next start, while it waits for it; 0: none */
	struct worker_private *private; /* owned by agent/supervise/worker_lifecycle.c; NULL:
					 nothing is under way */
};

void worker_init(struct worker *w, const struct spec_role *role, int index, int place);
/* private must be gone by then. */
void worker_fini(struct worker *w);

/* The one place that changes the state; writes the debug line of the transition. */
void worker_set_state(struct worker *w, enum worker_state state, const char *reason);

/* Enters what waitid() said: code is CLD_EXITED, CLD_KILLED or CLD_DUMPED. */
void worker_set_exit(struct worker *w, int code, int status);
/* Enters that program could not be executed. */
void worker_set_exec_error(struct worker *w, int error, const char *stage, const char *program);

/* Whether it has a process that was not yet seen to end. */
bool worker_alive(const struct worker *w);
/* Ended with anything but exit code 0. */
bool worker_bad_exit(const struct worker *w);
/* Ended in a way that is held against it: badly, or after an error or without a beat, and neither
 * on purpose nor made good by a restart. */
bool worker_has_failed(const struct worker *w);
/* What the agent or the worker itself said was wrong, or NULL. Borrowed. */
const char *worker_complaint(const struct worker *w);
/* Its name in texts for people and in commands: "worker:3". Borrowed until the next call. */
const char *worker_called(const struct worker *w);
/* Forgets how the process before ended, for the next one. */
void worker_renew(struct worker *w);

/* 0..255, 128+signal, 126 or 127: what a shell would say; 125 for a step before the program. */
int worker_exit_status(const struct worker_exit *x);
/* Whether its process ended by what the agent did to end it, or says so: "exit code 143". */
bool worker_ended_by_agent(const struct worker *w);
/* The exit status of a job that this worker's failure ended: its own, and never 0; 1 where its
 * process was then ended by the agent, whose signal tells nothing of the failure. */
int worker_failed_status(const struct worker *w);

const char *worker_state_name(enum worker_state s);

/* io.elasticd.Manager.Exit, owned, or NULL while it has not ended. */
json_t *worker_exit_json(const struct worker_exit *x);
/* io.elasticd.Manager.Worker without live figures, owned. */
json_t *worker_json(const struct worker *w);
