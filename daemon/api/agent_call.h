/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * One call to a job's agent, on a connection of its own that begins with a Ping: the Ping's answer
 * distinguishes an agent that needs long for the call from one that answers nothing at all. Reports
 * to the job whether its agent is silent; decides nothing about it. Called by relay.c, wait.c and
 * stop_all.c.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"
#include "common/varlink/client.h"
#include "daemon/jobs/job.h"

#include <jansson.h>
#include <stdbool.h>

struct agent_call;

/* An agent that answers nothing for so long is killed by elasticd, if the verb ends its job. */
enum { AGENT_CALL_PATIENCE_MS = 5000 };

struct agent_call_options {
	const char *method; /* of io.elasticd.Manager */
	const json_t *params;
	bool more;
	/* Treat an agent that does not listen like one that does not answer, until the job gets
	 * another agent. */
	bool insist;
	bool modest; /* its caller may not have the reserved descriptors: -EMFILE */
	unsigned patience_ms;
	unsigned due_ms; /* allowed time from the Ping's answer to the call's; 0: no limit */
	varlink_answer_fn answer;
	/* The agent did not answer the Ping for patience_ms, or the call itself for due_ms. Runs
	 * once; the call goes on. */
	loop_fn silent;
	void *arg;
};

/*
 * The job must live as long as the call. Both callbacks run only from the loop and may free the
 * call; the callback that gets the last answer, or "disconnected", has to free it. Returns 0, or a
 * negative errno: -ECONNREFUSED or -ENOENT where no agent listens (not with insist).
 */
_must_check_ int agent_call_new(
	struct job *j, const struct agent_call_options *o, struct agent_call **ret);
/* Drops the call; the agent may still carry it out. */
struct agent_call *agent_call_free(struct agent_call *c);
DEFINE_CLEANUP(struct agent_call *, agent_call_free)

/* Whether the agent has answered the Ping. */
bool agent_call_heard(const struct agent_call *c);

/* Stops or resumes reading. */
void agent_call_pause(struct agent_call *c, bool pause);
