/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * What the files of this room share:
 *
 *   feature.c      the hooks of the core
 *   member.c       this host as a member: its states, its lease, its link
 *   member_say.c   what it sends to the head
 *   member_hear.c  what the head orders
 *   head.c         members, rounds, leases: carries out the orders of agent/rounds/round.h
 *   head_say.c     what the head sends
 *   head_hear.c    what members say
 *   head_decide.c  failures, restarts and the verdict of the group
 *   head_tenure.c  the head where etcd elects it: hosts that etcd knows, or knew
 *   lead*.c        who leads, where etcd says that (lead.h)
 *   head_quarantine.c  hosts that the group keeps out
 *   head_seats.c   seats whose hosts are gone while the others go on
 *   head_hang.c    the state of all hosts' workers, where one hangs
 *   deputy.c       the host that leads next, and records of features that it has, too
 *   relay.c        the way of workers' and operators' calls, and of their answers, over links
 *   operators.c    operators' calls that concern all hosts
 *   head_logs.c    logs of all hosts; head_operators.c their failures and dumps
 *   head_call_all.c     one call to all hosts
 *   member_calls.c calls of the head to this host
 *   describe.c     the hosts, for people
 *   leave.c        hosts that leave on purpose
 *   messages.c     the parameters of messages about rounds (messages.h)
 *   settings.c     what must be alike on all hosts
 *
 * The head's own host is a member by a link of its own, like all others.
 */

#include "agent/hosts/lead.h"
#include "agent/hosts/settings.h"
#include "agent/link/link.h"
#include "agent/link/listen.h"
#include "agent/link/resolve.h"
#include "agent/link/tls.h"
#include "agent/policy/quarantine.h"
#include "agent/rounds/lease.h"
#include "agent/rounds/member_machine.h"
#include "agent/rounds/round.h"
#include "agent/sharing/calls_in.h"
#include "agent/sharing/calls_out.h"
#include "agent/sharing/group.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/seat.h"

#include <sys/queue.h>

enum {
	HOSTS_ID = 40,
	HOSTS_ADDRESS = 256, /* bytes of an address that becomes part of workers' environment */
	HOSTS_BYE_MS = 3000, /* for the last message to the head */
	HOSTS_UNJOINED = 64, /* links whose host is no member */
	HOSTS_NAMES = 300,   /* bytes of a list of hosts' names */
};

struct hosts;
struct head;
struct head_call_all;

/* ---- the member ---- */

/* The seat that the last Assign gave this host. */
struct member_seat {
	struct seat seat;
	struct seat_role *roles; /* owned */
	uint64_t round;
	int *starts;	/* the same; NULL: the attempt is new */
	bool addresses; /* the head wants those of this host's workers */
};

/* What the last Start said. */
struct member_start {
	char *master_addr;
	int master_port;
	json_t *cluster;
};

struct member {
	struct hosts *hosts;
	struct supervisor *sv;
	enum member_state state;
	bool leaving;
	char leave_text[256]; /* why */
	struct link *link;
	bool linked; /* LINK_UP */
	char *head_host;
	struct lease_member lease;
	uint64_t answered_ms; /* when the head has answered last; 0: none has */
	struct loop_timer *lease_timer;
	struct link_beat clock;	 /* of the last beat that was answered */
	int64_t noted_offset_us; /* of the last event "clock" */
	uint64_t noted_clock_ms; /* when that was; 0: there was none */
	char refused[512];	 /* why there will be no further link; "": there will */
	bool was_member;	 /* of any head */
	uint64_t known_round, last_round;
	int last_rank;
	uint64_t round; /* of its workers, or of the seat that it prepares for */
	struct member_seat seat;
	struct member_start start;
	json_t *failures; /* of the workers that were stopped; owned */
	json_t *reported; /* names of workers whose failure was reported in this round */
	char cause[512];  /* of the head's STOP */
	bool final;	  /* no round follows that STOP */
	bool noticed;	  /* the head has its notice of preemption: it leaves at the next STOP */
	int64_t stop_timeout_ms;
	struct error unable;

