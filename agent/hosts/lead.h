/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * This host's part in electing the head by etcd: it finds out there who leads, claims the lead, and
 * while it leads keeps the lead and leaves in etcd what the next head needs. One for each agent of
 * such a group. Decides by agent/rounds/lead_machine.h and agent/rounds/tenure.h.
 *
 *   lead.c           the machine at work: looks, follows, waits, leads, steps down
 *   lead_claim.c     claims the lead; claims it again when etcd has lost it; the secret of links
 *   lead_reach.c     the lead goes to a host that the others reach
 *   lead_withdraw.c  a host leaves while no host leads
 *   lead_keep.c      while this host leads: keep-alives, writes, and their end
 *   lead_keys.c      while this host leads: persistent keys of workers
 *   lead_values.c    names and values of keys in etcd; limits; messages about trouble
 *
 * Keys below PREFIX/ID/, with their leases:
 *
 *   lead      who leads                                      the lease of the lead
 *   run       the secret of links, and the settings          } an hour;
 *   state     the hosts of the last round                    } each head
 *   kv/...    persistent keys of workers                     } keeps it
 *   edition   which hosts have all records of features       } alive
 *   end       the verdict                                    a minute
 *   waiting/  hosts that do not reach the one that leads     two leases of a member
 */

#include "agent/hosts/private.h"
#include "agent/link/resolve.h"
#include "agent/rounds/lead_machine.h"
#include "agent/rounds/tenure.h"
#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/etcd/from_spec.h"
#include "common/loop/loop.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct lead_keys;
struct lead_reach;

enum lead_key {
	LEAD_KEY,
	LEAD_RUN,
	LEAD_STATE,
	LEAD_END,
	LEAD_EDITION,
	LEAD_N_KEYS,
	LEAD_KV = LEAD_N_KEYS, /* persistent keys of workers begin so; with a slash */
	LEAD_KV_END,
	LEAD_WAITING, /* notes of hosts begin so; with a slash */
	LEAD_WAITING_END,
	LEAD_PREFIX, /* of all these */
	LEAD_N_NAMES
};

enum {
	LEAD_GROUP_TTL_S = 3600, /* of the lease of run, state and so on */
	LEAD_REMOVE_MS = 3000,	 /* at most, for the last writes */
};

/* A key as etcd had it. */
struct lead_entry {
	int64_t revision; /* of its last write; 0: there is no such key */
	int64_t lease;
	json_t *value; /* an object; owned, or NULL */
};

struct lead {
	struct hosts *hosts;
	struct etcd *etcd;
	char *keys[LEAD_N_NAMES];
	enum lead_state state;
	struct lead_entry seen[LEAD_N_KEYS]; /* when this host has looked last */
	struct etcd_watch *watch; /* of LEAD_KEY: of the head, and of hosts without a link to one */
	struct etcd_call *call;	  /* a look or a claim is under way */
	struct loop_timer *retry; /* of a look */
	struct loop_timer *turn;  /* until this host may claim the lead */
	bool looked;		  /* etcd has answered once */
	int64_t old_end;	  /* revision of the verdict that was there then; 0: none */
	bool vacant;		  /* no host leads, and workers live here yet */
	char dead[HOSTS_ID];	  /* the agent of a head that is certainly dead; "": none */
	uint64_t since_ms;	  /* this host has been out of the group since then */
	char reported[512];	  /* the trouble with etcd that was reported last; "": none */
	bool reported_claim;	  /* a claim of this host met it */
	char follows[HOSTS_ID];	  /* the agent that leads, as far as this host knows */
	uint64_t claims_from_ms;  /* this host does not want to lead before */
	struct lead_reach *reach;
	struct lead_keys *persistent; /* keys of workers */

	/* A claim under way. */
	struct link_resolve *resolve;
	struct link_addresses addresses; /* where this host may listen */
	size_t endpoint;		 /* which of etcd's endpoints it resolves */
	char secret[HOSTS_SECRET];	 /* of hosts->tls, unless there is a token file */
	bool slow;			 /* it failed, and another one would fail at once */
	struct head *candidate;		 /* listens, and becomes the head if the claim holds */
	int64_t term, own_lease, group_lease;
	uint64_t granted_ms; /* when it asked for own_lease */

