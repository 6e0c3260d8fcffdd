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

struct joblink;

/* One answer: the Job object and the array of new events, both borrowed, of the right JSON type but
 * not checked further. May free the link. */
typedef void (*joblink_update_fn)(void *arg, json_t *job, json_t *events);
/* The stream ended, for whatever reason; runs once. May free the link. */
typedef void (*joblink_closed_fn)(void *arg, const char *why);

/* Takes fd, also on failure. since: the number of the last event that is known. */
_must_check_ int joblink_new(struct loop *loop, int fd, const char *run, int64_t since,
	joblink_update_fn update, joblink_closed_fn closed, void *arg, struct joblink **ret);
/* As varlink_client_limit(). */
_must_check_ int joblink_limit(struct joblink *l, const struct varlink_client_limits *limits);
/* Takes in no more of it for so long, or until joblink_catch_up(), which is held up by no rest. */
void joblink_rest(struct joblink *l, uint64_t ms);

/* Handles what the agent has sent by now, without waiting for the loop, as long as there is time
 * for its account: see varlink_client_catch_up(). */
void joblink_catch_up(struct joblink *l);
/* Whether that ended for want of time. */
bool joblink_lags(const struct joblink *l);
struct joblink *joblink_free(struct joblink *l);
