/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The head of a group of several hosts: it decides which hosts are members, which of them form a
 * round with which ranks, and when that round starts and stops. Pure: no I/O, no clock; times are
 * milliseconds of CLOCK_BOOTTIME of the head's host. The caller reports messages and decisions
 * made elsewhere (verdict, restarts and their backoff), then carries out the orders, in order.
 *
 * No worker lives in two rounds: START goes to all hosts of a round after all were prepared, and no
 * host gets ranks of the next round before all have said that their workers are dead, or are gone.
 * A host is gone when it said BYE, its guard said so, its lease is over (lease.h), or it has joined
 * again, which it does only without workers (member_machine.h).
 *
 * The first round begins when MAX hosts are there, or when MIN are there and last_call is over. A
 * later one begins at once where MIN are left, also under another head, or else join_delay after
 * MIN are there again. The head does not learn of all hosts that fail together at once: a round
 * that loses one of them before its START goes on until the others are prepared, or for one beat,
 * so that the next round has none of them. Hosts beyond MAX wait until a round has room for them. A
 * host that could not prepare is left out of the round, and gets ranks again after workers of a
 * round have lived and died. A host that comes back while the group ends gets the verdict. Each
 * message costs constant time, a round of n hosts some n log n.
 *
 * With segments, a round consists of whole blocks: that many consecutive ranks, whose hosts share
 * the first part of their topologies. Hosts that fill no block wait. A block of the last round
 * stays where it can. The seat of a host that is gone goes to the host that stands nearest to it.
 *
 * Some roles' workers start again alone (config.alone). Where a host has no other workers, the
 * round goes on without it: its seat is vacant, after a LEAVE once its workers are dead, and a host
 * that waits and has as many workers of each role takes the seat, with the same ranks, in the round
 * that runs. The host that had the seat comes first, then the one that stands nearest, then the one
 * that joined first. Such a round ends where no host runs any more, or where fewer than MIN were
 * there for join_timeout.
 *
 * A host that is kept out waits as long as MIN others are there. Without them it takes part, after
 * all others.
 *
 * The caller of a head that follows another one names the hosts of the last round: no round begins
 * before each of them has joined or is gone. Where a host tells of a round that the head does not
 * know, no round begins before the head is as old as a lease. With a store that knows of each round
 * (records), the store has such rounds, and the caller says when a missing host is gone.
 */

#include "agent/rounds/host_machine.h"
#include "agent/rounds/host_ranks.h"
#include "agent/rounds/round_machine.h"
#include "common/base/hash_chain.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum { ROUND_HOSTS_MAX = 16384 }; /* in a round; as many may wait */

/* When hosts that come while a round runs with fewer than MAX get in. */
enum round_on_join {
	ROUND_JOIN_RESTARTS, /* join_delay after the first one came */
	ROUND_JOIN_SAVES,    /* the same, after a save */
	ROUND_JOIN_WAITS,    /* when another round begins anyhow */
};

struct round_config {
	int min, max; /* 1 <= min <= max <= ROUND_HOSTS_MAX */
	uint64_t last_call_ms, join_timeout_ms, prepare_timeout_ms, join_delay_ms, lease_ms;
	enum round_on_join on_join;
	struct ranked_roles roles; /* copied */
	const char *digest;	   /* of what all hosts must agree on; copied */
	uint64_t round;		   /* number of the last round of the head before; 0: none */
	bool records;		   /* a store knows of each round before it starts (tenure.h) */
	int segment;		   /* hosts of a block; min and max are multiples; 0 as 1 */
	/* Of each role: its workers start again alone. Copied; NULL: those of no role do. */
	const bool *alone;
};

