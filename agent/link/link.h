/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A link: a session between a member's agent and the head, over any number of TCP connections, one
 * after the other. Both sides send messages of io.elasticd.Peer; the other side handles each once,
 * in the order in which it was sent, whatever breaks. link_connect() makes the member's side, and
 * connects again and again; the listener (listen.h) makes the head's.
 *
 * A link never decides what a loss means: its owner does, from beats and states. An idle link only
 * beats, five times in each lease.
 *
 * Callbacks run from the loop, never inside a function of this header, and may free the link.
 */

#include "common/base/cleanup.h"
#include "common/base/error.h"
#include "common/loop/loop.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

struct link;
struct link_tls;

enum link_state {
	LINK_WAITING, /* for a connection */
	LINK_UP,
	LINK_ENDED, /* for ever */
};

/* A beat, and what this side has learnt from it. Times of CLOCK_BOOTTIME are this side's. */
struct link_beat {
	int64_t sent_boot_us;  /* member: when it sent the beat that the head has answered */
	int64_t came_boot_us;  /* head: when the beat came */
	int64_t acked_boot_us; /* head: when it sent the newest answer that the member has; 0: it
				  does not know */
	bool clock_known;      /* the two below are known */
	int64_t offset_us;     /* member's time + offset = head's time */
	int64_t uncertainty_us;
};

struct link_events {
	/* A message of the other side, checked against the interface; parameters is borrowed.
	 * Returns 0, or a negative errno with err, which names the field: the link then ends, and
	 * the link tells the other side why. Beats, Ack, Hello, Welcome and Refuse do not come
	 * here. */
	int (*message)(void *arg, const char *method, json_t *parameters, struct error *err);
	/* LINK_WAITING: why says what broke; after ten seconds it comes once more, and why says
	 * what still fails. LINK_ENDED: why is NULL after link_finish(); else its field names what
	 * was wrong, as the other side's Refuse did where that ended the link. */
	void (*state)(void *arg, enum link_state state, const struct error *why);
	/* May be NULL. Member: the head answered a beat. Head: a beat came; the link answers it
	 * afterwards, unless this frees the link. */
	void (*beat)(void *arg, const struct link_beat *beat);
};

/* How a side presents itself; all borrowed while the link is being made. */
struct link_identity {
	const char *group; /* rendezvous.id */
	const char *run;   /* of the group; NULL: not known yet (member) */
	const char *agent, *boot, *host;
	const char *settings; /* head: a digest of what all hosts must have alike; or NULL */
};

struct link_options {
	struct link_identity self;
	const char *endpoint;
	uint64_t limit_ms;	    /* for a connection, from the first try or from a loss */
	uint64_t lease_ms;	    /* until the head has said its own */
	const struct link_tls *tls; /* borrowed for the life of the link; NULL: plain */
	const struct link_events *events;
	void *arg;
};

/* Begins to connect. Returns 0, -EINVAL with err for a malformed endpoint, or -ENOMEM. */
_must_check_ int link_connect(struct loop *loop, const struct link_options *options,
	struct link **ret, struct error *err);
/* Closes the connection without a word; the head forgets the session. Accepts NULL. */
struct link *link_free(struct link *l);
DEFINE_CLEANUP(struct link *, link_free)

/*
 * Sends a numbered message, now or on the next connection. Takes body, the parameters without n and
 * ack (NULL means {}). Returns 0, -EMSGSIZE, -ENOMEM, or -ECONNRESET after LINK_ENDED or
 * link_finish(). The link ends when more than 4 MiB have waited for the other side for a lease, or
 * more than 64 MiB wait.
 */
_must_check_ int link_send(struct link *l, const char *method, json_t *body);
/* The same with the text of a JSON object (len bytes, borrowed), for a message to many links. */
_must_check_ int link_send_text(struct link *l, const char *method, const char *body, size_t len);

/* Whether more than 1 MiB waits for the other side, so that the owner should not send what can
 * wait. If so, fn(arg) runs once when 512 KiB are left, or when the link has ended. A second call
 * replaces fn. */
bool link_congested(struct link *l, loop_fn fn, void *arg);

/* This side sends nothing more. LINK_ENDED follows: without a reason when the other side has
 * acknowledged everything, with one after limit_ms. */
void link_finish(struct link *l, uint64_t limit_ms);

/* The other side, as its Hello or Welcome named it; members are NULL before. Borrowed until the
 * next Welcome, which may change it, or the end of the link. */
struct link_peer {
	char *run, *agent, *boot, *host, *version;
	char *head, *word, *settings; /* of Welcome */
	uint64_t lease_ms;
};
const struct link_peer *link_peer(const struct link *l);

/* This side's address. 0, or -ENOTCONN, also where l is NULL. */
_must_check_ int link_local_at(const struct link *l, struct sockaddr_storage *ret);
/* Writes the message (LastWord) by which a process tells the head, on a plain connection of its
 * own, that this agent and its workers are dead. Returns its length, 0 where it does not fit. */
ssize_t link_last_word_text(
	const char *group, const char *agent, const char *word, char *text, size_t size);
/* Member: the same for this side's agent; ret_to is the head's address. 0 also without a
 * connection. */
ssize_t link_last_word(
	const struct link *l, char *text, size_t size, struct sockaddr_storage *ret_to);
