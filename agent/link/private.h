/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Shared by the files of this room that make links; no other file includes it.
 *
 *   link.c    what both sides do: messages, numbers, beats, the end
 *   beat.c    beats and their answers
 *   dial.c    the member's side: names, connecting, waiting, connecting again
 *   listen.c  the head's side: unknown peers, and to which link they belong
 *   bind.c    the socket it listens on
 *   channel.c one connection, over tls.c where there is a secret
 *
 * Messages without a number (Hello, Welcome, beats) wait in control and go before those with one;
 * they are lost with their connection. Numbered ones go only when ready is set.
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
	int state;
	const struct link_events *events;
	void *arg;
	struct link_peer peer;
	char *session;
	uint64_t lease_ms;
	struct loop_timer *beat, *full, *finish;
	struct clock_offset clock; /* member: the head's */
	int64_t beat_boot_us;	   /* member: of the newest beat on this connection; 0: none */
	int64_t answered_boot_us;  /* ... that was answered */
	int64_t heard_boot_us;	   /* ... on any connection */
	struct {
		int64_t beat_boot_us, sent_boot_us;
	} answers[LINK_ANSWERS]; /* head: the newest ones */
	unsigned n_answers;
	int idle_messages; /* of the other side, that brought nothing new, since idle_ms */
	uint64_t idle_ms;
	loop_fn relieved; /* NULL: the owner does not wait for room */
	void *relieved_arg;
	struct error *doom; /* owned: why the link ends in the next turn */
	bool finishing;
	struct link_dial *dial;	    /* the member's side, else NULL */
	struct link_listen *listen; /* the head's side, else NULL */
	int callbacks;		    /* running now */
	bool freed;
};

/* A link without a connection. */
_must_check_ int link_new(struct loop *loop, const struct varlink_idl *idl, struct link **ret);
/* Call it after each callback; returns true if the callback freed the link. Not inlined: gcc does
 * not see that an outer callback keeps the memory. */
__attribute__((noinline)) bool link_leave_callback(struct link *l);
extern const struct link_channel_events link_channel_events;

/* Copies what Hello or Welcome says of the other side. */
_must_check_ int link_peer_set(struct link *l, const json_t *parameters);

/* Sends a message without a number on this connection, at the end of the turn. */
_must_check_ int link_control(struct link *l, const char *method, int64_t ack, json_t *body);

/* The handshake is over: the other side has seen numbers up to resume. */
void link_up(struct link *l);
/* The connection broke, or could not be made. Returns true if the link was freed. */
bool link_down(struct link *l, const struct error *why);
/* The end; tell: the other side gets a Refuse. Returns true if the link was freed. */
bool link_end(struct link *l, const struct error *why, bool tell);

/* Member: sends a beat (arg is the link), and arms the timer of the next. */
void link_beat_due(void *arg);
/* Member: returns 1 if the link was freed, 0, or -EPROTO with err. */
int link_beat_answered(struct link *l, const json_t *p, struct error *err);
/* Head: answers at once. Returns true if the link was freed. */
bool link_beat_came(struct link *l, const json_t *p);

/* dial.c: makes the next connection. */
void link_dial_lost(struct link *l, const struct error *why);
int link_dial_welcome(struct link *l, const struct link_message *m, struct error *err);
void link_dial_refused(struct link *l, const struct link_message *m, struct error *err);
/* Puts the endpoint's name before an error's text. */
void link_dial_name(const struct link *l, struct error *err);
struct link_dial *link_dial_free(struct link_dial *d);
/* listen.c: see link_channel_part(). Takes the channel. */
void link_listen_part(struct link *l, struct link_channel *c, const char *text, size_t len);
void link_listen_forget(struct link *l);

/* bind.c: a listening socket at the first of the addresses that is this host's; as
 * link_listen_new(). ret is owned. */
_must_check_ int link_bind(const struct link_addresses *addresses, int *ret, struct error *err);
