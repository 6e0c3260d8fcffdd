/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * This agent's part in a group of several hosts: a member (member.h); on the host that leads also a
 * head (head.h); and, if etcd elects the head, this host's part in that (lead.h).
 *
 *   feature.c          the hooks of the core
 *
 *   member.c           this host as a member: its states, its lease, its link
 *   member_say.c       messages to the head
 *   member_hear.c      orders of the head
 *   member_calls.c     calls of the head to this host
 *   operators.c        operators' calls on this host that concern all hosts
 *
 *   head.c             carries out the orders of agent/rounds/round.h; leases
 *   head_say.c         messages to members
 *   head_hear.c        messages of members, and the ends of their links
 *   head_decide.c      failures, restarts and the verdict
 *   head_quarantine.c  hosts that the group keeps out
 *   head_seats.c       seats whose hosts are gone while the others go on
 *   head_hang.c        has all hosts dump their workers when one hangs
 *   head_logs.c        logs of all hosts
 *   head_operators.c   failures and dumps of all hosts
 *   head_call_all.c    one call to all hosts
 *   head_tenure.c      the hosts that etcd knows, or knew
 *   lead*.c            who leads (lead.h)
 *
 *   deputy.c           the host that leads next; it also has the records of features
 *   relay.c            the way of workers' and operators' calls over links
 *   leave.c            hosts that leave on purpose
 *   describe.c         the hosts, for people
 *   messages.c         the parameters of messages about rounds (messages.h)
 *   settings.c         settings on which all hosts have to agree (settings.h)
 */

#include "agent/link/listen.h"
#include "agent/link/resolve.h"
#include "agent/link/tls.h"
#include "agent/supervise/feature.h"

#include <sys/queue.h>

struct head;
struct lead;
struct member;

enum {
	HOSTS_ID = 40,	     /* bytes of the name of an agent, or of a boot */
	HOSTS_ADDRESS = 256, /* bytes of an address that becomes part of workers' environment */
	HOSTS_SECRET = 65,   /* bytes of a new secret: 64 digits and a NUL */
};

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
	struct lead *lead;	    /* NULL: etcd does not elect the head */
	struct link_listen *deputy; /* for the last word of the head's guard; or NULL */
	loop_fn over_fn;	    /* the core waits until all is over here; NULL: not yet */
	void *over_arg;
	bool stop_asked, leave_asked;
	char late[256]; /* max_run_time is over, and the head has not ended the group; "": not so */
	char stop_text[256]; /* of a stop that the head was asked for; "": it was not */
	int64_t stop_timeout_ms;
	int64_t ask_number; /* of the last Ask that a Reply follows */
	LIST_HEAD(, drain_call) drains;
};

struct hosts *hosts_of(const struct supervisor *sv);
const char *hosts_group(const struct hosts *h);
/* The clock of rounds and leases: CLOCK_BOOTTIME. */
uint64_t hosts_now_ms(void);
/* This host leaves a group that goes on. Where etcd elects the head, another host may lead at once.
 */
void hosts_hand_over(struct hosts *h);
/* The head that was to stop the group is lost: stops this host alone. A deferred call; arg: hosts.
 */
void hosts_stop_alone(void *arg);
/* Lets the core go on, if it waits and all is over here. */
void hosts_check_over(struct hosts *h);

/* --- leave.c --- */

int hosts_method_leave(struct varlink_call *call, json_t *p, void *arg);
int hosts_method_drain(struct varlink_call *call, json_t *p, void *arg);
/* This host leaves the group. It does not lead, or etcd elects the next head. */
void hosts_leave(struct hosts *h, const char *why);
/* No Reply will come any more. */
void hosts_fail_drains(struct hosts *h);

/* --- operators.c: hooks --- */

void hosts_note_missing(const struct supervisor *sv, json_t *answer);
bool hosts_relays_call(struct supervisor *sv, struct varlink_call *call, json_t *parameters);
