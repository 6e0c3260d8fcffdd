/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The commons: what the workers of one group share with each other, which is keys, barriers,
 * members, results and events. Knows no socket, no board and no supervisor: its owner
 * says who is in the group, and tells it of starts and ends. A worker, by role and index, keeps its
 * slot as long as the commons live.
 *
 * Each agent has commons for its own workers. Where the group has several hosts, the head has one
 * more, for the workers of all of them.
 */

#include "agent/policy/group_machine.h"
#include "agent/policy/worker.h"
#include "agent/store/kv.h"
#include "agent/sync/barrier.h"
#include "agent/sync/members.h"
#include "common/loop/loop.h"
#include "common/varlink/server.h"

#include <sys/queue.h>

enum {
	COMMONS_SLOTS = 65536, /* workers, by role and index, in the life of the commons */
	COMMONS_STORE_BYTES = 256 << 20,
	COMMONS_RESULT_BYTES = 1 << 20,
	COMMONS_RESULTS_BYTES = 8 << 20,
};

/* Where the group is. */
enum commons_phase { COMMONS_STARTING, COMMONS_RUNNING, COMMONS_STOPPING, COMMONS_ENDED };

struct commons_state {
	enum commons_phase phase;
	enum group_goal goal; /* of a stop */
	const char *reason;   /* of a stop; borrowed */
	bool leader_over;     /* the leader has ended, and that ends the group */
};

/* Orders to the host of a worker. */
#define COMMONS_CANCEL "cancel"	  /* counts one more cancelled lease on its board */
#define COMMONS_RESTART "restart" /* kills it, and starts it again alone */
#define COMMONS_FAIL "fail"	  /* stops it, and counts it as failed */
#define COMMONS_SIGNAL "signal"	  /* sends it preemption.signal */
#define COMMONS_DUMP "dump"	  /* dumps it: stacks and last lines */

/* Knows the workers of the group and their hosts. */
struct commons_owner {
	/* The workers of the present attempt, by place: 0 .. count() - 1. */
	int (*count)(void *arg);
	struct worker *(*at)(void *arg, int place);
	/* A notice of preemption is up: no worker is started again. */
	bool (*on_notice)(void *arg);
	int (*attempt)(void *arg);
	/* The workers have an error with which their calls fail, or have none any more. Runs after
	 * each change while there is one. */
	void (*error_changed)(void *arg, bool up);
	/* A worker has reported an error: it counts as failed when it ends. */
	void (*worker_error)(void *arg, struct worker *w, const char *code, const char *message);
	struct commons_state (*state)(void *arg);
	/* Decides now about failures whose decision has waited (agent/supervise/feature.h). */
	void (*decide)(void *arg);
	/* The next four are NULL where all workers are this host's. */
	/* Has the worker's host do that. */
	void (*order)(void *arg, struct worker *w, const char *what, const char *why);
	/* All boards show that about a notice of preemption (odd while one is up). */
	void (*notice)(void *arg, uint64_t word, int64_t save_at);
	/* Has all hosts say how far their workers are: the hook hosts_sampled follows. */
	void (*read)(void *arg, bool barrier);
	/* On a notice all workers have left, or are to be stopped. */
	void (*preempted)(void *arg, const char *why);
	/* Writes an event of the run; takes data. rank -1: of no worker. */
	void (*event)(void *arg, const char *event, int rank, json_t *data, const char *text);
	/* Workers have passed the barrier of spec.ready. NULL: others see to it. */
	void (*barrier_passed)(void *arg);
	void *arg;
};

struct commons_slot {
	char *name;	 /* "role:index"; NULL: the slot is free */
	int place, rank; /* when it was last seen among the owner's workers */
	/* Result and error of its last process, and when it set the last of them. */
	void *result;
	size_t result_len;
	bool has_result;
	int64_t changed_us;
	char *error_code, *error_message;
};

LIST_HEAD(sharing_waits, sharing_wait);
LIST_HEAD(sharing_watches, sharing_watch);
LIST_HEAD(sharing_streams, sharing_stream);
LIST_HEAD(sharing_requests, sharing_request);

struct commons {
	struct loop *loop;
	const struct spec *spec;
	const char *run;
	struct commons_owner owner;
	struct varlink_server *server; /* of its callers; NULL before it serves */
	size_t reply_bytes;	       /* the longest answer */
	struct store *store;
	struct kv *kv;
	struct barriers *barriers;
	struct members *members;
	struct loop_timer *timer; /* the next deadline of barriers and members */
	struct commons_slot *slots;
	int n_slots;
	int *by_name, n_named; /* the slots that have a name: shorter names first, then in order */
	size_t results_bytes;
	bool stopping;
	char *why; /* of the stop */
	struct sharing_waits waits;
	struct sharing_watches watches;
	struct sharing_streams streams;
	struct sharing_requests gets; /* Gets that may wait */
	int lost_slot;
	char *lost; /* the text for Gets that wait for lost_slot, while a notice is up */
	bool error_up;
	/* Of events about barriers: the time that may still be spent on them, and since when. */
	uint64_t waits_credit_ms, waits_at_ms;
	unsigned waits_left_out;
};

