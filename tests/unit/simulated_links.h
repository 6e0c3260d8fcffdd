/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Virtual time, and the links of many hosts to their head: real numbers (agent/link/window.h) and
 * real messages (agent/link/message.h), over connections that are slow, that break, and whose
 * directions can be cut. A cut direction holds what is sent, as TCP does; a broken connection loses
 * what is on its way, and the next one sends it again. Counts all that is sent.
 */

#include "agent/link/message.h"
#include "agent/link/window.h"
#include "agent/rounds/lease.h"
#include "agent/rounds/member_machine.h"
#include "common/base/cleanup.h"
#include "common/text/json.h"
#include "tests/unit/random.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE = 10000 };

enum side { MEMBER, HEAD, SIDES };

enum event_kind {
	EV_BYTES, /* arrive at that side */
	EV_BEAT,  /* is due at a member */
	EV_BEAT_CAME,
	EV_BEAT_ANSWERED,
	EV_CONNECTED, /* Hello and Welcome were exchanged, or a Refuse */
	EV_CLOSED,    /* the member learns that the head has forgotten its session */
	EV_LINKED,
	EV_READY,
	EV_STARTED,
	EV_DEAD,
	EV_LEASE, /* a member looks at its lease */
	EV_HEAD,  /* the head looks at leases and rounds */
	EV_LAST_WORD,
	EV_RECORDED,
	EV_BORN,
	EV_HEALED,
	EV_TROUBLE,
};

/* of: the connection, the agent, or what else it belongs to; it is void where that is another one
 * by then. */
struct event {
	uint64_t at_ms, seq;
	enum event_kind kind;
	enum side side;
	int host;
	uint64_t of, n;
	char *bytes;
	size_t len;
};

struct held {
	struct held *next;
	struct event e;
};

/* One direction, named by the side that it leads to. */
struct way {
	bool cut;
	uint64_t last_ms; /* when the last of what is on its way arrives */
	struct held *first, **end;
};

struct shost {
	char name[40], run[48];
	bool alive;
	uint64_t agent; /* which one it is on this host */
	enum member_state state;
	bool leaving;
	struct lease_member lease;
	bool lease_due; /* an EV_LEASE is on its way */
	uint64_t known_round, last_round, answered_ms;
	int last_rank;
	/* As the last Assign says: */
	uint64_t round;
	int group_rank, first_rank, workers, attempt, group_size, world_size;
	bool master;
	uint64_t work; /* number of the last thing that is under way: preparing, starting, ending */
	uint64_t worker; /* the round of its workers; 0: none lives */

	/* The link. */
	uint64_t session, connection;
	bool fresh;  /* the head has not seen the session yet */
	bool linked; /* Hello and Welcome were exchanged on the connection */
	bool connecting;
	uint64_t delay_ms;
	struct link_window window[SIDES];
	struct way way[SIDES];

	/* As the head knows: */
	uint64_t head_session;	 /* that it has a link for; 0: none */
	uint64_t member_session; /* that the member has joined by */
	int number;		 /* -1: no member */
	struct lease_held held;
	char *master_addr;
	uint64_t counted; /* the window in which it was counted as there */
};

/* Between two rounds whose workers execute. */
struct tally {
	long messages[SIDES], bytes[SIDES]; /* to that side */
	long again, again_bytes;	    /* of these, sent once more */
	long beats, handshakes;
	int hosts, waves, failures;
};

static struct simulation {
	uint64_t now_ms, seq;
	uint32_t seed;
	struct event *heap;
	size_t n, room;
	int n_hosts;
	struct shost *hosts;
	const struct varlink_idl *idl;
	struct tally tally;
	unsigned long events, messages;
	char trail[400]; /* what happened last */
} s;

static _Noreturn __attribute__((format(printf, 1, 2))) void wrong(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	ck_abort_msg("at %llu ms: %s, after%s", (unsigned long long)s.now_ms, text, s.trail);
	abort();
}

/* Check's own assertions write a file each time. */
static void enough(bool memory)
{
	if (!memory)
		wrong("out of memory");
}

/* 0 to n - 1. */
static uint32_t chance(uint32_t n)
{
	return next_random(&s.seed) % n;
}

static uint64_t between(uint32_t least, uint32_t most)
{
	return least + chance(most - least + 1);
}

/* --- time --- */

static bool before(const struct event *a, const struct event *b)
{
	return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->seq < b->seq;
}

static void post_again(uint64_t at_ms, struct event e)
{
	size_t i = s.n++;

	if (s.n > s.room) {
		s.room = 2 * s.n + 1024;
		s.heap = reallocarray(s.heap, s.room, sizeof(*s.heap));
		enough(s.heap != NULL);
	}
	e.at_ms = at_ms;
	for (; i && before(&e, &s.heap[(i - 1) / 2]); i = (i - 1) / 2)
		s.heap[i] = s.heap[(i - 1) / 2];
	s.heap[i] = e;
}

static void post(uint64_t at_ms, struct event e)
{
	e.seq = ++s.seq;
	post_again(at_ms, e);
}

static struct event next_event(void)
{
	struct event first = s.heap[0], last = s.heap[--s.n];
	size_t i = 0, k;

	while ((k = 2 * i + 1) < s.n) {
		if (k + 1 < s.n && before(&s.heap[k + 1], &s.heap[k]))
			k++;
		if (!before(&s.heap[k], &last))
			break;
		s.heap[i] = s.heap[k];
		i = k;
	}
	s.heap[i] = last;
	s.events++;
	return first;
}

/* --- what is on its way --- */

static int host_index(const struct shost *h)
{
	return (int)(h - s.hosts);
}

