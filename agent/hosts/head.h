/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The head: the agent that leads the group has one beside its member. It alone decides members,
 * ranks, rounds, restarts and the verdict, by the pure modules agent/rounds/round.h and
 * agent/policy/. Hosts join it by links, which it owns. It never starts, stops or looks at a
 * process: its own host is a member by a link like all others.
 *
 * In this room, x is a host of the head, and host is the same one in the round module.
 */

#include "agent/hosts/private.h"
#include "agent/link/link.h"
#include "agent/link/listen.h"
#include "agent/policy/group_machine.h"
#include "agent/policy/quarantine.h"
#include "agent/policy/restart_budget.h"
#include "agent/rounds/lease.h"
#include "agent/rounds/round.h"
#include "agent/sharing/calls_out.h"
#include "agent/sharing/group.h"
#include "agent/supervise/supervisor.h"

#include <sys/queue.h>

struct head_call_all;
struct head_decide;

enum { HEAD_NAMES = 300 }; /* bytes of a list of hosts' names */

/* One host as the head knows it. Lives from its first message until the round module drops it, or
 * until its link ends before it has become a member. */
struct head_host {
	struct lease_held lease; /* first: the lease's owner */
	struct head *head;
	struct link *link; /* NULL: it has ended */
	int number;	   /* in the round module; -1: no member */
	char *address;
	char *master_addr;
	int master_port;
	json_t *addresses;	      /* of its workers, for TF_CONFIG; or NULL */
	LIST_ENTRY(head_host) entry;  /* of unjoined, while it is no member */
	uint64_t since_ms;	      /* it has been no member since then */
	struct link_beat beat;	      /* the last one */
	struct sharing_host *sharing; /* while it is a member */
	struct calls_out calls;	      /* to it */
	bool fault;		      /* its last message breaks the protocol */
	bool vacated;		      /* the others go on without its workers */
	bool noticed;		      /* it has a notice of preemption in this round */
	bool never_leads;	      /* it has said so */
	bool dump_due;		      /* it has yet to dump its workers */
	bool dump_awaited; /* its worker hangs: it waits until all hosts have dumped theirs */

	/* If etcd elects the head. */
	bool recording;	      /* it is in the state that is being written */
	bool recorded;	      /* it may be in the state that etcd has */
	bool known;	      /* it is in that state for certain */
	uint64_t admitted_ms; /* when its Join was answered */
	uint64_t acked_ms;    /* when the head sent the newest answer that it has acknowledged */
	json_t *join;	      /* waits until etcd confirms that this host leads; owned */
};

struct head {
	struct hosts *hosts;
	struct loop *loop;
	const struct spec *spec;
	struct link_listen *listen;
	struct round *round;
	struct sharing_group *sharing;
	struct lease_head leases;
	struct loop_timer *timer;
	LIST_HEAD(, head_host) unjoined; /* hosts that are no members */
	struct head_host **members;	 /* by number; with gaps */
	int n_members;			 /* room of members */
	struct head_host *joining;	 /* its Join is being handled */
	struct error *refusal;		 /* why it does not get in */
	struct head_host *deputy;	 /* leads next if this host is lost; NULL: none is chosen */
	char deputy_secret[HOSTS_SECRET]; /* by which the deputy knows this head's guard */
	json_t *settings;		  /* on which all hosts have to agree */
	char *digest;			  /* of settings */
	struct ranked_roles roles;	  /* first_only: owned */

	/* If etcd elects the head. */
	bool missing_warned;	/* head_warn_missing() has warned */
	int old_head;		/* number of the host that led before; -1: unknown */
	uint64_t gone_acked_ms; /* the earliest acked_ms of gone hosts that etcd knows */
	bool end_noted;		/* lead_note_end() was called */

	/* Decisions over all rounds. */
	int attempt; /* how many attempts began */
	struct restart_budget budget;
	struct quarantine quarantine;

	/* The present round. */
	struct head_decide *decide; /* what its workers have done, and what follows */
	bool lost_one;		    /* it ends because a host was lost */
	bool dropping;		    /* head_drop_unrecorded() drops hosts as lost that live */
	char cause[512];	    /* of the next Stop, for people */
	char change[320]; /* the last one of the members: the cause if there is no other */
	const char *why;  /* reason in the next Stop; NULL: "membership" */
	int64_t stop_timeout_ms;
	char *start; /* the text of Start */

