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
 * What is not counted has no end of its own. Where attempts live for less than QUICK_MS, those
 * after the first QUICK_FREE such restarts wait for QUICK_FIRST_MS, doubled up to QUICK_MAX_MS: a
 * program that always exits with 42 must not keep a host busy and fill its disk with logs.
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
	int streak; /* restarts in a row without a healthy attempt */
	int quick;  /* uncounted restarts of attempts that ended at once, in a row */
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
	char text[160]; /* why, for people: "restart 2 of 3", "exit code 3 is fatal", ... */
};

/* Decides, and enters a granted restart into the budget. now_ms: any clock that never goes back. */
void restart_decide(const struct spec_restart *policy, struct restart_budget *b,
	const struct restart_fault *fault, uint64_t now_ms, struct restart_decision *ret);

/* Enters a restart that was granted before, by its cause's name, as the record of events has it. */
void restart_replay(struct restart_budget *b, const char *cause, bool counted, uint64_t now_ms);

/* Counted restarts within the window that ends at now_ms; 0 without a window. */
int restart_window_used(
	const struct spec_restart *policy, const struct restart_budget *b, uint64_t now_ms);

/* Restarts left under both limits, or -1 where neither holds. */
int restart_left(
	const struct spec_restart *policy, const struct restart_budget *b, uint64_t now_ms);

const char *restart_cause_name(enum restart_cause c);

/* For the record; restart_load() sets a budget from it (times later than now_ms are taken as
 * now_ms: the clock began anew with a reboot), or returns -EINVAL and leaves b alone. */
json_t *restart_save(const struct restart_budget *b);
_must_check_ int restart_load(struct restart_budget *b, const json_t *saved, uint64_t now_ms);