/* Sends an event to that side, behind all that is on its way there. */
static void ship(struct shost *h, enum side to, struct event e)
{
	struct way *w = &h->way[to];
	uint64_t at_ms = s.now_ms + h->delay_ms + chance(2);

	if (at_ms > w->last_ms)
		w->last_ms = at_ms;
	e.side = to;
	e.host = host_index(h);
	e.of = h->connection;
	post(w->last_ms, e);
}

/* Whether what is sent there may as well arrive at once. */
static bool is_near(const struct shost *h, enum side to)
{
	const struct way *w = &h->way[to];

	return h->delay_ms <= 1 && !w->cut && w->last_ms <= s.now_ms;
}

/* Whether e waits for its way to be healed. */
static bool is_held(struct shost *h, const struct event *e)
{
	struct way *w = &h->way[e->side];
	struct held *x;

	if (!w->cut)
		return false;
	x = malloc(sizeof(*x));
	enough(x != NULL);
	*x = (struct held){ .e = *e };
	*(w->first ? w->end : &w->first) = x;
	w->end = &x->next;
	return true;
}

/* Held messages keep their turn before those that arrive now. */
static void heal(struct shost *h, enum side to)
{
	struct way *w = &h->way[to];
	struct held *x;

	w->cut = false;
	while ((x = w->first)) {
		w->first = x->next;
		post_again(s.now_ms, x->e);
		free(x);
	}
}

/* --- numbered messages --- */

/* Counts messages that a connection gets, of which the first `again` had been on another one. */
static void count_sent(enum side to, const char *bytes, size_t len, long again)
{
	const char *at = bytes, *end = bytes + len;

	s.tally.bytes[to] += (long)len;
	for (; at < end; at = strchr(at, '\0') + 1, again--) {
		s.tally.messages[to]++;
		s.messages++;
		if (again <= 0)
			continue;
		s.tally.again++;
		s.tally.again_bytes += (long)strlen(at) + 1;
	}
}

/* Sends what the connection has not had yet. */
static void flush(struct shost *h, enum side from)
{
	struct link_window *w = &h->window[from];
	enum side to = from == MEMBER ? HEAD : MEMBER;
	struct varlink_buffer out = { 0 };
	int64_t taken = w->taken, on_wire = w->on_wire;

	if (!h->linked)
		return;
	enough(link_window_take(w, &out, SIZE_MAX) == 0);
	if (!varlink_buffer_len(&out))
		return;
	count_sent(to, out.data + out.begin, varlink_buffer_len(&out),
		(taken < w->on_wire ? taken : w->on_wire) - on_wire);
	ship(h, to, (struct event){ .kind = EV_BYTES, .bytes = out.data, .len = out.end });
}

/* Takes body. */
static void send(struct shost *h, enum side from, const char *method, json_t *body)
{
	enough(link_window_put(&h->window[from], method, body) == 0);
	flush(h, from);
}

static void send_text(struct shost *h, enum side from, const char *method, const char *body)
{
	enough(link_window_write(&h->window[from], method, body, strlen(body)) == 0);
	flush(h, from);
}

/* Each side carries out messages: */
static void head_hears(struct shost *h, const char *method, const json_t *p);
static void member_hears(struct shost *h, const char *method, const json_t *p);

/* One message; returns false where the rest of its connection is void by then. */
static bool receive(struct shost *h, enum side side, const char *text, size_t len)
{
	_cleanup_(link_message_fini) struct link_message m = { .message = NULL };
	uint64_t session = h->session, connection = h->connection;
	struct error err = { 0 };
	int r = link_message_read(s.idl, text, len, &m, &err);

	if (r == 0)
		r = link_window_receive(&h->window[side], m.n, m.ack, len, &err);
	if (r < 0)
		wrong("%s: %s: %.300s", h->name, err.text, text);
	if (r > 0 && side == HEAD)
		head_hears(h, m.method, m.parameters);
	else if (r > 0)
		member_hears(h, m.method, m.parameters);
	return h->session == session && h->connection == connection;
}

static void bytes_arrive(struct shost *h, const struct event *e)
{
	const char *at = e->bytes, *end = at + e->len;

	while (at < end) {
		size_t len = strlen(at);

		if (!receive(h, e->side, at, len))
			return;
		at += len + 1;
	}
}

/* --- connections --- */

/* The member begins to connect; what is on its way is lost. */
static void connect_link(struct shost *h, uint64_t wait_ms)
{
	h->connection++;
	h->linked = false;
	h->connecting = true;
	post(s.now_ms + wait_ms + 2 * h->delay_ms,
		(struct event){ .kind = EV_CONNECTED, .host = host_index(h), .of = h->connection });
}

/* A link without a past. */
static void new_session(struct shost *h)
{
	h->session++;
	h->fresh = true;
	h->linked = h->connecting = false;
	h->connection++;
	for (int i = 0; i < SIDES; i++)
		link_window_fini(&h->window[i]);
}

/* Both sides go on where they were. */
static void resume(struct shost *h)
{
	struct error err = { 0 };

	for (int i = 0; i < SIDES; i++)
		if (link_window_resume(&h->window[i], h->window[!i].seen, &err) < 0)
			wrong("%s: %s", h->name, err.text);
	h->linked = true;
	h->connecting = false;
	s.tally.handshakes += 2;
	flush(h, MEMBER);
	flush(h, HEAD);
}

static void links_end(void)
{
	for (int i = 0; i < s.n_hosts; i++) {
		for (int k = 0; k < SIDES; k++) {
			heal(&s.hosts[i], k);
			link_window_fini(&s.hosts[i].window[k]);
		}
		free(s.hosts[i].master_addr);
	}
	for (size_t i = 0; i < s.n; i++)
		free(s.heap[i].bytes);
	free(s.heap);
	free(s.hosts);
	varlink_idl_free((struct varlink_idl *)s.idl);
}
