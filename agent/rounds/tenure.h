/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * How long a host leads a group whose head a store elects, and when the head after it may begin.
 * Pure: times are milliseconds of CLOCK_BOOTTIME of the host that is asked.
 *
 * The store holds the lead: a key on a lease that its head keeps alive. While the store confirms
 * that, nobody else leads. Each write of a round names the revisions of the lead and of the round
 * before it, so that one which was given up changes nothing when it comes late. A head that the
 * store does not confirm, because one of them cannot be reached, goes on while every host of the
 * last round that the store knows has acknowledged an answer of it that is no older than three
 * beats: none of them can have joined another head before that. It has nothing new to say to the
 * store meanwhile, so no other host gets in. What it starts again without the store are hosts of a
 * round that it has recorded itself: the next head takes the host that wrote the last round for the
 * old head's.
 *
 * When that ends as well, the head answers no more beats, and kills the workers of its own host;
 * those of the others die by their leases. If its agent cannot, its guard does.
 *
 * A later head reads the last round, and begins when each of its hosts has joined it or is gone.
 * From the hosts that have come it knows when the old head answered one of them last, and so how
 * long that one has gone on at most. Where none has come, it may have gone on with all of them.
 */

#include <stdbool.h>
#include <stdint.h>

#define TENURE_NEVER UINT64_MAX

/* Alike for all hosts of a group. */
struct tenure_times {
	uint64_t lease_ms;	/* of members */
	uint64_t store_loss_ms; /* how long a head goes on without the store */
};

/* ---- the head ---- */

struct tenure {
	struct tenure_times times;
	uint64_t kept_ms; /* the store confirms the lead until then */
	bool lost;	  /* another host leads */
};

void tenure_begin(struct tenure *t, const struct tenure_times *times);
/* The store has answered that the lease of the lead lives, ttl_ms long, to a request that was sent
 * then. A tenth of the members' lease is kept for clocks that run unlike. */
void tenure_kept(struct tenure *t, uint64_t sent_ms, uint64_t ttl_ms);
/* The store says that another host leads. */
void tenure_lost(struct tenure *t);
/* The store says that its key of the lead is gone, whatever has become of the lease: it confirms
 * nothing from now on, until the lead stands there again. */
void tenure_gone(struct tenure *t, uint64_t now_ms);

/* What a head finds in the store in place of what it has written there. */
enum tenure_found { TENURE_KNOWN, TENURE_NONE, TENURE_OTHER };
struct tenure_look {
	enum tenure_found lead, state, run; /* run: the secret and the settings of the group */
	bool asks; /* it waits for hosts of the last round, and has said what to remove if they are
		      dead */
};

enum tenure_verdict {
	TENURE_LEADS, /* the lead is its own */
	TENURE_AGAIN, /* it may write the lead again, where nothing changes meanwhile */
	TENURE_ANEW,  /* the same, and all else that it had there */
	TENURE_OVER,  /* another host leads, or has led since */
};
/* Whether a head leads on that finds this. Where it does not have the lead, another one may be
 * about to claim it: the store lets one of them. */
enum tenure_verdict tenure_judge(const struct tenure_look *l);

/* Whether the store confirms the lead, so that hosts may be let in. */
bool tenure_confirmed(const struct tenure *t, uint64_t now_ms);
/* The time from which on this host leads no more, where nothing comes until then. acked_ms: when
 * the oldest answer was sent among the newest that each host of the last round in the store has
 * acknowledged; TENURE_NEVER: there is no such host. A JOIN acknowledges nothing, since its answer
 * may be lost: 0 until a beat or PREPARED does, or what the host has acknowledged before. While it
 * is not known whether a write has happened, the hosts are those of the round before it, and of its
 * own. */
uint64_t tenure_until_ms(const struct tenure *t, uint64_t acked_ms);

/* ---- the head after it ---- */

struct tenure_past {
	struct tenure_times times;
	uint64_t led_ms;   /* this host leads since then */
	uint64_t heard_ms; /* the earliest of what tenure_past_heard() was told */
};

void tenure_past_begin(struct tenure_past *p, const struct tenure_times *times, uint64_t led_ms);
/* A host of the last round has joined. It got its last answer from the old head at that time; where
 * it does not know that, it is when it joined. */
void tenure_past_heard(struct tenure_past *p, uint64_t answered_ms);
/* The time from which on no worker of that round lives on a host that has not joined. head: it is
 * the old head's own. */
uint64_t tenure_past_gone_ms(const struct tenure_past *p, bool head);

/* ---- the hosts between them ---- */

/* How long a host lets others go first when nobody leads: by its group rank in the last round, that
 * of the old head, and the number of hosts there were. rank -1: it was not in it; hosts 0: there
 * was none, so that all may try at once. */
uint64_t tenure_turn_ms(int rank, int head_rank, int hosts);
