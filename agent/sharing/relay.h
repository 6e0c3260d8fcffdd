/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * In a group of several hosts, the calls of this host's workers that are about workers of all hosts
 * go to the head, and its answers come back: messages Call, Flow and Hangup, and Answer and Hangup,
 * of io.elasticd.Peer. The feature of several hosts owns the way to the head.
 */

#include "common/base/cleanup.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct supervisor;

/* The way to the head. */
struct sharing_uplink {
	/* Sends a message whose body is JSON text of len bytes. 0, -EMSGSIZE, -ENOMEM, or
	 * -ECONNRESET where there is no way. */
	int (*send)(void *arg, const char *method, const char *body, size_t len);
	/* True while much waits to be sent; sharing_relay_ready() says when there is room. */
	bool (*congested)(void *arg);
	/* The round of the workers that live now. */
	uint64_t (*round)(void *arg);
	void *arg;
};

/* Between the features' init and their ready. 0 or -ENOMEM. */
_must_check_ int sharing_relay_to(struct supervisor *sv, const struct sharing_uplink *uplink);
void sharing_relay_ready(struct supervisor *sv);
/* A message of the head has come. */
void sharing_relay_hear(struct supervisor *sv, const char *method, const json_t *p);
/* The head has lost this host: no call that waits gets an answer of the head's. */
void sharing_relay_cut(struct supervisor *sv);
