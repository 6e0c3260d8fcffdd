/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The restart budget: decides whether a group gets another attempt, whether that is counted,
 * and how long it waits. Pure: the time is an argument. One budget per job, over all its
 * attempts, and one for each worker that is restarted alone; they are written to the job's
 * record, so they outlive the agent.
 */

#include "common/base/error.h"
#include "common/spec/spec.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define RESTART_CAUSES(X)                                                    \
	X(EXIT, "exit")		    /* a worker's exit code */               \
	X(SIGNAL, "signal")	    /* a worker died by a signal */          \
	X(EXEC, "exec")		    /* a worker could not be executed */     \
	X(FINISHED, "finished")	    /* all succeeded, under policy always */ \
	X(OPERATOR, "operator")	    /* asked for by a person */              \
	X(SCALE, "scale")	    /* the group's size changed */           \
	X(AGENT_LOST, "agent-lost") /* the agent itself died */              \
	X(HEARTBEAT, "heartbeat")   /* the agent found that a worker hangs */

enum restart_cause {
#define X(name, text) RESTART_##name,
	RESTART_CAUSES(X)
#undef X
		RESTART_N_CAUSES
};

enum { RESTART_WINDOW_MAX = 1024 }; /* counted restarts that are remembered for the window */

/*
 * Nothing limits restarts that are not counted, so they are slowed down: after QUICK_FREE restarts
 * in a row of attempts that lived for less than QUICK_MS, the next one waits for QUICK_FIRST_MS,
 * doubled each time up to QUICK_MAX_MS. Else a program that always exits with 42 would keep a host
 * busy and fill its disk with logs.
 */
enum {
	RESTART_QUICK_MS = 1000,
	RESTART_QUICK_FREE = 5,
	RESTART_QUICK_FIRST_MS = 100,
	RESTART_QUICK_MAX_MS = 10000,
};

struct restart_budget {
	int used; /* counted */
	int free; /* granted without being counted */
	int by_cause[RESTART_N_CAUSES];
	int counted_by_cause[RESTART_N_CAUSES];
	int streak; /* restarts in a row without a healthy attempt */
	int quick;  /* restarts in a row, not counted, after attempts shorter than QUICK_MS */
	size_t n_times;
	uint64_t times_ms[RESTART_WINDOW_MAX]; /* when counted ones were granted, oldest first */
};

struct restart_fault {
	enum restart_cause cause;
	int value;	/* exit code or signal number, for EXIT and SIGNAL */
	int64_t ran_ms; /* how long the attempt ran */
};

struct restart_decision {
	bool restart;
	bool counted;
	uint64_t delay_ms;
	char text[160]; /* for people: "restart 2 of 3", "exit code 3 is fatal", ... */
};

/* Decides, and adds a granted restart to the budget. now_ms: any clock that never goes back. */
void restart_decide(const struct spec_restart *policy, struct restart_budget *b,
	const struct restart_fault *fault, uint64_t now_ms, struct restart_decision *ret);

/* Adds a restart that an event says an earlier agent granted; cause: its name. */
void restart_replay(struct restart_budget *b, const char *cause, bool counted, uint64_t now_ms);

/* Counted restarts within the window that ends at now_ms; 0 without a window. */
int restart_window_used(
	const struct spec_restart *policy, const struct restart_budget *b, uint64_t now_ms);

/* How many counted restarts that cause may have; -1: it has no limit of its own. */
int restart_max_of(const struct spec_restart *policy, enum restart_cause cause);
/* Restarts left whatever the cause, or -1 if there is no limit. */
int restart_left(
	const struct spec_restart *policy, const struct restart_budget *b, uint64_t now_ms);

const char *restart_cause_name(enum restart_cause c);

/* For the record. restart_load() reads it: times later than now_ms become now_ms, since a reboot
 * sets the clock back; for bad input it returns -EINVAL and leaves b alone. */
json_t *restart_save(const struct restart_budget *b);
_must_check_ int restart_load(struct restart_budget *b, const json_t *saved, uint64_t now_ms);