	struct calls_out calls;	       /* to the head: of workers and operators */
	struct member_calls *incoming; /* of the head */
	int streams;		       /* operators' calls to the head that take long */
	bool awaits_streams;	       /* it has the verdict, so these calls end by themselves */
	bool bye_due;		       /* it is said when all such calls are over */
};

int member_new(struct hosts *hosts, struct member **ret, struct error *err);
struct member *member_free(struct member *m);
/* Begins to connect to the head. */
void member_connect(struct member *m);
/* Posts an event to the machine, and does what follows. */
void member_post(struct member *m, enum member_event event);
/* This host is no member of that head any more, whether its lease is over or not. */
void member_leave_head(struct member *m);
/* Tells the guard until when workers may live here. */
void member_fence(const struct member *m);
/* Whether this host is in no group, and no worker lives here. */
bool member_is_away(const struct member *m);
/* Whether a head has let this host in, and its lease is not known to be over. */
bool member_is_admitted(const struct member *m);
/* The lease is looked at before an order is posted: where it is over, this posts LOST. */
bool member_lease_holds(struct member *m);
/* An answer of the head has made the lease longer. */
void member_arm_lease(struct member *m);
/* The run ends without the head's verdict. */
void member_give_up(struct member *m, const char *result, int status, const char *text);

/* member_say.c */
void member_say_join(struct member *m);
void member_say_prepared(struct member *m);
void member_say_unable(struct member *m);
void member_say_started(struct member *m);
void member_say_stopped(struct member *m);
void member_say_leave(struct member *m);
void member_say_bye(struct member *m);
/* Reports a worker's end. */
void member_say_exited(struct member *m, const struct worker *w);
/* ... that a person has stopped it. */
void member_say_worker_stopped(struct member *m, const struct worker *w);
/* ... that it has no process, and will get none in this round. */
void member_say_worker_over(struct member *m, const struct worker *w);
/* ... that it was started again. */
void member_say_worker_started(struct member *m, const struct worker *w);
/* over: their own restarts are used up. */
void member_say_failures(struct member *m, bool over);
void member_say_ask(struct member *m, const char *want, int64_t timeout_ms, const char *why);
void member_say_notice(struct member *m, const char *source, const char *reason, int64_t grace_ms,
	int64_t deadline_us);
void member_say_renewed(struct member *m, int64_t number, int64_t ttl_s);
/* address: "" where this host never leads. */
void member_say_deputy(struct member *m, const char *address);
/* Takes body. */
void member_say_recorded(struct member *m, json_t *body);
void member_say_hang(struct member *m, const char *why);
void member_say_saved(struct member *m, int64_t number);
/* Asks the head to have that host leave, or to let it back: its Reply has the number. */
void member_say_drain(
	struct member *m, const char *host, int64_t number, const char *why, bool undo);

/* member_hear.c */
int member_hear(void *arg, const char *method, json_t *p, struct error *err);
void member_seat_fini(struct member_seat *s);
void member_start_fini(struct member_start *s);

/* ---- the head ---- */

/* One host as the head knows it. Lives from its first message until it is dropped, or its link has
 * ended before it became a member. */
