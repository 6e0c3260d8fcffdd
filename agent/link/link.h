/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * A link: a session between a member's agent and the head, over any number of TCP connections, one
 * after the other. Both sides send messages of io.elasticd.Peer; each is handled once, in the order
 * in which it was sent, whatever breaks. The member's side is made by link_connect(), which keeps
 * connecting; the head's by its listener (listen.h).
 *
 * A link never decides what a loss means: its owner does, from beats and states. An idle link does
 * nothing but beat, five times in each lease.
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

enum {
	LINK_WAITING, /* there is no connection; it is being made again, or awaited */
	LINK_UP,
	LINK_ENDED, /* for ever */
};

/* A beat, and what it has shown. Times of CLOCK_BOOTTIME are this side's. */
struct link_beat {
	int64_t sent_boot_us;  /* member: when the beat was sent that the head has answered */
	int64_t came_boot_us;  /* head: when the beat came */
	int64_t acked_boot_us; /* head: when the newest answer was sent that the member has; 0: it
				  has none that is still known */
	bool clock_known;      /* the two below are set */
	int64_t offset_us;     /* member's time + offset = head's time */
	int64_t uncertainty_us;
};

struct link_events {
	/* A message of the other side, checked against the interface; parameters is borrowed.
	 * Returns 0, or a negative errno with err, which names the field: the link then ends, and
	 * the link tells the other side why. Beats, Ack, Hello, Welcome and Refuse do not come
	 * here. */
	int (*message)(void *arg, const char *method, json_t *parameters, struct error *err);
	/* LINK_WAITING: why says what broke, and once more, after ten seconds, what still fails.
	 * LINK_ENDED: why is NULL after link_finish(), else its field is that of the other side's
	 * Refuse, or of what was wrong. */
	void (*state)(void *arg, int state, const struct error *why);
	/* May be NULL. Member: the head answered a beat. Head: a beat came, and is answered after
	 * this, unless it frees the link. */
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
	uint64_t limit_ms;	    /* for making a connection, from the first try or from a loss */
	uint64_t lease_ms;	    /* until the head has said its own */
	const struct link_tls *tls; /* borrowed for the life of the link; NULL: plain */
	const struct link_events *events;
	void *arg;
};

/* Begins to connect. Returns 0, -EINVAL with err for an endpoint that is none, or -ENOMEM. */
_must_check_ int link_connect(struct loop *loop, const struct link_options *options,
	struct link **ret, struct error *err);
/* Closes the connection without a word; the head forgets the session. Accepts NULL. */
struct link *link_free(struct link *l);
DEFINE_CLEANUP(struct link *, link_free)

/*
 * Sends a message that has a number. Takes body, the parameters without n and ack (NULL means {}).
 * The next connection sends it where there is none now. Returns 0, -EMSGSIZE, -ENOMEM, or
 * -ECONNRESET after LINK_ENDED or link_finish(). When more than 4 MiB have waited for the other
 * side for a lease, or 64 MiB at all, the link ends.
 */
_must_check_ int link_send(struct link *l, const char *method, json_t *body);
/* The same with the text of a JSON object (len bytes, borrowed): written once for many links. */
_must_check_ int link_send_text(struct link *l, const char *method, const char *body, size_t len);

/* True while more than 1 MiB waits for the other side: what can wait should. fn(arg) then runs once
 * when half of it is left, or when the link has ended. One at a time. */
bool link_congested(struct link *l, loop_fn fn, void *arg);

/* This side sends nothing more: LINK_ENDED, without a reason, follows when all was acknowledged;
 * after limit_ms with one. */
void link_finish(struct link *l, uint64_t limit_ms);

/* The other side, as Hello or Welcome named it; NULL members before. Borrowed for the life of the
 * link, but for what the next Welcome changes. */
struct link_peer {
	char *run, *agent, *boot, *host, *version;
	char *head, *word, *settings; /* of Welcome */
	uint64_t lease_ms;
};
const struct link_peer *link_peer(const struct link *l);

/* This side's address. 0, or -ENOTCONN, also where l is NULL. */
_must_check_ int link_local_at(const struct link *l, struct sockaddr_storage *ret);
/* The message by which a process says that this agent of the group and its workers are dead, on a
 * plain connection of its own. Returns its length, 0 where it does not fit. */
ssize_t link_last_word_text(
	const char *group, const char *agent, const char *word, char *text, size_t size);
/* Member: the same for the head, and the head's address; 0 also where there is no connection. */
ssize_t link_last_word(
	const struct link *l, char *text, size_t size, struct sockaddr_storage *ret_to);

/* CLOCK_BOOTTIME in microseconds. */
int64_t link_boot_us(void);
