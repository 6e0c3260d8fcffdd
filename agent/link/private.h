/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of this room that make links; no other file includes it.
 *
 *   link.c    what both sides do: messages, numbers, beats, the end
 *   beat.c    beats and their answers
 *   dial.c    the member's side: names, connecting, waiting, connecting again
 *   listen.c  the head's side: unknown peers, and which link each belongs to
 *   bind.c    the head's listening socket
 *   channel.c one connection, over tls.c where there is a secret
 *
 * Messages without a number (Hello, Welcome, beats) wait in `control` and are sent before numbered
 * ones, which wait until `ready` is set. A connection that breaks loses its control messages.
 */

#include "agent/link/channel.h"
#include "agent/link/link.h"
#include "agent/link/message.h"
#include "agent/link/resolve.h"
#include "agent/link/window.h"
#include "agent/rounds/clock_offset.h"
#include "common/base/hash_chain.h"

struct link_dial;
struct link_listen;

enum {
	LINK_BEATS_PER_LEASE = 5,
	LINK_ANSWERS = 8,      /* more than a lease of them */
	LINK_SECRET_SIZE = 33, /* of random_hex(), with the NUL */
};

/* An owned copy. 0 or -ENOMEM. */
_must_check_ int link_identity_copy(struct link_identity *to, const struct link_identity *from);
void link_identity_fini(struct link_identity *i);
/* Puts into Hello or Welcome the versions, and all that i says but for its settings. */
_must_check_ int link_identity_put(const struct link_identity *i, json_t *body);

struct link {
	struct chain_node
		node; /* in the listener's table of sessions; first, so that it is the link */
	struct loop *loop;
	const struct varlink_idl *idl;
	struct link_window window;
	struct varlink_buffer control;
	struct link_channel *channel; /* NULL: there is no connection */
	bool ready;		      /* Hello and Welcome were exchanged on it */
	enum link_state state;
	const struct link_events *events;
	void *arg;
	struct link_peer peer;
	char *session;
	uint64_t lease_ms;
	struct loop_timer *beat_timer;	 /* member: the next beat */
	struct loop_timer *unread_timer; /* too much has waited for the other side */
	struct loop_timer *finish_timer; /* link_finish() */
	struct clock_offset clock;	 /* member: the head's */
	/* Member: when it sent its newest beat; the newest that was answered; 0: none. */
	int64_t beat_boot_us, answered_boot_us; /* on this connection */
	int64_t heard_boot_us;			/* answered on any connection */
	struct {
		int64_t beat_boot_us, sent_boot_us;
	} answers[LINK_ANSWERS]; /* head: its newest ones, and to which beats */
	unsigned n_answers;
	int idle_messages; /* that came since idle_ms and brought nothing new */
	uint64_t idle_ms;
	loop_fn room_fn; /* link_congested(); NULL: the owner does not wait for room */
	void *room_arg;
	struct error *end_why; /* owned: why the link ends in the next turn; or NULL */
	bool finishing;
	struct link_dial *dial;	    /* the member's side, else NULL */
	struct link_listen *listen; /* the head's side, else NULL */
	int callbacks;		    /* running now */
	bool freed;
};

/* A link without a connection. */
_must_check_ int link_new(struct loop *loop, const struct varlink_idl *idl, struct link **ret);
/* To be called after each callback. Returns true if the callback freed the link. Not inlined: gcc
 * does not see that an outer callback keeps the memory. */
__attribute__((noinline)) bool link_leave_callback(struct link *l);
extern const struct link_channel_events link_channel_events;

/* Copies what a Hello or Welcome says about the other side. 0 or -ENOMEM. */
_must_check_ int link_peer_set(struct link *l, const json_t *parameters);

/* Sends a message without a number, at the end of the turn. Takes body. 0 or -ENOMEM. */
_must_check_ int link_control(struct link *l, const char *method, int64_t ack, json_t *body);

/* Hello and Welcome were exchanged, and the window has resumed. */
void link_up(struct link *l);
/* The connection broke, or could not be made. Returns true if the link was freed. */
bool link_down(struct link *l, const struct error *why);
/* Ends the link for ever; refuse: the other side gets why in a Refuse. Returns true if the link was
 * freed. */
bool link_end(struct link *l, const struct error *why, bool refuse);

/* Member: sends a beat (arg is the link), and arms the timer of the next one. */
void link_beat_due(void *arg);
/* Member: a BeatAnswer came. Returns 1 if the link was freed, 0, or -EPROTO with err. */
int link_beat_answered(struct link *l, const json_t *p, struct error *err);
/* Head: a Beat came; answers it. Returns true if the link was freed. */
bool link_beat_came(struct link *l, const json_t *p);

/* dial.c: the connection is gone, or could not be made: tries again later. */
void link_dial_lost(struct link *l, const struct error *why);
/* The first message on a connection. 0, or a negative errno with err. */
int link_dial_welcome(struct link *l, const struct link_message *m, struct error *err);
/* The head refused this host: puts that and the endpoint before the text of err. */
void link_dial_refused(const struct link *l, struct error *err);
/* Puts the endpoint's name before the text of an error of the protocol. */
void link_dial_name(const struct link *l, struct error *err);
struct link_dial *link_dial_free(struct link_dial *d);
/* listen.c: as link_channel_close(), which the member's side does at once: the head reads on until
 * the end. */
void link_listen_close(struct link *l, struct link_channel *c, const char *text, size_t len);
void link_listen_forget(struct link *l);

/* bind.c: a listening socket at the first of the addresses that is this host's; as
 * link_listen_new(). ret is owned. */
_must_check_ int link_bind(const struct link_addresses *addresses, int *ret, struct error *err);
