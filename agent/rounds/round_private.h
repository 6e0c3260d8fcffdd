/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of round.h share. */

#include "agent/rounds/round.h"

#define ROUND_NEVER UINT64_MAX

struct round {
	struct round_config config;
	enum round_state state;
	uint64_t began_ms;    /* this head */
	uint64_t round;	      /* the last one with ranks */
	uint64_t known_round; /* the last one that any host has told of */
	uint64_t last_round;  /* whose ranks stay, where they can */
	bool started;	      /* a START was sent */
	bool saving;	      /* SAVE was ordered in this round */

	/* Times of the present state. */
	bool patient;	/* GATHERING: others are waited for, although MIN are there */
	bool remembers; /* the hosts of the round before are not all there or gone yet: none else is
			   waited for */
	uint64_t enough_ms;	 /* ... since MIN are there */
	uint64_t short_ms;	 /* ... since fewer are */
	uint64_t prepared_by_ms; /* PREPARING */
	uint64_t next_ms;	 /* no round begins before; 0: at once */
	uint64_t waiting_ms;	 /* since a host waits */

	struct round_host **hosts; /* by number */
	int n_numbers, size;	   /* used at most, and room for */
	int *free_numbers, n_free;
	struct round_host **dropped; /* in the last call */
	int n_dropped;
	int n_in[HOST_N_STATES];
	int n_hosts;
	int64_t n_workers; /* of all hosts, as if each were the first */
	uint64_t turns;
	struct chain by_run;
	struct round_host **by_node_rank;

	struct ranked_host *ranked; /* room for all hosts */
	struct round_host **chosen;
	void *space;
	int seats; /* hosts of the round that has ranks */
	struct ranked_world world;

	struct round_order *orders;
	int n_orders;
};

/* Room for one more host; 0 or -ENOMEM. */
int round_reserve(struct round *r);
void round_order(struct round *r, enum round_order_what what, enum round_why why,
	const struct round_host *h);
/* What the host says, or what is decided of it: the only place that changes its state. */
int round_host_step(struct round *r, struct round_host *h, enum host_event event,
	enum round_why why, uint64_t now_ms);
/* Posts event to all hosts that are in one of states. */
void round_step_all(struct round *r, unsigned states, enum host_event event, enum round_why why,
	uint64_t now_ms);
/* Begins another call: orders and hosts of the last one go. */
void round_begin_call(struct round *r);
/* The only place that changes the state. Returns whether the event changes anything. */
bool round_post(struct round *r, enum round_event event, uint64_t now_ms);
/* Posts what follows from how things stand, until nothing does. */
void round_settle(struct round *r, uint64_t now_ms);
/* Chooses hosts of those that wait, and gives them ranks of a new round. */
void round_assign(struct round *r, uint64_t now_ms);
struct round_host *round_host_free(struct round_host *h);