/* The contents of a JOIN; round_join() copies all of it. */
struct round_join {
	const char *run;	/* of two agents of one run the later one replaces the other */
	const char *agent;	/* another one for each agent */
	const char *boot;	/* of the host's kernel */
	const char *name;	/* of the host */
	const char *digest;	/* of what all hosts must agree on */
	int node_rank;		/* < max; -1: none was given */
	uint64_t known_round;	/* the last round that a head has told it of; 0: none */
	uint64_t last_round;	/* the last one in which it had workers, <= known_round; 0: none */
	int last_rank;		/* its group rank in last_round */
	const int *replicas;	/* of each role */
	const char *topology;	/* where the host stands (common/text/topology.h); NULL: unknown */
	uint64_t kept_until_ms; /* it is kept out until then; 0: it is not */
};

struct round_host {
	char *run, *agent, *boot, *name;
	char *topology;		/* as in JOIN, or NULL */
	uint64_t kept_until_ms; /* 0: it is not kept out */
	enum host_state state;
	bool leaving;
	int number; /* the caller's name for it; another host may get it after DROP */
	int node_rank;
	int *replicas;

	/* Its part in the last round that it got ranks in. */
	uint64_t round; /* 0: none yet */
	int group_rank, first_rank, workers;
	int *first_index;

	/* The last round in which it had workers, and its group rank there. */
	uint64_t last_round;
	int last_rank;

	/* The module's own. */
	char *parts;		 /* of the topology */
	struct round_part *part; /* NULL: there are no segments */
	struct round_seat
		*seat; /* that it leaves or prepares for in the round that runs, or NULL */
	int wish;      /* the rank that it is to have in the round that begins; -1: any */
	struct chain_node by_run;
	uint64_t turn;	/* its place in the order of joining */
	uint64_t claim; /* the same, with hosts that are kept out behind all others */
};

/* A seat of the round that runs, whose host is gone or leaves. */
struct round_seat {
	LIST_ENTRY(round_seat) entry;
	char *name; /* of that host */
	int node_rank, group_rank, first_rank, workers;
	int *replicas, *first_index;
	const struct round_host *host; /* that leaves it or prepares for it; NULL: none */

	/* The module's own. */
	uint64_t since_ms, prepared_by_ms;
	bool recording, recorded; /* the store is to know of its host; it knows */
	bool late;		  /* no host has taken it for join_timeout */
};

enum round_order_what {
	/* To a host. */
	ROUND_ORDER_ADMIT,  /* it is a member with that number: its lease begins. The answer to its
			       JOIN has `round` */
	ROUND_ORDER_REFUSE, /* the host that joins does not get in. host: the one that has its node
			       rank (NODE_RANK), or -1 */
	ROUND_ORDER_ASSIGN, /* its ranks in that round; a PREPARED or UNABLE of the round follows */
	ROUND_ORDER_START,  /* STARTED follows */
	ROUND_ORDER_STOP,   /* STOPPED follows */
	ROUND_ORDER_END,    /* the verdict; BYE follows */
	ROUND_ORDER_TAKE,   /* START for this host alone, in the round that runs */
	/* About a host. */
	ROUND_ORDER_LEAVE_OUT, /* it could not prepare (UNABLE), or not in time (LATE) */
	ROUND_ORDER_DROP,      /* it is no member any more: its lease ends, its workers are dead.
				  round_host() has it until the next call */
	ROUND_ORDER_VACATE,    /* its workers are dead, and its seat is vacant from now on */
	/* About the round. */
	ROUND_ORDER_RECORD,  /* the store is to know of the round as it is now: it, or a host in it,
				starts after round_recorded(); or one of its hosts is gone */
	ROUND_ORDER_RUNNING, /* all workers execute */
	ROUND_ORDER_SAVE,    /* have workers save at one step, then call round_restart() */
	ROUND_ORDER_LATE,    /* a seat has been vacant for join_timeout: see round_next_seat() */
	ROUND_ORDER_REST,    /* all workers of the round are dead */
	ROUND_ORDER_GIVE_UP, /* fewer than MIN were there for join_timeout: END follows */
	ROUND_ORDER_FINISH,  /* all hosts have left after END */
};