	/* While this host leads. */
	struct tenure tenure;
	struct tenure_past past;
	uint64_t reached_ms; /* etcd has confirmed to this host itself that it leads until then */
	uint64_t until_ms;   /* it leads until then at least */
	bool lost;	     /* it leads no more, and steps down in the next turn */
	int64_t revision, state_revision; /* of its writes of lead and state */
	struct etcd_call *keep, *write;
	struct loop_timer *renew, *over;
	uint64_t kept_ms;  /* when it sent the keep-alive that is under way */
	int64_t renewal;   /* number of the last Renew */
	uint64_t asked_ms; /* when it sent that */
	json_t *record;	   /* to be written as state; owned, or NULL */
	json_t *writing;   /* the record that is being written; owned, or NULL */
	bool recorded;	   /* state is of a round that this host has recorded */
	bool refused;	   /* etcd has refused the last write */
	json_t *end;	   /* to be written as end; owned, or NULL */
	json_t *edition;   /* owned, or NULL */
	bool edition_due;  /* it is to be written */

	/* etcd has lost the lead, and this host claims it again. */
	bool regains;
	int64_t gone;		    /* etcd has deleted the lead in that revision; 0: unknown */
	int64_t old_state, old_run; /* revisions of state and run in etcd */
	bool rewrites_all;	    /* etcd has lost one of these, too */
	bool granted;		    /* group_lease is a new one */

	/* The end of this host's part in the election, in this order. */
	enum lead_leaving {
		LEAD_STAYS,
		LEAD_RESIGNS,	/* gives up the lead as soon as all is written */
		LEAD_RESIGNING, /* is giving it up */
		LEAD_REMOVES,	/* removes all keys but end */
		LEAD_WITHDRAWS, /* has given up the lead, or never led: leaves the last round */
		LEAD_LEFT,	/* has nothing left to do in etcd */
	} leaving;
	bool yields;		    /* it resigns because other hosts do not reach it */
	struct loop_timer *removal; /* until it waits for etcd no longer */
};

/* --- lead.c --- */

_must_check_ int lead_new(struct hosts *h, struct lead **ret, struct error *err);
struct lead *lead_free(struct lead *l);
DEFINE_CLEANUP(struct lead *, lead_free)
/* Begins to look who leads. */
void lead_begin(struct lead *l);
/* The link to the head is up, or the head has let this host in. */
void lead_linked(struct lead *l);
/* The link is broken; it may come back. */
void lead_unlinked(struct lead *l);
/* The last worker of this host has died. */
void lead_workers_gone(struct lead *l);
/* The head's guard says that its agent and workers are dead. */
void lead_head_died(struct lead *l);
/* This host leads no more: it steps down in the next turn of the loop. */
void lead_lost(struct lead *l, const char *why);
void lead_post(struct lead *l, enum lead_event event);
/* Reads all keys below LEAD_N_KEYS; lead_look_read() keeps the answer as seen. */
_must_check_ int lead_look_send(struct lead *l, etcd_fn fn);
_must_check_ int lead_look_read(struct lead *l, const struct etcd_answer *a);

/* --- lead_claim.c --- */

/* Begins a claim, whose end posts WON, BEATEN or UNSURE. */
void lead_claim(struct lead *l);
/* Gives this host's links the secret that the group has in etcd. */
_must_check_ int lead_take_secret(struct lead *l, struct error *err);

/* While this host leads: */

/* Sends a transaction whose compares hold only while this host leads. If they do not hold, the
 * answer has the keys that lead_check_refused() reads. */
_must_check_ int lead_write(struct lead *l, struct etcd_txn *t, etcd_fn fn);
/* Whether etcd, which refused a write, has this host's lead. If not, this host leads no more,
 * claims again, or (without memory) tries again. */
bool lead_check_refused(struct lead *l, const struct etcd_answer *a);
/* Watches from that revision of etcd on whether the lead is still this host's. */
void lead_watch(struct lead *l, int64_t revision);
/* etcd has no lead, although this host leads: claims it again. */
void lead_regain(struct lead *l);
/* Takes the next step of that, or restores a watch that was lost, unless a write is under way. */
void lead_regain_try(struct lead *l);

