/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* What the files of round.h share. */

#include "agent/rounds/round.h"
#include "agent/rounds/topology.h"

#define ROUND_NEVER UINT64_MAX
#define ROUND_LAST_CLAIM (UINT64_C(1) << 62)

enum round_pool {
	ROUND_FIT, /* hosts that are not kept out */
	ROUND_ALL,
	ROUND_N_POOLS
};

/* Hosts that may be in one block. */
struct round_part {
	struct chain_node node;
	char *name;		    /* the first part of their topologies; NULL: no segments */
	int members;		    /* that the module knows */
	int waiting[ROUND_N_POOLS]; /* WAITING */
	int here[ROUND_N_POOLS];    /* ... or STARTING or RUNNING */
};

/* A block of the round that begins. */
struct round_block {
	struct round_part *part;
	int last;	   /* its place among the blocks of the last round; -1: it was not there */
	int first, n;	   /* its hosts of the last round: chosen[first] and on */
	uint64_t whole_at; /* a new one: the turn of the host that made it whole */
};

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
	uint64_t recall_ms;	 /* ... too few are left: when the others are waited for no more */
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

	struct round_part whole; /* all hosts, where there are no segments */
	struct chain parts;	 /* else their parts */
	int blocks_waiting[ROUND_N_POOLS], blocks_here[ROUND_N_POOLS]; /* whole ones */
	uint64_t keep_due_ms; /* when the next host is not kept out any more */

	struct ranked_host *ranked; /* room for all hosts */
	struct round_host **chosen;
	void *space;
	struct topology_vacancy *vacancies;
	struct topology_spare *spares;
	struct round_block *blocks; /* twice as many; NULL: there are no segments */
	char **seat_parts; /* of the hosts of the last round, by rank; NULL: unknown. Owned */
	int last_seats;	   /* ... how many */
	int seats;	   /* hosts of the round that has ranks */
	LIST_HEAD(, round_seat) vacant;
	int n_vacant;
	bool offers;	 /* hosts wait that have not been looked at, or seats are newly vacant */
	bool held;	 /* no host takes a seat */
	bool taken;	 /* one was taken in this round */
	bool record_due; /* the store is to know more of the round that runs */
	bool recording;	 /* ... and the caller has been told so */
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
/* Where the host with that rank in the last round stands. */
void round_note_seat(struct round *r, int rank, const char *parts);
/* h takes part in blocks no more; NULL: nothing. */
void round_leave_part(struct round *r, struct round_host *h);
/* Lets back hosts that were kept out long enough. */
void round_let_back_due(struct round *r, uint64_t now_ms);
/* Whether too few hosts wait that are not kept out. */
bool round_needs_all(const struct round *r);
/* Puts the hosts of the next round in r->chosen, each with its wish, of the n that are there.
 * Returns how many these are. */
int round_choose_blocks(struct round *r, int n);
/* Has spares among the n hosts in r->chosen wish for seats of the last round that no other of these
 * has: those near which they stand. */
void round_fill_seats(struct round *r, int n);
/* round_seats.c: call it after each change of a host's state. */
void round_seats_follow(
	struct round *r, struct round_host *h, enum host_state before, uint64_t now_ms);
/* While a round runs: gives vacant seats to hosts that fit, and notes those that are late. */
void round_seats_settle(struct round *r, uint64_t now_ms);
uint64_t round_seats_due_ms(const struct round *r);
int round_seats_late(const struct round *r); /* how many */
/* The round ends. */
void round_seats_drop(struct round *r);
void round_seats_recorded(struct round *r);
/* Two hosts claim one rank of this round: the one that has it keeps it. */
void round_seats_claim(struct round *r, struct round_host *h);
/* Chooses hosts of those that wait, and gives them ranks of a new round. */
void round_assign(struct round *r, uint64_t now_ms);
struct round_host *round_host_free(struct round_host *h);
