/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The stream from a job's agent to its mirror: one Watch call on a connection of its own. Reports
 * each answer and the end; decides nothing.
 */

#include "common/base/cleanup.h"
#include "common/loop/loop.h"
#include "common/varlink/client.h"

#include <jansson.h>
#include <stdint.h>

struct agent_stream;

/* One answer: the Job object and the array of new events, both borrowed, of the right JSON type but
 * not checked further. May free the link. */
typedef void (*agent_stream_update_fn)(void *arg, json_t *job, json_t *events);
/* The stream ended, for whatever reason; runs once. May free the link. */
typedef void (*agent_stream_closed_fn)(void *arg, const char *why);

/* Takes fd, also on failure. since: the number of the last event that is known. */
_must_check_ int agent_stream_new(struct loop *loop, int fd, const char *run, int64_t since,
	agent_stream_update_fn update, agent_stream_closed_fn closed, void *arg,
	struct agent_stream **ret);
/* As varlink_client_limit(). */
_must_check_ int agent_stream_limit(
	struct agent_stream *l, const struct varlink_client_limits *limits);
/* Takes in no more of it for so long, or until agent_stream_catch_up(), which is held up by no
 * rest. */
void agent_stream_rest(struct agent_stream *l, uint64_t ms);

/* Handles what the agent has sent by now, without waiting for the loop, as long as there is time
 * for its account: see varlink_client_catch_up(). */
void agent_stream_catch_up(struct agent_stream *l);
/* Whether that ended for want of time. */
bool agent_stream_lags(const struct agent_stream *l);
struct agent_stream *agent_stream_free(struct agent_stream *l);