/* --- lead_keep.c: while this host leads --- */

void lead_keep_begin(struct lead *l);
void lead_keep_end(struct lead *l);
_must_check_ int lead_keep_timers(struct lead *l);
void lead_keep_free(struct lead *l);
/* etcd has answered this host's own request, sent then, that it leads. */
void lead_kept(struct lead *l, uint64_t sent_ms, int64_t ttl_s);
/* Whether etcd confirms to this host that it leads: other hosts may be let in. */
bool lead_confirmed(const struct lead *l);
/* Whether this host still leads. If its time is over, it steps down. */
bool lead_holds(struct lead *l);
/* Members have acknowledged more, or have gone: moves the timer that ends this host's lead. */
void lead_arm(struct lead *l);
/* On a member: Renew, by which the head has it keep leases alive. */
void lead_renew_for(struct lead *l, int64_t number, const json_t *leases);
/* Renewed of a member. */
void lead_renewed(struct lead *l, int64_t number, int64_t ttl_s);
/* ROUND_ORDER_RECORD: writes the round to etcd, then calls head_recorded(). */
void lead_record(struct lead *l);
/* Writes which hosts have all records, then calls the hook hosts_noted. Takes edition. */
void lead_note_edition(struct lead *l, json_t *edition);
/* Writes the verdict. */
void lead_note_end(struct lead *l);
/* The group has ended: removes all keys but the verdict. */
void lead_remove(struct lead *l);
/* This host leaves a group that goes on: another one may lead at once. */
void lead_resign(struct lead *l);
/* This host has nothing left to do in etcd, or no time left for it. */
void lead_removed(struct lead *l);
bool lead_is_over(const struct lead *l);
/* Reports whether etcd has refused a write. */
void lead_written(struct lead *l, const struct etcd_answer *a);
/* Writes the next thing that is due, if no write is under way. */
void lead_flush(struct lead *l);

/* --- lead_withdraw.c --- */

/* This host, which does not lead, leaves. */
void lead_withdraw(struct lead *l);

/* --- lead_reach.c --- */

/* This host begins, or ends, to wait for a link to the one that leads. */
void lead_reach_begin(struct lead *l);
void lead_reach_end(struct lead *l);
/* While this host leads, five times in each lease: checks whether enough hosts are there. */
void lead_reach_check(struct lead *l);
/* This host leads no more. */
void lead_reach_forget(struct lead *l);
_must_check_ int lead_reach_new(struct lead *l);
void lead_reach_free(struct lead *l);

/* --- lead_keys.c: while this host leads --- */

/* Reads the keys that the head before has left, then writes each change to etcd. */
void lead_keys_load(struct lead *l);
/* Returns whether a write is under way, or about to be. */
bool lead_keys_flush(struct lead *l);
/* etcd has lost all keys: writes them again. */
void lead_keys_refill(struct lead *l);
void lead_keys_end(struct lead *l);
/* Whether the store has all that the head before has left. */
bool lead_keys_are_loaded(const struct lead *l);
_must_check_ int lead_keys_new(struct lead *l);
void lead_keys_free(struct lead *l);

/* --- lead_values.c: objects are owned; NULL without memory --- */

_must_check_ int lead_make_keys(struct lead *l);
/* A number that stands in etcd; none if no group can have reached it. */
int64_t lead_number(const json_t *value, const char *key, int64_t none);
json_t *lead_json(const struct lead *l, const char *address);
json_t *lead_run_json(const char *secret, const json_t *settings);
/* The round that runs, or is about to start. */
json_t *lead_state_json(const struct head *h, int64_t term);
/* The last round that was started, without the host of that run. */
json_t *lead_state_now(const struct head *h, int64_t term, const char *without);
/* Reads the first entry of a result. A value that is no object counts as an empty one. -ENOMEM. */
_must_check_ int lead_entry_read(struct lead_entry *e, const struct etcd_result *result);
void lead_entry_fini(struct lead_entry *e);
/* Reports trouble with etcd, once; text NULL: etcd answers again. */
void lead_report(struct lead *l, const char *text);
/* The limit for one request to etcd. */
int64_t lead_limit_ms(const struct lead *l);
/* The length of the lease of the lead. */
int64_t lead_ttl_s(const struct lead *l);