struct head_host {
	struct lease_held lease; /* first: the lease's owner */
	struct head *head;
	struct link *link; /* NULL: it has ended */
	int number;	   /* in the round module; -1: no member */
	char *address;
	char *master_addr;
	int master_port;
	json_t *addresses;	      /* of its workers, for TF_CONFIG; or NULL */
	LIST_ENTRY(head_host) entry;  /* while it is no member */
	uint64_t since_ms;	      /* no member since */
	struct link_beat beat;	      /* the last one */
	struct sharing_host *sharing; /* while it is a member */
	struct calls_out calls;	      /* to it */
	bool fault;		      /* what it has just said breaks the protocol */
	bool vacated;		      /* the others go on without its workers */
	bool noticed;		      /* it has a notice of preemption in this round */
	bool never_leads;	      /* it has said so */
	/* Where etcd elects the head. */
	bool recording, recorded, known; /* it is in the state that is being written; may be in
					    that which etcd has; is in that */
	uint64_t admitted_ms;		 /* when its JOIN was answered */
	uint64_t acked_ms;	   /* when the newest answer was sent that it has acknowledged */
	json_t *join;		   /* waits until etcd confirms that this host leads; owned */
	bool save_due, save_asked; /* it has yet to save its workers; waits until all have */
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
	struct head_host **members;	 /* by number */
	int n_members;
	struct head_host *joining; /* its Join is being handled */
	struct head_host *deputy;
	char deputy_secret[LEAD_SECRET];
	bool missing_warned;
	int old_head;		/* 1 + the number of the head's host before; 0: unknown */
	uint64_t gone_acked_ms; /* the earliest acked_ms of hosts that etcd knows and that are gone
				 */
	struct error *refusal;	/* why it does not get in */
	json_t *settings;
	char *digest;
	bool *first_only;

	/* Decisions. */
	int attempt; /* STARTs before */
	struct restart_budget budget;
	struct quarantine quarantine;
	bool lost_one;	   /* a host was lost in the present round, which ends for that */
	bool turning_away; /* hosts that are dropped as lost are none */
	struct restart_decision decision;
	uint64_t started_ms;
	bool decided;	  /* about the present round */
	char cause[512];  /* of the next STOP */
	char change[320]; /* the last one of the members, for a STOP that has no other cause */
	const char *why;  /* of Stop: its reason */
	int64_t stop_timeout_ms;
	char consequence[320];
	json_t *failures; /* of the present round, in the head's time */
	json_t *pending;  /* those of them whose decision waits for a feature */
	/* Of each worker of the round, by its rank. */
	struct head_worker {
		bool failed; /* it has a failure */
		enum head_worker_end { END_NONE, END_SUCCESS, END_OTHER, END_LOST } end;
	} * workers;
	int n_workers, left, succeeded, lost;
	bool collateral; /* a collateral failure is among failures */
	char *start;	 /* the text of Start in this round */
	json_t *root_cause;
	json_t *short_cause; /* the same as Assign has it */
	struct group end;    /* the final state and goal, once there is a verdict */
	char end_text[SUPERVISOR_REASON_MAX];
	json_t *verdict;
	bool reported;	/* the host that prints the report was chosen: */
	int reporter;	/* its number, until it was told */
	bool finished;	/* all hosts have left */
	bool end_noted; /* etcd is to know of the verdict */
	bool leader_over;
	char leader_text[256];
	struct loop_timer *leader_timer;
	LIST_HEAD(, group_logs) logs;
	LIST_HEAD(, head_call_all) calls_all;
	struct loop_timer *save_timer;		 /* armed while hosts save the state of workers */
	int64_t saves;				 /* the number of the last time */
	uint64_t save_round;			 /* ... and its round */
	bool on_notice;				 /* in the present round */
	char notice_text[SUPERVISOR_REASON_MAX]; /* how it ended */
};

/* state: of the head before, where etcd has it; or NULL. -EADDRINUSE, -EADDRNOTAVAIL and others. */
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
/* Carries out what the round module has ordered. */
void head_carry_out(struct head *h);
/* Ends the group: a final state, its goal, and the text that becomes the verdict's. Returns false
 * where it has ended already. */
bool head_end(struct head *h, enum group_state state, enum group_goal goal, const char *text);
/* When it next has to look at leases, or rounds. */
void head_arm(struct head *h);

