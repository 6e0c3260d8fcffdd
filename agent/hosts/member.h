/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * This host as a member of the group, which every agent of the group is: one for each agent, the
 * head's included. Carries out the head's orders for the workers of this host, and reports what
 * becomes of them. Its states are those of agent/rounds/member_machine.h. It owns the link to the
 * head. Without a link, messages are dropped: the lease tells both sides.
 */

#include "agent/hosts/private.h"
#include "agent/link/link.h"
#include "agent/rounds/lease.h"
#include "agent/rounds/member_machine.h"
#include "agent/sharing/calls_out.h"
#include "agent/supervise/seat.h"
#include "agent/supervise/supervisor.h"

struct member_calls;

/* The seat that the last Assign gave this host. */
struct member_seat {
	struct seat seat;
	struct seat_role *roles; /* of seat; owned */
	uint64_t round;
	int *starts;	/* of seat; owned, NULL: the attempt is new */
	bool addresses; /* the head wants those of this host's workers */
};

/* The content of the last Start. */
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
	char leave_text[256]; /* why it leaves */
	struct link *link;
	bool linked;	 /* link is LINK_UP */
	char *head_host; /* name of the head's host; NULL: no link was up yet */
	struct lease_member lease;
	uint64_t answered_ms; /* when a head answered last; 0: none has */
	struct loop_timer *lease_timer;
	struct link_beat clock;	 /* the last beat that the head answered */
	int64_t noted_offset_us; /* in the last event "clock" */
	uint64_t noted_clock_ms; /* when that event was added; 0: there was none */
	char refused[512];	 /* why this host makes no further link; "": it does */
	bool was_member;	 /* of any head */
	uint64_t known_round, last_round;
	int last_rank;
	uint64_t round; /* in which its workers are, or for which it prepares */
	struct member_seat seat;
	struct member_start start;
	json_t *failures; /* of the workers that were stopped; owned */
	json_t *reported; /* names of workers whose failure it has reported in this round; owned */
	char cause[512];  /* of the head's Stop */
	bool final;	  /* no round follows that Stop */
	bool noticed;	  /* the head has its notice of preemption: it leaves at the next Stop */
	int64_t stop_timeout_ms;
	struct error unable; /* why it cannot take part in the round */

	struct calls_out calls;	       /* to the head, of this host's workers and operators */
	struct member_calls *incoming; /* of the head to this host */
	int streams;		       /* operators' calls that the head is answering */
	bool awaits_streams;	       /* it has the verdict, so these calls end by themselves */
	bool bye_due;		       /* it sends Bye when all calls are over */
};

/* --- member.c --- */

int member_new(struct hosts *hosts, struct member **ret, struct error *err);
struct member *member_free(struct member *m);
/* Begins to connect to the head. */
void member_connect(struct member *m);
/* Posts an event to the machine, and carries out the action that follows. */
void member_post(struct member *m, enum member_event event);
/* Ends the link to a head that leads no more, and this host's membership with it, whether its lease
 * is over or not. */
void member_leave_head(struct member *m);
/* Tells the guard until when workers may live here. */
void member_fence(const struct member *m);
/* Whether this host is in no group, and no worker lives here. */
bool member_is_away(const struct member *m);
/* Whether a head has let this host in, and its lease is not known to be over. */
bool member_is_admitted(const struct member *m);
/* Whether an order may be posted. Where the lease is over, posts LOST and returns false. */
bool member_lease_holds(struct member *m);
/* An answer of the head has made the lease longer. */
void member_arm_lease(struct member *m);
/* Ends the run of this host without the head's verdict. */
void member_give_up(struct member *m, const char *result, int status, const char *text);

/* --- member_say.c: each sends the message of that name --- */

/* Takes body; NULL: there was no memory for it. */
void member_say(struct member *m, const char *method, json_t *body);
void member_say_join(struct member *m);
void member_say_prepared(struct member *m);
void member_say_unable(struct member *m);
void member_say_started(struct member *m);
/* Gone. */
void member_say_stopped(struct member *m);
void member_say_leave(struct member *m);
/* Sends Bye, at once or when all calls are over, and ends the link. */
void member_say_bye(struct member *m);
/* Report: how a worker ended. */
void member_say_exited(struct member *m, const struct worker *w);
/* Report: an operator has stopped the worker ("stopped"), or it was started again ("started"). */
void member_say_worker(struct member *m, const struct worker *w, const char *event);
/* Report: the worker has no process, and will get none in this round. */
void member_say_worker_over(struct member *m, const struct worker *w);
/* Report, for each failure that was not reported yet; over: the workers' own restarts are used up.
 */
void member_say_failures(struct member *m, bool over);
void member_say_ask(struct member *m, const char *want, int64_t timeout_ms, const char *why);
void member_say_notice(struct member *m, const char *source, const char *reason, int64_t grace_ms,
	int64_t deadline_us);

/* --- messages of the head: 0, or -EPROTO and others with err, which end the link --- */

/* Any message (member_hear.c); arg: the member. */
int member_hear(void *arg, const char *method, json_t *p, struct error *err);
/* Messages about workers (relay.c). */
int member_hear_relayed(struct member *m, const char *method, const json_t *p, struct error *err);
/* Call, Flow and Hangup (member_calls.c). */
int member_hear_call(struct member *m, const char *method, const json_t *p, struct error *err);
/* Reply (leave.c). */
int member_hear_reply(struct member *m, const json_t *p, struct error *err);
/* Deputize: this host listens for the last word of the head's guard (deputy.c). */
int member_hear_deputize(struct member *m, const json_t *p, struct error *err);
/* Records (deputy.c). */
int member_hear_records(struct member *m, const json_t *p, struct error *err);
void member_seat_fini(struct member_seat *s);
void member_start_fini(struct member_start *s);

/* --- member_calls.c: calls of the head to this host --- */

_must_check_ int member_calls_open(struct member *m, struct error *err);
void member_calls_close(struct member *m);
/* The link has room again. */
void member_calls_ready(struct member *m);
/* The link has ended. */
void member_calls_cut(struct member *m);
/* The run is over and all logs are written: readers that follow get their last lines. */
void member_calls_end(struct member *m);
/* Whether Bye has to wait until calls are answered; member_calls_check_bye() then sends it. */
bool member_calls_delay_bye(struct member *m);
/* The head takes and sends answers. */
void member_calls_heard(struct member *m);
void member_calls_check_bye(struct member *m);

/* --- relay.c: what workers share, over the link --- */

_must_check_ int member_relay_open(struct member *m);
void member_relay_cut(struct member *m, const char *why);

/* --- describe.c --- */

/* This host, and the head's as far as this one knows it: an array of io.elasticd.Manager.Host.
 * Returns owned. */
json_t *member_hosts_json(const struct member *m);
