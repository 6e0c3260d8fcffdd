/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * In a group of several hosts, the calls of this host's workers that are about workers of all hosts
 * go to the head, and its answers come back: messages Call, Flow and Hangup, and Answer and Hangup,
 * of io.elasticd.Peer. The feature of several hosts owns the way to the head.
 */

#include "agent/sharing/calls_out.h"
#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct supervisor;
struct varlink_call;

/* The way to the head. */
struct sharing_uplink {
	struct calls_out *calls; /* sharing_relay_ready() says when its way has room */
	/* The round of the workers that live now. */
	uint64_t (*round)(void *arg);
	/* For sharing_head_offset_us(). */
	bool (*offset_us)(void *arg, int64_t *ret);
	void *arg;
};

/* Between the features' init and their ready. 0 or -ENOMEM. */
_must_check_ int sharing_relay_to(struct supervisor *sv, const struct sharing_uplink *uplink);
void sharing_relay_ready(struct supervisor *sv);

/* True when this host is one of a group of several. */
bool sharing_has_head(const struct supervisor *sv);
/* ret: by how much the head's clock is ahead of this one's; false: not known. */
bool sharing_head_offset_us(const struct supervisor *sv, int64_t *ret);
/* Sends a message of the present round to the head; lost where there is no way to it. Takes body.
 */
void sharing_send_to_head(struct supervisor *sv, const char *method, json_t *body);
/* Hosts call the group's job by names of their own, which the head does not know: takes this host's
 * out of the call. Returns false after having answered the call. */
bool sharing_relay_own_job(struct supervisor *sv, struct varlink_call *call, json_t *p);