/* head_tenure.c */
/* What tenure_until_ms() wants. */
uint64_t head_acked_ms(const struct head *h);
/* A member is dropped. */
void head_tenure_dropped(struct head *h, const struct head_host *x);
/* Whether it has workers of the present round, or is about to start them. */
bool head_may_have_workers(const struct head *h, const struct round_host *host);
/* Whether etcd is known to have all hosts of the round that is about to start. */
bool head_is_recorded(const struct head *h);
/* The state that has them is being written. */
void head_recording(struct head *h);
/* That round may start; written: etcd has it. */
void head_recorded(struct head *h, uint64_t round, bool written);
/* etcd cannot be told of the round that is about to start: hosts that it does not know wait. */
void head_drop_unrecorded(struct head *h);
/* Whether MIN hosts are there. */
bool head_has_enough(const struct head *h);
bool head_may_admit(const struct head *h);
/* Whether no other host is in the group. */
bool head_is_alone(const struct head *h);
/* etcd has confirmed that this host leads: those who wait get in. */
void head_admit_waiting(struct head *h);
_must_check_ int head_load_state(struct head *h, const json_t *state);
/* A host joins that got its last answer from a head that long ago; 0: it does not know. */
void head_note_last_answer(struct head *h, const char *run, int64_t answered_ms);
/* When the next host of the round before is gone for certain. */
uint64_t head_missing_ms(const struct head *h);
void head_drop_missing(struct head *h);
/* Whether the group has waited for such hosts for two leases; says so once. */
bool head_warn_missing(struct head *h);
/* The agent of the head before is certainly dead, and so are its workers. */
void head_old_head_died(struct head *h, const char *agent);

/* head_quarantine.c */
/* That host was lost; kept: the others go on. */
void head_host_lost(struct head *h, const char *name, bool kept);
/* Call it before the last host of a round says that its workers are dead: the host whose worker was
 * the root cause is at fault. */
void head_blame_host(struct head *h);
/* Lets back the host of that name. 0; -EINVAL: it is not kept out. */
int head_let_back(struct head *h, const char *name, const char *why, struct error *err);

/* head_seats.c */
/* The workers of x are dead, and the others go on; head_seats_vacated() follows. */
void head_vacate_seat(struct head *h, struct head_host *x);
/* x is about to start the workers of such a host. */
void head_take_seat(struct head *h, struct head_host *x);
/* Until the next round no host does. */
void head_hold_seats(struct head *h);
/* These two may call the rounds: there are new seats; none has taken some for long, and the verdict
 * waits for their workers no longer. */
void head_seats_vacated(struct head *h);
void head_seats_late(struct head *h);

/* head_say.c */
/* Texts that are the same for all hosts, written for the first one; owned, or NULL. */
struct head_texts {
	char *stop, *end;
};
void head_texts_fini(struct head_texts *t);
void head_say(struct head_host *x, const char *method, json_t *body);
/* The same to all members. */
void head_say_all(struct head *h, const char *method, const char *body, size_t len);
void head_say_admitted(struct head *h, struct head_host *x, uint64_t round);
void head_say_assign(struct head *h, struct head_host *x);
void head_say_stop(struct head *h, struct head_host *x, struct head_texts *texts);
void head_say_start_all(struct head *h);
void head_say_start(struct head *h, struct head_host *x);
void head_say_end(struct head *h, struct head_host *x, struct head_texts *texts);
void head_say_drain(struct head_host *x, const char *why);
/* why: NULL, or why what was asked is not done. */
void head_say_reply(struct head_host *x, int64_t number, const struct error *why);

/* head_hear.c */
/* What happened to a member: "has joined". */
void head_note_change(struct head *h, const char *name, const char *what);
int head_hear_join(struct head_host *x, const json_t *p, struct error *err);
int head_accept_link(void *arg, struct link *l, struct error *err);
void head_last_word(void *arg, struct link *l);
void head_link_refused(void *arg, const struct error *why);
struct head_host *head_host_free(struct head_host *x);
/* Ends its link; frees it where it is no member. */
void head_unlink(struct head_host *x);

/* head_decide.c */
void head_round_begins(struct head *h);
/* The core shows the group's budget. */
void head_show_budget(const struct head *h);
/* No other host has started the n workers of a lost host from that rank on: the group waits no
 * longer. */
