/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The live stream of all jobs' events, for callers of Events without a job. A reader that is too
 * slow learns how many events it missed.
 */

#include "common/base/cleanup.h"
#include "common/varlink/server.h"
#include "daemon/api/access.h"

#include <jansson.h>

struct feed;

_must_check_ int feed_new(struct feed **ret);
/* No call may be open any more. */
struct feed *feed_free(struct feed *f);
DEFINE_CLEANUP(struct feed *, feed_free)

/* Answers the call with all events from now on that the caller may see, or with the error for too
 * many such calls. Returns 0 or a negative errno. */
_must_check_ int feed_subscribe(
	struct feed *f, struct varlink_call *call, enum access_level level, uid_t uid);

/* Events (borrowed array) of a job of owner. */
void feed_publish(struct feed *f, uid_t owner, json_t *events);