	/* The end. */
	struct group end; /* the final state and goal; end.state 0: there is no verdict */
	char end_text[SUPERVISOR_REASON_MAX];
	json_t *verdict;
	bool reported; /* a host was chosen that prints the report */
	int reporter;  /* its number; -1: it has got the verdict */
	bool finished; /* all hosts have left, or this one hands the lead over */

	LIST_HEAD(, group_logs) logs;
	LIST_HEAD(, head_call_all) calls_all;
	struct loop_timer *dump_timer; /* armed while hosts dump their workers */
	int64_t dumps;		       /* number of the last dump */
	uint64_t dump_round;	       /* its round */
};

/* --- head.c --- */

/* state: the head before has left it in etcd; or NULL. -EADDRINUSE, -EADDRNOTAVAIL and others. */
int head_new(struct hosts *hosts, const struct link_addresses *addresses, const json_t *state,
	struct head **ret, struct error *err);
struct head *head_free(struct head *h);
/* Logs that text, and adds it as an event of that attempt; takes data, which may be NULL. */
void head_event(struct head *h, int level, const char *event, int attempt, json_t *data,
	const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* The member of that number, or NULL. */
struct head_host *head_member(const struct head *h, int number);
/* The member with the next number; NULL after the last: (h, NULL) is the first. */
struct head_host *head_next_member(const struct head *h, const struct head_host *x);
/* Whether x is the member on the head's own host. */
bool head_is_own(const struct head *h, const struct head_host *x);
/* The name of a member, or its number. Borrowed until the next call. */
const char *head_host_name(const struct head *h, int number);
/* Adds a host's name to a list for people, or, where that has no room, "and others". */
void head_list_name(char names[HEAD_NAMES], const char *name);
/* Carries out the orders that the round module has given last. Members may be freed. */
void head_carry_out(struct head *h);
/* Sets the timer for the leases and rounds. */
void head_arm(struct head *h);

/* --- head_say.c: each sends the message of that name --- */

/* Texts that are the same for all hosts, written for the first one; owned, or NULL. */
struct head_texts {
	char *stop, *end;
};
void head_texts_fini(struct head_texts *t);
/* Takes body; NULL: there was no memory for it. */
void head_say(struct head_host *x, const char *method, json_t *body);
/* The same text to all members on other hosts. */
void head_say_all(struct head *h, const char *method, const char *body, size_t len);
void head_say_assign(struct head *h, struct head_host *x);
void head_say_stop(struct head *h, struct head_host *x, struct head_texts *texts);
void head_say_start_all(struct head *h);
void head_say_start(struct head *h, struct head_host *x);
void head_say_end(struct head *h, struct head_host *x, struct head_texts *texts);

/* --- messages of hosts: 0, or -EPROTO and others with err, which end the link --- */

/* Join (head_hear.c). */
int head_hear_join(struct head_host *x, const json_t *p, struct error *err);
/* Messages about workers (relay.c). */
int head_hear_relayed(struct head_host *x, const char *method, const json_t *p, struct error *err);
/* Notice (head_decide.c). */
int head_hear_notice(struct head_host *x, const json_t *notice, struct error *err);
/* Hang: one of the host's workers hangs (head_hang.c). */
int head_hear_hang(struct head_host *asker, const json_t *p, struct error *err);
/* Dumped: the host has dumped its workers (head_hang.c). */
int head_hear_dumped(struct head_host *x, const json_t *p, struct error *err);
/* Deputy: the host listens for the last word of the head's guard (deputy.c). */
int head_hear_deputy(struct head_host *x, const json_t *p, struct error *err);
/* Recorded (deputy.c). */
int head_hear_recorded(struct head_host *x, const json_t *p, struct error *err);

/* --- head_hear.c: hosts and their links --- */

/* Keeps what happened to a member for the cause of a Stop: "has joined". */
void head_note_change(struct head *h, const char *name, const char *what);
/* For link_listen_new(); arg: the head. */
int head_accept_link(void *arg, struct link *l, struct error *err);
void head_last_word(void *arg, struct link *l);
void head_link_refused(void *arg, const struct error *why);
struct head_host *head_host_free(struct head_host *x);
/* Ends the link of x; frees x if it is no member. */
void head_unlink(struct head_host *x);

/* --- head_decide.c: failures, restarts and the end --- */

_must_check_ int head_decide_new(struct head *h);
void head_decide_free(struct head *h);
/* Whether this head has led a round. */
bool head_has_begun(const struct head *h);
/* Whether the worker of that rank has no end. */
bool head_awaits_worker(const struct head *h, int rank);
/* The failures of the present round, in the head's time; borrowed. */
json_t *head_failures(const struct head *h);
/* The root cause of the last round; borrowed, or NULL. */
json_t *head_last_cause(const struct head *h);
/* The same, as long as Assign may have it. */
json_t *head_short_cause(const struct head *h);
/* A round is about to start its workers. */
void head_round_begins(struct head *h);
/* No worker of the round lives. */
void head_round_over(struct head *h);
/* Has the core show the group's budget. */
void head_show_budget(const struct head *h);
/* A Report without a failure. */
void head_worker_changed(struct head *h, struct head_host *x, const json_t *report);
/* over: the worker's own restarts are used up. */
void head_worker_failed(struct head *h, struct head_host *x, const json_t *failure, bool over);
/* The n workers from that rank on, of a lost host, are waited for no longer. */
void head_workers_over(struct head *h, int first_rank, int n);
/* Decides about pending failures, unless a feature still delays that; arg: the head. */
void head_decide_pending(void *arg);
/* Failures that members report when their workers are dead. */
void head_add_failures(struct head *h, const json_t *failures);
/* Of the present round; borrowed, NULL: none is known. */
json_t *head_root_cause(const struct head *h);
/* Ends the group with that state and goal; text becomes the verdict's. Returns false if the group
 * has ended already. */
bool head_end(struct head *h, enum group_state state, enum group_goal goal, const char *text);
/* An operator ends the group. Returns as head_end(). */
bool head_stop(struct head *h, int64_t timeout_ms, const char *why);
/* max_run_time is over. */
void head_timed_out(struct head *h, const char *why);
/* Fewer than MIN hosts were there for join_timeout: sets the verdict. */
void head_give_up(struct head *h);
/* An operator wants another attempt. */
void head_restart_asked(struct head *h, const char *why);
/* Has all workers save at one step; then another round begins, also with the hosts that wait. */
void head_checkpoint(struct head *h);
/* A round stops for another reason while hosts have a notice: these leave, too. */
void head_release_later(struct head *h);
void head_release_now(void *arg);
/* On a notice all workers have left (done: they had succeeded), or are to be stopped; arg: the
 * head. */
void head_preempted(void *arg, const char *why, bool done);

/* --- head_quarantine.c --- */

/* That host was lost; kept: the others go on. */
void head_host_lost(struct head *h, const char *name, bool kept);
/* Puts the fault on the host whose worker was the root cause. To be called before the last host of
 * a round says that its workers are dead. */
void head_blame_host(struct head *h);
/* Lets back the hosts of that name. 0; -EINVAL: they are not kept out. */
int head_let_back(struct head *h, const char *name, const char *why, struct error *err);

/* --- head_seats.c --- */

/* The workers of x are dead, and the others go on; head_seats_vacated() follows. */
void head_vacate_seat(struct head *h, struct head_host *x);
/* x is about to start the workers of a vacant seat. */
void head_take_seat(struct head *h, struct head_host *x);
/* Until the next round, no host takes a seat. */
void head_hold_seats(struct head *h);
/* There are new vacant seats. May call the round module. */
void head_seats_vacated(struct head *h);
/* No host has taken some seats for join_timeout: the verdict no longer waits for their workers. May
 * call the round module. */
void head_seats_late(struct head *h);

/* --- head_hang.c --- */

/* To be called when a host is gone: it need not dump any more. */
void head_check_dumped(struct head *h);
void head_dumps_late(void *arg);

/* --- head_tenure.c: if etcd elects the head --- */

/* acked_ms of tenure_until_ms(). */
uint64_t head_acked_ms(const struct head *h);
/* A member is dropped. */
void head_tenure_dropped(struct head *h, const struct head_host *x);
/* Whether the host has workers of the present round, or is about to start them. */
bool head_may_have_workers(const struct head *h, const struct round_host *host);
/* Whether etcd certainly has all hosts of the round that is about to start. */
bool head_is_recorded(const struct head *h);
/* The state with these hosts is being written. */
void head_recording(struct head *h);
/* That round may start; written: etcd has it. */
void head_recorded(struct head *h, uint64_t round, bool written);
/* etcd does not learn of the round that is about to start: drops hosts that it does not know, if
 * the others are enough. They join again, and wait. */
void head_drop_unrecorded(struct head *h);
/* Whether MIN hosts are there. */
bool head_has_enough(const struct head *h);
/* Whether hosts may be let in. */
bool head_may_admit(const struct head *h);
/* Whether no other host is in the group. */
bool head_is_alone(const struct head *h);
/* etcd has confirmed that this host leads: lets in the hosts that wait. */
void head_admit_waiting(struct head *h);
/* Takes over the state of the head before; NULL: there was none. */
_must_check_ int head_load_state(struct head *h, const json_t *state);
/* A host joins that got its last answer from a head that long ago; 0: it does not know. */
void head_note_last_answer(struct head *h, const char *run, int64_t answered_ms);
/* When the next missing host of the round before is gone for certain; UINT64_MAX: never. */
uint64_t head_missing_ms(const struct head *h);
/* Drops missing hosts that are gone by now. */
void head_drop_missing(struct head *h);
/* Whether the group has waited for missing hosts for two leases; warns once. */
bool head_warn_missing(struct head *h);
/* The agent of the head before is certainly dead, and so are its workers. */
void head_old_head_died(struct head *h, const char *agent);

/* --- head_logs.c --- */

/* Answers Logs; returns what a handler does. */
int head_logs(struct head *h, struct varlink_call *call, json_t *p);
/* A round is about to start: readers that follow get its lines; only: those of this host alone, or
 * NULL. */
void head_logs_begin(struct head *h, const struct head_host *only);
/* The group is about to end, or has ended. */
void head_logs_end(struct head *h);
/* The head is about to end. */
void head_logs_cut(struct head *h);

/* --- head_operators.c --- */

/* Answer Errors and Dump; return what a handler does. */
int head_errors(struct head *h, struct varlink_call *call, const json_t *p);
int head_dump(struct head *h, struct varlink_call *call, const json_t *p);
/* Whether a list of lines or failures is about workers of that host. Items of earlier attempts
 * pass: the head does not keep which host had a rank then. */
bool head_is_of_own_workers(const struct head_host *x, const json_t *list);

/* --- head_call_all.c --- */

/* The answer of one member. */
struct head_answer {
	char *host;
	int number;
	bool answered; /* false: no answer has come in time */
	char *error;   /* its name; NULL: there was none */
	json_t *parameters;
};
typedef void (*head_answers_fn)(void *arg, const struct head_answer *answers, size_t n);
/* Has all members answer that method of io.elasticd.Manager: fn runs once, later, before *ret
 * becomes invalid. */
_must_check_ int head_call_all(struct head *h, const char *method, const json_t *p,
	uint64_t timeout_ms, head_answers_fn fn, void *arg, struct head_call_all **ret);
struct head_call_all *head_call_all_free(struct head_call_all *a);
/* The head is about to end: callers get the answers that have come. */
void head_call_all_cut(struct head *h);

/* --- deputy.c --- */

/* A round begins: another host may be the deputy. */
void head_choose_deputy(struct head *h);
/* x NULL: there is none. */
void head_set_deputy(struct head *h, struct head_host *x);
/* Tells the features that this host leads from now on. */
void head_tell_features(struct head *h);

/* --- relay.c: what workers share, over links --- */

_must_check_ int head_relay_open(struct head *h, struct error *err);
/* Prepares the head's calls to that host. */
void head_host_calls_open(struct head_host *x);
/* A round is about to start: names its workers. */
void head_relay_begin(struct head *h);

/* --- leave.c --- */

/* Has the member of that name leave. -ENOENT: there is none; other errors: it cannot. */
int head_drain(struct head *h, const char *name, const char *why, struct error *err);

/* --- describe.c --- */

/* All hosts, and vacant seats: an array of io.elasticd.Manager.Host. Returns owned. */
json_t *head_hosts_json(const struct head *h);