void head_workers_over(struct head *h, int first_rank, int n);
/* A Report without a failure. */
void head_worker_changed(struct head *h, struct head_host *x, const json_t *report);
void head_worker_failed(struct head *h, struct head_host *x, const json_t *failure, bool over);
bool head_stop(struct head *h, int64_t timeout_ms, const char *why);
/* Has all workers save at one step, after which another round begins with who has come. */
void head_checkpoint(struct head *h);
/* Notice of a member. */
int head_hear_notice(struct head_host *x, const json_t *notice, struct error *err);
/* A round stops for another reason while hosts have a notice: they leave, too. */
void head_release_later(struct head *h);
void head_release_now(void *arg);
/* On a notice all workers have left, or are to be stopped; arg: the head. */
void head_preempted(void *arg, const char *why, bool done);
/* max_run_time is over. */
void head_timed_out(struct head *h, const char *why);
/* Decides about failures that were held, where no feature wants that any more; arg: the head. */
void head_decide_pending(void *arg);
void head_add_failures(struct head *h, const json_t *failures);
/* Of the present round; borrowed, NULL: none is known. */
json_t *head_root_cause(const struct head *h);
/* No worker of the round lives. */
void head_round_over(struct head *h);
void head_give_up(struct head *h);
void head_restart_asked(struct head *h, const char *why);
void head_leader_grace_over(void *arg);
/* head_logs.c: what a handler returns. */
int head_logs(struct head *h, struct varlink_call *call, json_t *p);
/* A round is about to start; x: only this host is. */
void head_logs_begin(struct head *h, const struct head_host *x);
/* The group is about to end, or has ended. */
void head_logs_end(struct head *h);
/* The head is about to end. */
void head_logs_cut(struct head *h);

/* head_call_all.c */
/* Answers of all members: error NULL or its name; not answered: nothing has come in time. */
struct head_answer {
	char *host;
	int number;
	bool answered;
	char *error;
	json_t *parameters;
};
typedef void (*head_answers_fn)(void *arg, const struct head_answer *answers, size_t n);
/* Has all members answer that method of io.elasticd.Manager: fn runs once, later, before *ret
 * becomes invalid. */
_must_check_ int head_call_all(struct head *h, const char *method, const json_t *p,
	uint64_t timeout_ms, head_answers_fn fn, void *arg, struct head_call_all **ret);
struct head_call_all *head_call_all_free(struct head_call_all *a);
/* The head is about to end: who has asked gets what is known. */
void head_call_all_cut(struct head *h);

/* head_operators.c: what a handler returns. */
int head_errors(struct head *h, struct varlink_call *call, const json_t *p);
int head_dump(struct head *h, struct varlink_call *call, const json_t *p);
/* Whether a list of lines or failures is about workers of that host. Those of earlier attempts
 * pass: the head does not keep which host had a rank then. */
bool head_is_of_own_workers(const struct head_host *x, const json_t *list);

/* head_hang.c */
/* Hang of a member: one of its workers hangs. */
int head_hear_hang(struct head_host *asker, const json_t *p, struct error *err);
/* Saved of a member: the state of its workers is saved. */
int head_hear_saved(struct head_host *x, const json_t *p, struct error *err);
/* Call it when a host is gone. */
void head_check_saved(struct head *h);
void head_saves_late(void *arg);

/* deputy.c */
/* Deputize of the head: this host listens for the last word of the head's guard. */
int member_hear_deputize(struct member *m, const json_t *p, struct error *unused);
/* The round that begins may have another one. */
void head_choose_deputy(struct head *h);
/* Deputy of a member, which listens at that address. */
int head_hear_deputy(struct head_host *x, const json_t *p, struct error *err);
/* This host leads from now on: features learn of it. */
void head_tell_features(struct head *h);
/* NULL: there is none. */
void head_set_deputy(struct head *h, struct head_host *x);
/* Recorded of a member. */
int head_hear_recorded(struct head_host *x, const json_t *p, struct error *err);
/* Records of the head. */
int member_hear_records(struct member *m, const json_t *p, struct error *err);

