/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The lead of a group whose head etcd elects: who leads, as etcd says; this host's own claim to it;
 * and what the head leaves there for the next one. One for each agent of such a group. Decides by
 * agent/rounds/lead_machine.h and agent/rounds/tenure.h.
 *
 *   lead.c        the machine at work: looks, follows, waits, leads, steps down
 *   lead_claim.c  this host's claim to lead, the secret of links, and a lead that is gone
 *   lead_withdraw.c   a host that leaves while nobody leads
 *   lead_reach.c  hosts that cannot reach the one that leads, which then leaves the lead to another
 *   lead_keys.c   the head: persistent keys of workers
 *   lead_store.c  what stands in etcd, as text; limits, and messages about trouble
 *   lead_keep.c   the head: keeps the lead, records rounds, and removes all at the end
 *
 * Below PREFIX/ID/ stand lead (who leads; on the lease of that), run (the secret of the group's
 * links and what its hosts agree on), state (the last round) and kv/ (persistent keys of workers),
 * edition (which hosts have all records of a durable work queue), these on a lease of an hour that
 * each head keeps alive, and end (the verdict, for a minute).
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

struct keys_batch;
struct store_op;
struct store_watch;

enum lead_key {
	LEAD_KEY,
	LEAD_RUN,
	LEAD_STATE,
	LEAD_END,
	LEAD_EDITION,
	LEAD_N_KEYS,
	LEAD_KV = LEAD_N_KEYS, /* with a slash: persistent keys of workers begin so */
	LEAD_KV_END,
	LEAD_WAITING, /* the same: hosts that do not reach the one that leads */
	LEAD_WAITING_END,
	LEAD_PREFIX, /* of all these */
	LEAD_N_NAMES
};

enum { LEAD_GROUP_TTL_S = 3600 }; /* of run and state */

enum { LEAD_REMOVE_MS = 3000 }; /* at most, for the last writes */

/* The names of what stands there. */
_must_check_ int lead_make_keys(struct lead *l);
/* A number that stands in etcd; none where there is none that a group can have reached. */
int64_t lead_number(const json_t *value, const char *key, int64_t none);

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
	struct loop_timer *retry, *turn;
	bool looked;		/* etcd has answered once */
	int64_t old_end;	/* the revision of a verdict that was there then */
	bool vacant;		/* nobody leads, and workers live here yet */
	char dead[HOSTS_ID];	/* the agent of a head that is certainly dead */
	uint64_t since_ms;	/* this host has not been in the group since then */
	char reported[512];	/* the trouble with etcd that was told last */
	bool reported_claim;	/* ... and this host could not claim for it */
	char follows[HOSTS_ID]; /* the agent that leads, as this host has heard last */
	int64_t note_lease; /* the lease of its note that it cannot reach that; 0: there is none */
	struct etcd_call *note_call;
	struct loop_timer *note_timer; /* until it notes that */
	uint64_t yields_ms;	       /* it does not want to lead until then */

	/* A claim under way. */
	struct link_resolve *resolve;
	struct link_addresses addresses; /* where this host may listen */
	size_t endpoint;		 /* which of etcd's is looked up */
	char secret[HOSTS_SECRET];	 /* of hosts->tls, unless there is a token file */
	bool slow;			 /* it failed in a way that would fail again at once */

	/* This host's own claim, and lead. */
	struct head *candidate; /* listens already, and becomes the head when the claim holds */
	int64_t term, own_lease, group_lease;
	uint64_t granted_ms; /* when the grant of own_lease was asked for */
	struct tenure tenure;
	uint64_t reached_ms; /* etcd has confirmed to this host itself that it leads until then */
	struct tenure_past past;
	uint64_t until_ms;		  /* this host leads until then at least */
	bool lost;			  /* it leads no more, and steps down in the next turn */
	int64_t revision, state_revision; /* of this host's writes */
	struct etcd_call *keep, *write;
	struct loop_timer *renew, *over;
	uint64_t kept_ms;	    /* when the keep-alive under way was sent */
	int64_t renewal;	    /* number of the last Renew */
	uint64_t asked_ms;	    /* when it was sent */
	json_t *record;		    /* to be written as state; owned, or NULL */
	json_t *writing;	    /* ... on its way */
	bool recorded;		    /* state is of a round that this host has recorded */
	bool refused;		    /* etcd has refused the last write */
	bool regains;		    /* the lead is gone from etcd, and this host wants it again */
	int64_t gone;		    /* ... since that revision: what was there before is no more */
	int64_t old_state, old_run; /* ... where etcd has these revisions of state and run */
	bool rewrites_all;	    /* ... and one of them is gone too */
	bool granted;		    /* ... and group_lease is a new one */
	json_t *end;		    /* to be written; owned, or NULL */
	json_t *edition;	    /* the present one; owned, or NULL */
	bool edition_due;	    /* ... is to be written */

	/* Persistent keys of workers. */
	struct store_watch *changes;
	struct store_op *reading;
	struct keys_batch *batch; /* being read, or on its way to etcd */
	json_t *dirty;		  /* an object: the keys that etcd has otherwise */
	bool loaded;		  /* those of the head before are there */
	bool refill;		  /* etcd has lost them meanwhile */
	int loading;		  /* how many are being put into the store, and one more */
	char *load_from;	  /* the next page begins there; or NULL */

	/* The end of this host's lead. */
	uint64_t short_ms;	      /* since when too few hosts are there; 0: enough are */
	struct etcd_call *notes_call; /* whether others wait */
	bool yielding;		      /* it resigns because others do */
	bool resigning;		      /* as soon as all is written */
	bool removing, removed;	      /* all but end */
	struct loop_timer *removal;

	bool withdrawing; /* it leaves, and does not lead */
};

