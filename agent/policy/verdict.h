/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The verdict of a run: result, exit status, message and root cause are decided here and nowhere
 * else. Pure. Called by agent/supervise/end_run.c when the group has reached a final state.
 */

#include "agent/policy/group_machine.h"

#include <jansson.h>
#include <stddef.h>

enum { VERDICT_TEXT_MAX = 640 };

struct verdict_facts {
	struct group group; /* in a final state */
	bool lost;	    /* the agent's death ended the run */
	bool answered; /* a restart was granted after cause, before a time limit ended the run */
	const char *reason; /* of the final state: "stopped on request of user ...", which limit */
	const char *consequence; /* of cause: "all 3 restarts are used"; "": none */
	const char *succeeded;	 /* what a success is called */
	int exit_status;	 /* of a failure without a cause; 0: not known */
	int stop_signal;	 /* of a run that was stopped */
	int preempted_status;	 /* of one that was preempted */
	const json_t *cause;	 /* Failure that ended the last attempt, or NULL */
	const json_t *last; /* at a limit of time: the newest Failure of the whole run, or NULL */
};

struct verdict {
	const char *result;  /* static */
	int exit_status;     /* 0..255 */
	const json_t *cause; /* the root cause: one of the facts' two, or NULL */
	char message[VERDICT_TEXT_MAX];
};

/* A result by its name, and the event that takes a group to the state of that result. */
struct verdict_result {
	const char *name;
	enum group_event event;
};

/* NULL: there is no such result. */
const struct verdict_result *verdict_result(const char *name);

struct verdict verdict_of(const struct verdict_facts *f);

/* The reason of a failed run: "worker:1: exit code 3; all 3 restarts are used". */
void verdict_text(const json_t *cause, const char *consequence, char *text, size_t size);