/* member_calls.c */
_must_check_ int member_calls_open(struct member *m, struct error *err);
void member_calls_close(struct member *m);
/* The link has room again; it has ended. */
void member_calls_ready(struct member *m);
void member_calls_cut(struct member *m);
/* Call, Flow or Hangup of the head. */
int member_hear_call(struct member *m, const char *method, const json_t *p, struct error *err);
/* Readers that follow have their last lines: the run is over, and all logs are written. */
void member_calls_end(struct member *m);
/* Whether Bye has to wait for calls of which answers are to come; it is said when they are over. */
bool member_calls_delay_bye(struct member *m);
/* The head takes and sends answers. */
void member_calls_heard(struct member *m);
void member_calls_check_bye(struct member *m);

/* operators.c */
void hosts_note_missing(const struct supervisor *sv, json_t *answer);
/* The hook relays_call. */
bool hosts_relays_call(struct supervisor *sv, struct varlink_call *call, json_t *p);

/* relay.c */
_must_check_ int member_relay_open(struct member *m);
/* Messages of the head that are about workers. */
int member_hear_relayed(struct member *m, const char *method, const json_t *p, struct error *err);
void member_relay_cut(struct member *m, const char *why);
/* For the head's calls to that host. */
void head_host_calls_open(struct head_host *x);
_must_check_ int head_relay_open(struct head *h, struct error *err);
/* The workers of the round that is about to start. */
void head_relay_begin(struct head *h);
/* Messages of a member that are about workers. */
int head_hear_relayed(struct head_host *x, const char *method, const json_t *p, struct error *err);

/* Whether x is the member on the head's own host. */
bool head_is_own(const struct head *h, const struct head_host *x);
/* The name of a member, or its number. Borrowed until the next call. */
const char *head_host_name(const struct head *h, int number);
/* Adds a host's name to a list for people, or, where that has no room, "and others". */
void head_list_name(char names[HOSTS_NAMES], const char *name);

/* ---- both ---- */

struct hosts {
	struct supervisor *sv;
	const struct spec *spec;
	struct link_tls *tls;
	char agent[HOSTS_ID], boot[HOSTS_ID];
	char *endpoint; /* HOST:PORT of the head's links */
	char *address;	/* under which other hosts reach this one; NULL: that of the link */
	bool begun;
	struct link_resolve *resolve;
	struct member *member;
	struct head *head;	    /* NULL: another host leads */
	struct lead *lead;	    /* NULL: etcd does not say who leads */
	struct link_listen *deputy; /* for the last word of the head's guard; or NULL */
	loop_fn over_fn;	    /* the core waits for this room's end */
	void *over_arg;
	bool stop_asked, leave_asked;
	char late[256]; /* max_run_time is over, and the head did not end the group yet; "": not so
			 */
	char stop_text[256]; /* of a stop that the head was asked for, and its time */
	int64_t stop_timeout_ms;
	int64_t asked; /* numbers of Ask */
	LIST_HEAD(, drain_call) drains;
};

struct hosts *hosts_of(const struct supervisor *sv);

/* describe.c: arrays of io.elasticd.Manager.Host; a member knows itself and the head. Owned. */
json_t *head_hosts_json(const struct head *h);
json_t *member_hosts_json(const struct member *m);

/* leave.c */
int hosts_method_leave(struct varlink_call *call, json_t *p, void *arg);
int hosts_method_drain(struct varlink_call *call, json_t *p, void *arg);
/* This host leaves the group; it does not lead. */
void hosts_leave(struct hosts *h, const char *why);
/* Reply of the head. */
int member_hear_reply(struct member *m, const json_t *p, struct error *unused);
/* The head will answer no more. */
void hosts_fail_drains(struct hosts *h);
/* Has the member of that name leave. -ENOENT: there is none; other errors: it cannot. */
int head_drain(struct head *h, const char *name, const char *why, struct error *err);

void hosts_hand_over(struct hosts *h);
/* Deferred, when the head was lost. */
void hosts_stop_alone(void *arg);
/* The last word was said: lets the core go on if it waits. */
void hosts_check_over(struct hosts *h);
const char *hosts_group(const struct hosts *h);
/* The clock of rounds and leases: CLOCK_BOOTTIME. */
uint64_t hosts_now_ms(void);