/* The commons borrow these pointers. */
struct commons_options {
	struct loop *loop;
	const struct spec *spec;
	const char *run; /* its name */
	size_t reply_bytes;
	struct commons_owner owner;
};

_must_check_ int commons_new(const struct commons_options *opt, struct commons **ret);
/* No connection of its callers may be left. */
struct commons *commons_free(struct commons *c);

/* --- who --- */

/* The workers of the present attempt, by place. */
int commons_count(const struct commons *c);
struct worker *commons_at(const struct commons *c, int place);
struct commons_state commons_state(const struct commons *c);
/* NULL where the group has no such worker any more. */
struct worker *commons_worker(const struct commons *c, int slot);
/* Gives w its slot, w->slot. -ENOSPC or -ENOMEM: it then shares nothing. */
_must_check_ int commons_give_slot(struct commons *c, const struct worker *w);
/* False before that, and where memory was short. */
bool commons_has_slot(const struct commons *c, const struct worker *w);
/* The slot of "role:index", -1 where the group has no such worker. */
int commons_slot_named(const struct commons *c, const char *name);
/* "?" for a free slot. arg: the commons. */
const char *commons_slot_name(void *arg, int slot);
/* True when w is a member where a caller names none. */
bool commons_is_default(const struct worker *w);

/* --- what becomes of them, from the owner --- */

/* A new attempt begins; its workers have their slots. */
void commons_begin(struct commons *c);
/* A process of w is about to start. */
void commons_worker_starting(struct commons *c, const struct worker *w);
void commons_worker_started(struct commons *c, const struct worker *w);
/* may_restart: others can wait for its next process. */
void commons_worker_ended(struct commons *c, const struct worker *w, bool may_restart);
/* An operator has stopped it. */
void commons_worker_stopped(struct commons *c, const struct worker *w);
/* It has no process, and will get none in this attempt. */
void commons_worker_over(struct commons *c, const struct worker *w);
/* All waits end, and later ones too until commons_begin(). */
void commons_stop(struct commons *c, const char *why);
/* Call it when the error that workers fail with may have changed. */
void commons_error_changed(struct commons *c);

/* --- methods_events.c --- */

/* Sends an event to all streams. slot -1: of no worker. error may be NULL. */
void commons_event(struct commons *c, const char *event, int slot,
	const struct members_error *error, const char *text);
void commons_streams_free(struct commons *c);

/* --- barrier_event.c --- */

/* Writes the event of a barrier at which workers have waited for long. arg: the commons. */
void commons_barrier_over(void *arg, const struct barrier_over *over);
/* The same at a given time. */
void barrier_event(
	struct commons *c, const struct barrier_over *over, uint64_t now_ms, int64_t now_us);

/* --- results.c --- */

/* The results of all workers that have one or have ended: an owned array of Result of
 * io.elasticd.Manager. */
json_t *commons_results_json(const struct commons *c);
/* Drop the result and error of one slot's earlier processes, or of all slots'. */
void commons_result_clear(struct commons *c, int slot);
void commons_results_clear(struct commons *c);
void commons_results_error(struct commons *c, int slot, const char *code, const char *message);

/* --- methods.c --- */

/* A worker's report of an error, for others and for its own end. */
void commons_report_error(struct commons *c, int slot, enum status code, const char *message);

/* --- methods_wait.c, methods_kv.c, methods_watch.c, lost.c --- */

/* True when slot waits for other workers; when a Get of it waits for a missing key. */
bool commons_waits(const struct commons *c, int slot);
bool commons_gets(const struct commons *c, int slot);
void commons_deadlines(void *arg); /* the timer's callback; also when a deadline was added */
/* Ends all watches of the attempt with Cancelled. */
void commons_watches_end(struct commons *c);
void commons_watches_free(struct commons *c);
void commons_barrier_answer(void *arg, void *token, const struct barrier_answer *answer);
void commons_members_answer(void *arg, void *token, const struct members_answer *answer);
/* w, which others may wait for, has failed or will not be started again. */
void commons_lost(struct commons *c, const struct worker *w, const char *why);
/* Call it when a worker begins to wait, or has ended. arg: the commons. */
void commons_lost_check(void *arg);
void commons_lost_clear(struct commons *c);
