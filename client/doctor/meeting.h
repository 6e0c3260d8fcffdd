/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A meeting of the hosts that run "doctor" at once (io.elasticd.Doctor). Each listens at a port of
 * its own, where the others try their ways to it. One is the head as well: it listens at the
 * endpoint, or is the one that etcd names. It has a connection to itself, as to the others.
 */

#include "client/doctor/doctor.h"
#include "common/base/error.h"
#include "common/varlink/client.h"
#include "common/varlink/server.h"

enum {
	MEETING_WAYS_MAX = 32,	   /* that one host tries: to those behind it in the list */
	MEETING_CONNECT_MS = 3000, /* for one connection */
	MEETING_WAY_MS = 8000,	   /* for all that is tried on one way */
	MEETING_REPORT_MS = 12000, /* from the list of hosts to the last report */
	MEETING_PAYLOAD = 32768,   /* more than any frame has, so that full ones go both ways */
	MEETING_ID_MAX = 24,
};

struct meeting;

/* As the head: a host that has joined. */
struct meeting_seat {
	json_t *host, *ways;
	struct varlink_call *join, *report; /* calls that wait for an answer */
	bool gone;			    /* its connection has ended */
};

/* A way to another host. */
struct meeting_way {
	struct meeting *meeting;
	json_t *host; /* borrowed */
	int fd;
	struct loop_fd *watch;
	struct varlink_client *client;
	struct loop_timer *limit;
	int tries; /* that were answered */
	int64_t sent_us, sent_real_us, rtt_us, offset_us;
	bool connected, over;
	char error[256]; /* "": it is a good one */
};

struct meeting {
	struct doctor *doctor;
	struct loop *loop;
	char id[MEETING_ID_MAX];
	int port; /* of this host's own */
	int64_t deadline_us;
	struct varlink_server *server;
	bool left; /* no connection to it is open any more */

	/* As the head. */
	bool leads, closed, answered;
	struct meeting_seat **seats;
	size_t n_seats;
	struct loop_timer *close, *last;

	/* As a member. */
	struct varlink_client *head;
	struct loop_timer *limit;
	bool late;    /* the limit is over */
	bool asks;    /* the head has not answered */
	bool waits;   /* ways are being tried */
	bool refused; /* by the head, which another try would not change */
	char failure[1024];
	json_t *answer, *hosts;
	char head_name[256];
	struct meeting_way ways[MEETING_WAYS_MAX];
	size_t n_ways, n_open;

	struct meeting_place *place; /* in etcd; or NULL */
};

/* Runs the loop until *flag is false, at most for so long. Returns whether it is. */
bool meeting_wait(struct meeting *m, const bool *flag, int64_t limit_ms);

/* meeting_head.c: the methods that this host answers. fd (taken): where it leads, else -1. */
_must_check_ int meeting_serve(struct meeting *m, struct error *err);
_must_check_ int meeting_lead(struct meeting *m, int fd, struct error *err);
/* Waits until the others have their answers. */
void meeting_dismiss(struct meeting *m);
void meeting_head_fini(struct meeting *m);
/* Listens at a; port of 0: any, in ret_port. Returns a descriptor or a negative errno. */
int meeting_bind(const struct sockaddr *a, int *ret_port);

/* probe.c: tries the ways to the hosts behind this one in the list; and the list for a report. */
void meeting_try_ways(struct meeting *m);
json_t *meeting_ways_json(const struct meeting *m);
void meeting_ways_fini(struct meeting *m);

/* A connection to a, not before the loop runs. Returns a descriptor or a negative errno. */
int meeting_connect(const struct sockaddr *a);

/* meeting_findings.c: what came of it. failure: why there was no meeting; ways: those that were
 * tried, by this host and, as m->answer has them, by others. */
void meeting_found_failure(struct meeting *m);
void meeting_found_hosts(struct meeting *m);
void meeting_found_ways(struct meeting *m);
/* Whether this host may be the head. */
bool meeting_may_lead(const struct meeting *m);

/* meeting_etcd.c: who is the head, by a key in etcd that goes with its lease. */

/* 0 and the head's address and port, which are this host's own where m->leads becomes true; or
 * -EAGAIN, or another negative errno, with err. */
_must_check_ int meeting_place_find(
	struct meeting *m, struct sockaddr_storage *ret, struct error *err);
void meeting_place_free(struct meeting_place *p);