enum round_why {
	ROUND_WHY_NONE,
	/* REFUSE */
	ROUND_WHY_DIGEST,    /* its digest is another one */
	ROUND_WHY_NODE_RANK, /* another host has it */
	ROUND_WHY_FULL,	     /* too many hosts, or too many workers for ranks */
	ROUND_WHY_ENDED,     /* there is a verdict */
	/* DROP */
	ROUND_WHY_BYE,
	ROUND_WHY_LOST,
	ROUND_WHY_REPLACED, /* by a later agent of its run */
	ROUND_WHY_REJOINED, /* the same agent has joined again, after its lease was over there */
	/* LEAVE_OUT */
	ROUND_WHY_UNABLE,
	ROUND_WHY_LATE,
};

struct round_order {
	enum round_order_what what;
	enum round_why why;
	int host;
	uint64_t round;
};

struct round;

/* NULL without memory. */
struct round *round_new(const struct round_config *config, uint64_t now_ms);
struct round *round_free(struct round *r);
DEFINE_CLEANUP(struct round *, round_free)

/* A host of the last round of the head before: it is missing. Its lease begins now; the caller
 * reports it as LOST when that is over. Ignores digest and replicas. Returns its number or -ENOMEM.
 * To be called before all else. */
_must_check_ int round_remember(struct round *r, const struct round_join *host);

/* JOIN has come: ADMIT or REFUSE follows. Returns 0; -EINVAL for an impossible node rank or round;
 * -ENOMEM, and nothing has changed. */
_must_check_ int round_join(struct round *r, const struct round_join *join, uint64_t now_ms);

/* A message of a host has come (PREPARED, UNABLE, STARTED, STOPPED with the round that it names;
 * LEAVE, BYE), or it is LOST. Returns 0; 1 where that changes nothing; -EINVAL for a message that
 * no member sends in this state, or where there is no such host. */
_must_check_ int round_hear(
	struct round *r, int host, enum host_event event, uint64_t round, uint64_t now_ms);

/* To be called at round_due_ms(); does nothing before. */
void round_time(struct round *r, uint64_t now_ms);
/* While held, no host takes a seat of the round that runs. Ends with the round. */
void round_hold_seats(struct round *r, bool held, uint64_t now_ms);
/* The store knows of this round as it was at the last RECORD. Does nothing where the round has
 * ended meanwhile. */
void round_recorded(struct round *r, uint64_t round, uint64_t now_ms);
/* A failure or an operator wants another round, in delay_ms at the earliest (UINT64_MAX: after the
 * next call). During a backoff the latest call's delay holds, before it the longest. */
void round_restart(struct round *r, uint64_t delay_ms, uint64_t now_ms);
/* Keeps the host out from the next round on, until until_ms; 0: lets it back. Gives no orders:
 * round_time() does. */
void round_keep_out(struct round *r, int host, uint64_t until_ms, uint64_t now_ms);
/* There is a verdict. Returns false where there was one before. */
bool round_end(struct round *r, uint64_t now_ms);

/* The orders of the last of these calls; borrowed until the next one. */
const struct round_order *round_orders(const struct round *r, int *ret_n);
/* When round_time() is to be called; UINT64_MAX: no time changes anything. */
uint64_t round_due_ms(const struct round *r);

enum round_state round_state(const struct round *r);
uint64_t round_number(const struct round *r); /* of the last round with ranks; 0: none yet */
/* The sizes of that round; borrowed. */
const struct ranked_world *round_world(const struct round *r);
int round_count(const struct round *r, enum host_state state); /* how many hosts are in it */
/* NULL: there is none; borrowed until the next call. */
const struct round_host *round_host(const struct round *r, int host);
/* The next vacant seat of the round that runs; NULL after the last: (r, NULL) is the first. */
const struct round_seat *round_next_seat(const struct round *r, const struct round_seat *seat);
/* The host with this run that is not gone; NULL: there is none. */
const struct round_host *round_host_of_run(const struct round *r, const char *run);
/* The host with the next number, whatever its state; NULL after the last: (r, NULL) is the first.
 */
const struct round_host *round_next_host(const struct round *r, const struct round_host *host);
