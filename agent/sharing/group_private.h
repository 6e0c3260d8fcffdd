/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by group.c, the workers of a group of several hosts as its head knows them, and
 * group_calls.c, their calls.
 */

#include "agent/sharing/calls_in.h"
#include "agent/sharing/group.h"
#include "agent/sharing/private.h"

/* A link's longest message, less the text around an answer. */
enum { GROUP_ANSWER_BYTES = (8 << 20) - 256 };

/* The part of a board that is alike on all hosts. */
struct group_board {
	uint64_t notice; /* odd: one is up */
	int64_t save_at;
	bool error;
};

struct sharing_host {
	LIST_ENTRY(sharing_host) entry;
	struct sharing_group *group;
	void *arg;
	struct calls_in calls; /* of its workers and operators */
	int first_rank, n_workers;
	bool read_due;		  /* it has yet to answer the present Read */
	struct group_board board; /* what its board shows */
};

/* The slots of one role's workers by their index; -1: none. */
struct group_role {
	int *slots;
	int n;
};

struct sharing_group {
	struct supervisor *sv;
	struct sharing_downlink down;
	struct commons *commons;
	struct varlink_server *server, *operators; /* of workers; of operators on other hosts */
	struct varlink_method *methods, *operators_methods;
	struct worker *workers;	       /* by rank, which is their place here */
	struct sharing_host **host_of; /* each worker's */
	int n_workers, n_placed;
	struct group_role *roles;
	int n_slots, attempt;
	bool leads;
	struct commons_state state;
	char reason[512]; /* of the stop */

	struct group_board board; /* as it should be on all hosts */

	int64_t reads;	 /* number of the present Read */
	int reads_due;	 /* hosts that have yet to answer it */
	json_t *samples; /* that came so far; NULL: there is no Read */
	struct loop_timer *read_timer;
	LIST_HEAD(, sharing_host) hosts;
};

/* group_calls.c */
_must_check_ int group_servers_open(struct sharing_group *g, struct error *err);
void group_servers_close(struct sharing_group *g);
/* Handles the calls that a worker has made before its end. */
void group_receive_last_calls(const struct sharing_group *g, const struct worker *w);
/* A new attempt begins: ends the connections of earlier workers. */
void group_connections_renew(struct sharing_host *x);
/* group.c: Samples has come. */
int group_samples_received(struct sharing_host *x, const json_t *p, struct error *err);
