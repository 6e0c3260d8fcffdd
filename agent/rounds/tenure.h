/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long a host leads a group whose head a store elects, and when the next head may begin. Pure:
 * times are milliseconds of the calling host's CLOCK_BOOTTIME.
 *
 * The store has the lead: a key on a lease that the head keeps alive. While the store confirms the
 * lead, no other host leads. Each write of a round names the revisions of the lead and of the round
 * before, so that a write that comes late changes nothing. Where head and store cannot reach each
 * other, the head goes on while every host of the last round in the store has acknowledged one of
 * its answers that is no older than three beats: none of them can have joined another head before
 * that. Meanwhile the head writes nothing to the store, so it lets no other host in. Without the
 * store it starts again only a round that it has recorded itself, because the next head assumes
 * that the host which wrote the last round is the old head's own.
 *
 * When that ends as well, the head answers no more beats, and its agent, or else the guard, kills
 * the workers of its own host. Other hosts' workers die by their leases.
 *
 * The next head reads the last round, and begins when each host of that has joined it or is gone.
 * The hosts that have joined tell when the old head last answered them, and so how long it has gone
 * on at most. Where none has joined, the old head may have gone on with all of them.
 */

#include <stdbool.h>
#include <stdint.h>

#define TENURE_NEVER UINT64_MAX

/* The same on all hosts of a group. */
struct tenure_times {
	uint64_t lease_ms;	/* of members */
	uint64_t store_loss_ms; /* how long a head goes on without the store */
};

/* --- the head --- */

struct tenure {
	struct tenure_times times;
	uint64_t kept_ms; /* the store confirms the lead until then */
	bool lost;	  /* another host leads */
};

void tenure_begin(struct tenure *t, const struct tenure_times *times);
/* The store has answered a request that was sent at sent_ms: the lease of the lead lives for
 * ttl_ms. A tenth of the members' lease is taken off, because clocks do not run at one speed. */
void tenure_kept(struct tenure *t, uint64_t sent_ms, uint64_t ttl_ms);
/* The store says that another host leads. */
void tenure_lost(struct tenure *t);
/* The store says that the key of the lead is gone, though its lease may live: the store confirms
 * nothing until the key is there again. */
void tenure_gone(struct tenure *t, uint64_t now_ms);

/* A key in the store, as the head finds it: its own value, none, or another host's. */
enum tenure_found { TENURE_KNOWN, TENURE_NONE, TENURE_OTHER };
struct tenure_keys {
	enum tenure_found lead, state, run; /* run: the secret and the settings of the group */
	bool waits; /* for hosts of the last round; the operator was told which key to remove if
		       they are dead */
};

enum tenure_right {
	TENURE_LEADS,	    /* the lead is its own */
	TENURE_RECLAIM,	    /* it may write the lead again, if nothing changes meanwhile */
	TENURE_RECLAIM_ALL, /* it may write the lead and its other keys again, if nothing changes */
	TENURE_OVER,	    /* another host leads, or has led since */
};
/* Whether a head that finds these keys may lead on. Without the lead in the store, another host may
 * be about to claim it: the store lets one of them. */
enum tenure_right tenure_check(const struct tenure_keys *keys);

/* Whether the store confirms the lead, so that the head may let hosts in. */
bool tenure_confirmed(const struct tenure *t, uint64_t now_ms);
/* The time from which on this host no longer leads, unless a message comes before. acked_ms: of
 * each host of the last round in the store take the newest answer that the host has acknowledged;
 * acked_ms is when the oldest of these was sent, TENURE_NEVER without such hosts. A Join
 * acknowledges nothing, since its answer may be lost: until a beat or Prepared comes, an earlier
 * acknowledgement counts, or 0. While the head does not know whether its last write reached the
 * store, the hosts of both rounds count: the one before the write and the one written. */
uint64_t tenure_until_ms(const struct tenure *t, uint64_t acked_ms);

/* --- the head after it --- */

struct tenure_past {
	struct tenure_times times;
	uint64_t led_ms;   /* this host leads since then */
	uint64_t heard_ms; /* the earliest time given to tenure_past_heard() */
};

void tenure_past_begin(struct tenure_past *p, const struct tenure_times *times, uint64_t led_ms);
/* A host of the last round has joined, to which the old head gave its last answer at answered_ms.
 * Where the host does not know that: the time at which it joined. */
void tenure_past_heard(struct tenure_past *p, uint64_t answered_ms);
/* The time from which on no worker of that round lives on a host that has not joined. head: the
 * host is the old head's own. */
uint64_t tenure_past_gone_ms(const struct tenure_past *p, bool head);

/* --- the hosts between them --- */

/* How long a host lets others go first when no host leads. rank and head_rank: its group rank and
 * the old head's in the last round, which had so many hosts. rank -1: it was not there; hosts 0:
 * there was no round, so that all may try at once. */
uint64_t tenure_turn_ms(int rank, int head_rank, int hosts);
