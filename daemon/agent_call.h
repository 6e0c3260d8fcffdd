/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call to a job's agent, on a connection of its own that begins with a Ping: so an agent that
 * takes its time for the call is told from one that does not answer at all. Keeps the job informed
 * whether its agent is silent; decides nothing about it. Called by relay.c, wait.c and leave.c.
 */

#include "common/cleanup.h"
#include "common/loop.h"
#include "common/varlink_client.h"
#include "daemon/job.h"

#include <jansson.h>
#include <stdbool.h>

struct agent_call;

/* How long an agent may be busy before a verb that ends its job has elasticd end it. */
enum { AGENT_CALL_PATIENCE_MS = 5000 };

struct agent_call_options {
	const char *method; /* of io.elasticd.Manager */
	const json_t *params;
	bool more;
	/* An agent that does not listen is one that does not answer, until its job has another. */
	bool insist;
	unsigned patience_ms;
	varlink_answer_fn answer;
	/* Not even the Ping was answered for patience_ms; told once. The call goes on. */
	loop_fn silent;
	void *arg;
};

/*
 * The job must live as long as the call. Both callbacks run from the loop alone and may free it;
 * who gets the last answer, or "disconnected", does. Returns 0, or a
 * negative errno: -ECONNREFUSED or -ENOENT where no agent listens (not with insist).
 */
_must_check_ int agent_call_new(
	struct job *j, const struct agent_call_options *o, struct agent_call **ret);
/* Forgets it; the agent may still do what it was asked for. */
struct agent_call *agent_call_free(struct agent_call *c);
DEFINE_CLEANUP(struct agent_call *, agent_call_free)

/* Stops or resumes reading. */
void agent_call_pause(struct agent_call *c, bool pause);
