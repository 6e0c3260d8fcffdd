/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Shared by the files that implement round.h: round.c and round_*.c. */

#include "agent/rounds/round.h"
#include "agent/rounds/topology.h"

#define ROUND_NEVER UINT64_MAX
#define ROUND_LAST_CLAIM (UINT64_C(1) << 62)

/* Counters of hosts exist twice. */
enum round_pool {
	ROUND_FIT, /* hosts that are not kept out */
	ROUND_ALL, /* and those that are */
	ROUND_N_POOLS
};

/* Hosts that may be in one block. */
struct round_part {
	struct chain_node node;
	char *name; /* the first part of their topologies; NULL: no segments */
	int members;
	int waiting[ROUND_N_POOLS]; /* WAITING */
	int here[ROUND_N_POOLS];    /* WAITING, STARTING or RUNNING */
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
	uint64_t began_ms;    /* when this head began */
	uint64_t round;	      /* number of the last round with ranks */
	uint64_t known_round; /* number of the last round that any host has told of */
	uint64_t last_round;  /* the round whose ranks stay, where they can */
	bool started;	      /* a START was sent */
	bool saving;	      /* SAVE was ordered in this round */

	/* Times of the present state. */
	bool patient;	    /* GATHERING: the round waits for more hosts, although MIN are there */
	bool remembers;	    /* GATHERING: it waits only for hosts of the round before */
	uint64_t enough_ms; /* GATHERING: since when MIN are there */
	uint64_t short_ms;  /* GATHERING, RUNNING: since when fewer are there */
	uint64_t prepared_by_ms; /* PREPARING: when hosts are late */
	uint64_t recall_ms;	 /* PREPARING: when it gives up, after a host is gone */
	uint64_t next_ms;	 /* no round begins before; 0: at once */
	uint64_t waiting_ms;	 /* since when a host waits */

	struct round_host **hosts; /* by number */
	int n_numbers, size;	   /* numbers below n_numbers were used; there is room for size */
	int *free_numbers, n_free;
	struct round_host **dropped; /* by the last call */
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
	uint64_t keep_due_ms; /* when the next host that is kept out is let back */

	/* Working memory, with room for all hosts. */
	struct ranked_host *ranked;
	struct round_host **chosen;
	void *space;
	struct topology_vacancy *vacancies;
	struct topology_spare *spares;
	struct round_block *blocks; /* room for twice as many; NULL: there are no segments */

	char **seat_parts; /* topologies of the hosts of the last round, by rank; NULL: unknown */
	int last_seats;	   /* how many */
	int seats;	   /* hosts of the round that has ranks */
	LIST_HEAD(, round_seat) vacant;
	int n_vacant;
	bool offers;	 /* there are newly vacant seats, or hosts that have newly come to wait */
	bool held;	 /* round_hold_seats() */
	bool taken;	 /* a host has taken a seat in this round */
	bool record_due; /* the round that runs has changed, and the store is to know */
	bool recording;	 /* RECORD was ordered for the round that runs */
	struct ranked_world world;

	struct round_order *orders;
	int n_orders;
};

/* Room for one more host; 0 or -ENOMEM. */
int round_reserve(struct round *r);
void round_order(struct round *r, enum round_order_what what, enum round_why why,
	const struct round_host *h);
/* Posts a message of the host, or a decision about it: the only place that changes its state.
 * Returns as host_change(). */
int round_host_step(struct round *r, struct round_host *h, enum host_event event,
	enum round_why why, uint64_t now_ms);
/* The same for an event that changes the host's state for certain. */
void round_host_change(struct round *r, struct round_host *h, enum host_event event,
	enum round_why why, uint64_t now_ms);
/* Posts event to all hosts that are in one of states (bits). */
void round_step_all(struct round *r, unsigned states, enum host_event event, enum round_why why,
	uint64_t now_ms);
/* Begins another call: forgets the orders and the dropped hosts of the last one. */
void round_begin_call(struct round *r);
/* The only place that changes the state. Returns whether the event changes anything. */
bool round_post(struct round *r, enum round_event event, uint64_t now_ms);
/* Posts events that follow from the present state, until none does. */
void round_settle(struct round *r, uint64_t now_ms);
/* Keeps the topology of the host that had this rank in the last round. */
void round_note_seat(struct round *r, int rank, const char *parts);
/* Takes h out of its part; h may be NULL. */
void round_leave_part(struct round *r, struct round_host *h);
/* Lets hosts back that were kept out long enough. */
void round_let_back_due(struct round *r, uint64_t now_ms);
/* Whether fewer than MIN hosts wait that are not kept out. */
bool round_needs_all(const struct round *r);
/* Keeps in r->chosen, of the n hosts there, those of the next round, each with its wish. Returns
 * how many. */
int round_choose_blocks(struct round *r, int n);
/* Makes spares among the n hosts in r->chosen wish for the seats of the last round that none of
 * the others has and near which they stand. */
void round_fill_seats(struct round *r, int n);
/* round_seats.c: to be called after each change of a host's state. */
void round_seats_follow(
	struct round *r, struct round_host *h, enum host_state before, uint64_t now_ms);
/* While a round runs: gives vacant seats to hosts that fit, and notes seats that are late. */
void round_seats_settle(struct round *r, uint64_t now_ms);
uint64_t round_seats_due_ms(const struct round *r);
int round_seats_late(const struct round *r); /* how many are */
/* The round ends: forgets its seats. */
void round_seats_drop(struct round *r);
void round_seats_recorded(struct round *r);
/* h is about to join: if it claims a rank of this round that another host has, that one keeps it.
 */
void round_seats_claim(struct round *r, struct round_host *h);
/* Chooses hosts of those that wait, and gives them ranks of a new round. */
void round_assign(struct round *r, uint64_t now_ms);
struct round_host *round_host_free(struct round_host *h);