/* Where the group's spec says etcd. */
_must_check_ int lead_new(struct hosts *h, struct lead **ret, struct error *err);
struct lead *lead_free(struct lead *l);
DEFINE_CLEANUP(struct lead *, lead_free)

/* Begins to look. */
void lead_begin(struct lead *l);
/* The link to the head is up, or the head has let this host in. */
void lead_linked(struct lead *l);
/* The link is broken; it may come back. */
void lead_unlinked(struct lead *l);
/* The last worker of this host has died. */
void lead_workers_gone(struct lead *l);
/* The guard of the head's host: its agent and its workers are dead. */
void lead_head_died(struct lead *l);

/* lead.c, for lead_keep.c: this host leads no more. */
void lead_lost(struct lead *l, const char *why);
void lead_post(struct lead *l, enum lead_event event);
/* Reads all that lead_entry_read() is for; the answer as seen. */
_must_check_ int lead_look_send(struct lead *l, etcd_fn fn);
_must_check_ int lead_look_read(struct lead *l, const struct etcd_answer *a);
/* Says what is wrong with etcd, once; text NULL: it answers again. */
void lead_report(struct lead *l, const char *text);
/* The limit for one request to etcd. */
int64_t lead_limit_ms(const struct lead *l);
/* How long the lease of the lead is. */
int64_t lead_ttl_s(const struct lead *l);

/* lead_keep.c, for lead_claim.c: etcd has answered this host's own request that it leads. */
void lead_kept(struct lead *l, uint64_t sent_ms, int64_t ttl_s);

/* lead_claim.c, while this host leads. */
/* Sends what changes something only while this host leads. Where it does not, the answer has what
 * lead_check_refused() reads. */
_must_check_ int lead_write(struct lead *l, struct etcd_txn *t, etcd_fn fn);
/* Watches from that revision of etcd on whether the lead is still this host's. */
void lead_watch(struct lead *l, int64_t revision);
/* Whether a write that was refused has found this host's lead; else this host leads no more, or
 * another try will tell. */
bool lead_check_refused(struct lead *l, const struct etcd_answer *a);
/* etcd has no lead, although this host leads. */
void lead_regain(struct lead *l);
/* Goes on with that, or looks where a watch was lost, unless a write is under way. */
void lead_regain_try(struct lead *l);

/* lead_claim.c. */
/* Begins a claim, whose end posts WON, BEATEN or UNSURE. */
void lead_claim(struct lead *l);
/* Gives this host's links the secret that the group has in etcd. */
_must_check_ int lead_take_secret(struct lead *l, struct error *err);

/* lead_keep.c: this host has begun, or ended, to lead. */
void lead_keep_begin(struct lead *l);
void lead_keep_end(struct lead *l);
_must_check_ int lead_keep_timers(struct lead *l);
void lead_keep_free(struct lead *l);
/* Whether etcd confirms to this host that it leads: other hosts may be let in. */
bool lead_confirmed(const struct lead *l);
/* Steps down where that time has come. Returns whether this host leads yet. */
bool lead_holds(struct lead *l);
/* Members have acknowledged more, or have gone: moves the timer that ends this host's lead. */
void lead_arm(struct lead *l);
/* A member: the head asks it to keep leases alive. */
void lead_renew_for(struct lead *l, int64_t number, const json_t *leases);
/* A member has done so. */
void lead_renewed(struct lead *l, int64_t number, int64_t ttl_s);
/* ROUND_ORDER_RECORD: has etcd know of the round, then calls head_recorded(). */
void lead_record(struct lead *l);
/* Has etcd know which hosts have all records, then features. Takes edition. */
void lead_note_edition(struct lead *l, json_t *edition);
/* There is a verdict, and later all hosts have left. */
void lead_note_end(struct lead *l);
void lead_remove(struct lead *l);
/* This host leaves a group that goes on: another one may lead at once. */
void lead_resign(struct lead *l);
/* The same, while another host leads, or none does. */
void lead_withdraw(struct lead *l);
/* Nothing is left for this host to do there, or it has no time left for it. */
void lead_removed(struct lead *l);
/* Nothing of this host's is left to be done in etcd. */
bool lead_is_over(const struct lead *l);

/* Tells of a write that etcd has refused, or of one that it has not. */
void lead_written(struct lead *l, const struct etcd_answer *a);
/* Writes what is to be written, where it can. */
void lead_flush(struct lead *l);

/* lead_reach.c. */
/* This host waits for a link to the one that leads; has one, or waits for none. */
void lead_reach_begin(struct lead *l);
void lead_reach_end(struct lead *l);
/* The head, five times in each lease: looks whether enough hosts are there. */
void lead_reach_look(struct lead *l);
_must_check_ int lead_reach_timers(struct lead *l);
void lead_reach_free(struct lead *l);

/* lead_keys.c. */
/* Reads those of the head before, then keeps etcd's like the store's. */
void lead_keys_load(struct lead *l);
/* Returns whether a write is under way, or about to be. */
bool lead_keys_flush(struct lead *l);
/* etcd has lost all. */
void lead_keys_refill(struct lead *l);
void lead_keys_end(struct lead *l);

/* lead_store.c. Objects are owned; NULL without memory. */
json_t *lead_json(const struct lead *l, const char *address);
json_t *lead_run_json(const char *secret, const json_t *settings);
/* The last round of that head, or the one that it is about to start. */
json_t *lead_state_json(const struct head *h, int64_t term);
/* Reads a key's value, where entries has it. -ENOMEM. A value that is no object counts as none. */
_must_check_ int lead_entry_read(struct lead_entry *e, const struct etcd_result *result);
void lead_entry_fini(struct lead_entry *e);
/* The same of the last round that was started, without the host of that run. */
json_t *lead_state_now(const struct head *h, int64_t term, const char *without);
