/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Compares the workers of all hosts of a group, in the head, by their ranks. It compares them at a
 * look when all hosts have sent it, and some host a later one. Pure: speed_hosts.c has the
 * messages.
 *
 * A host whose workers rest sends nothing, and the head does not wait for it. All may go on at one
 * look, and each sends it at once: the first of these messages does not say whether the others
 * still rest, but when a host sends a later look, all have come.
 */

#include "agent/speed/pace.h"
#include "common/base/cleanup.h"
#include "common/base/error.h"

#include <jansson.h>

struct speed_group;

struct speed_group_options {
	uint64_t window_ms;
	double limit; /* percent */
	size_t n_roles;
	/* The worker of that rank is a straggler, as text says, or is not any more. */
	void (*news)(void *arg, int rank, bool over, int percent, const char *text);
	void *arg;
};

/* NULL without memory. */
struct speed_group *speed_group_new(const struct speed_group_options *opt);
struct speed_group *speed_group_free(struct speed_group *g);
/* A new attempt with that many workers. 0 or -ENOMEM. */
_must_check_ int speed_group_begin(struct speed_group *g, int n_workers);
/* A process of the worker has started; it has ended. */
void speed_group_started(struct speed_group *g, int rank, size_t role);
void speed_group_ended(struct speed_group *g, int rank);
/* All are about to end. */
void speed_group_over(struct speed_group *g);
/* Steps (io.elasticd.Peer) of the host with n workers from that rank on. now_us: by the head's
 * clock. on_notice: nothing is compared. 0, or -EPROTO with err. */
int speed_group_receive(struct speed_group *g, int first_rank, int n, const json_t *steps,
	uint64_t now_us, bool on_notice, struct error *err);
