/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How a run ends, decided once and for all who ask: result, exit status, message and root cause
 * come from here and from nowhere else. Pure. Called by agent/supervise/end_run.c when the group
 * has reached a final state.
 */

#include "agent/policy/group_machine.h"

#include <jansson.h>
#include <stddef.h>

enum { VERDICT_TEXT_MAX = 640 };

struct verdict_facts {
	struct group group; /* in a final state */
	bool lost;	    /* the agent died, and its death is what ended the run */
	bool answered;	    /* a restart had been granted for cause before a limit of time came */
	const char *reason; /* why the group went there: who stopped it, which limit, ... */
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

struct verdict verdict_of(const struct verdict_facts *f);

/* "worker:1: exit code 3; all 3 restarts are used", for every place that says why. */
void verdict_text(const json_t *cause, const char *consequence, char *text, size_t size);
