/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An unknown peer is a connection that has not said Hello yet, and the time at which it came. When
 * UNKNOWN_MAX of them are there, new connections wait in the kernel's queue until one of them has
 * said Hello or has had a second. So thousands of members can join at once, and peers that say
 * nothing delay a member only briefly.
 */
#include "agent/link/listen.h"

#include "agent/link/private.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/socket_address.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

enum {
	UNKNOWN_MAX = 64,
	UNKNOWN_MS = 5000,
	UNKNOWN_LEAST_MS = 1000, /* when UNKNOWN_MAX are there */
	ACCEPTS_PER_TURN = 64,
	REST_MS = 100, /* after accept4() has failed */
};

struct unknown {
	struct link_listen *listen;
	TAILQ_ENTRY(unknown) entry;
	struct link_channel *channel;
	uint64_t since_ms;
};

struct link_listen {
	struct loop *loop;
	struct varlink_idl *idl;
	int fd;
	struct loop_fd *watch;
	struct loop_timer *timer; /* the next limit of an unknown peer, or the end of a rest */
	TAILQ_HEAD(unknowns, unknown) unknown; /* the oldest first */
	int n_unknown;
	struct link_channels closing;
	struct chain sessions;		/* of struct link */
	struct link_identity self;	/* owned */
	char *expected, *expected_word; /* link_listen_expect(); or NULL */
	char head[LINK_SECRET_SIZE];
	uint64_t lease_ms;
	const struct link_tls *tls; /* NULL: plain */
	const struct link_listen_events *events;
	void *arg;
};

/* Frees u, and returns its channel. */
static struct link_channel *unknown_take_channel(struct unknown *u)
{
	struct link_channel *c = u->channel;
	struct link_listen *s = u->listen;

	TAILQ_REMOVE(&s->unknown, u, entry);
	s->n_unknown--;
	free(u);
	return c;
}

/* Accepts connections unless UNKNOWN_MAX are there; arms the timer for the next limit. */
static void listen_arm(struct link_listen *s)
{
	const struct unknown *oldest = TAILQ_FIRST(&s->unknown);
	bool full = s->n_unknown >= UNKNOWN_MAX;
	uint64_t now = loop_now_ms(), due;

	(void)!loop_fd_set(s->watch, full ? 0 : LOOP_READ);
	if (!oldest) {
		loop_timer_disarm(s->timer);
		return;
	}
	due = oldest->since_ms + (full ? UNKNOWN_LEAST_MS : UNKNOWN_MS);
	loop_timer_arm(s->timer, due > now ? due - now : 0);
}

/* Tells peer and owner why a connection is refused. Takes c. */
static void refuse_channel(struct link_listen *s, struct link_channel *c, const struct error *why)
{
	_cleanup_(varlink_buffer_fini) struct varlink_buffer b = { .data = NULL };
	struct error shown = *why;
	char from[SOCKET_ADDRESS_MAX];

	link_channel_peer(c, from);
	if (link_message_refuse(&b, why) < 0)
		log_debug("link: out of memory for a Refuse");
	link_channel_close(c, b.data ? b.data + b.begin : "", varlink_buffer_len(&b), &s->closing);
	error_prefix(&shown, "%s", from);
	if (s->events->refused)
		s->events->refused(s->arg, &shown);
}

static void refuse_unknown(struct unknown *u, const struct error *why)
{
	struct link_listen *s = u->listen;

	refuse_channel(s, unknown_take_channel(u), why);
	listen_arm(s);
}

static int check_same(struct error *err, const char *field, const char *own, const char *got)
{
	if (!strcmp(own, got))
		return 0;
	return error_field(
		err, -EPROTO, field, "expected %s, which this head serves, got %.100s", own, got);
}

static int check_hello(const struct link_listen *s, const struct link_message *m, struct error *err)
{
	const char *run = json_get_string(m->parameters, "run", NULL);
	int r = check_same(
		err, "rendezvous.id", s->self.group, json_get_string(m->parameters, "group", ""));

	if (r == 0 && run)
		r = check_same(err, "parameters.run", s->self.run, run);
	if (r == 0 && strlen(json_get_string(m->parameters, "session", "")) < LINK_SECRET_SIZE - 1)
		r = error_field(err, -EPROTO, "parameters.session",
			"expected at least %d characters", LINK_SECRET_SIZE - 1);
	return r;
}

static struct link *find_session(const struct link_listen *s, const char *session)
{
	struct chain_node *n = chain_first(&s->sessions, chain_hash(session, strlen(session)));

	for (; n; n = chain_next(n)) {
		struct link *l = (struct link *)n;

		if (!strcmp(l->session, session))
			return l;
	}
	return NULL;
}

static int send_welcome(struct link_listen *s, struct link *l)
{
	json_t *body = json_object();
	int r = link_identity_put(&s->self, body);

	if (r == 0)
		r = json_put_string(body, "settings", s->self.settings);
	if (r == 0)
		r = json_put_string(body, "head", s->head);
	if (r == 0)
		r = json_put_string(body, "word", l->peer.word);
	if (r == 0)
		r = json_put_int(body, "resume", l->window.seen);
	if (r == 0)
		r = json_put_int(body, "lease_ms", (int64_t)s->lease_ms);
	if (r == 0)
		r = link_control(l, "Welcome", -1, json_incref(body));
	json_decref(body);
	return r;
}

/* Gives l the connection c, in place of one that it may still have. Takes c. */
static void use_channel(struct link_listen *s, struct link *l, struct link_channel *c)
{
	struct error err = { 0 };
	int r;

	if (l->channel) {
		error_set(&err, -ECONNRESET, "the other side has made a new connection");
		if (link_down(l, &err)) {
			link_channel_free(c);
			return;
		}
	}
	l->channel = c;
	link_channel_hand_over(c, LINK_MESSAGE_BYTES, &link_channel_events, l);
	link_channel_tune(link_channel_fd(c), s->lease_ms);
	r = send_welcome(s, l);
	if (r == 0) {
		link_up(l);
		return;
	}
	error_set(&err, r, "%s", strerror(-r));
	link_down(l, &err);
}

static int new_link(
	struct link_listen *s, const struct link_message *m, struct link **ret, struct error *err)
{
	_cleanup_(link_freep) struct link *l = NULL;
	const char *session = json_get_string(m->parameters, "session", "");
	char word[LINK_SECRET_SIZE];
	int r = link_new(s->loop, s->idl, &l);

	if (r == 0)
		r = random_hex(word, LINK_SECRET_SIZE - 1);
	if (r == 0) {
		l->lease_ms = s->lease_ms;
		r = link_peer_set(l, m->parameters);
		free(l->peer.head);
		l->peer.head = NULL;
		free(l->peer.word);
		l->peer.word = strdup(word);
		l->session = strdup(session);
	}
	if (r < 0 || !l->session || !l->peer.word || chain_reserve(&s->sessions) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = s->events->joined(s->arg, l, err);
	if (r < 0)
		return err->code ? r : error_set(err, r, "%s", strerror(-r));
	l->listen = s;
	chain_put(&s->sessions, &l->node, chain_hash(session, strlen(session)));
	*ret = TAKE_PTR(l);
	return 0;
}

void link_accept(struct link *l, const struct link_events *events, void *arg)
{
	l->events = events;
	l->arg = arg;
}

/* The link that a Hello resumes, or a new one. */
static int find_link(
	struct link_listen *s, const struct link_message *m, struct link **ret, struct error *err)
{
	const char *head = json_get_string(m->parameters, "head", NULL);
	int r = check_hello(s, m, err);
	struct link *l;

	if (r == 0 && head)
		r = check_same(err, "parameters.head", s->head, head);
	if (r < 0)
		return r;
	l = find_session(s, json_get_string(m->parameters, "session", ""));
	if (l) {
		r = link_window_resume(&l->window, json_get_int(m->parameters, "resume", 0), err);
		*ret = l;
		return r;
	}
	if (head || json_get_int(m->parameters, "resume", 0))
		return error_field(err, -EPROTO, "parameters.session",
			"expected a link of this head, got one that it has ended");
	return new_link(s, m, ret, err);
}

static void on_hello(struct unknown *u, const struct link_message *m)
{
	struct link_listen *s = u->listen;
	struct error err = { 0 };
	struct link *l = NULL;

	if (find_link(s, m, &l, &err) < 0) {
		refuse_unknown(u, &err);
		return;
	}
	use_channel(s, l, unknown_take_channel(u));
	listen_arm(s);
}

static struct link *find_agent(const struct link_listen *s, const char *agent, const char *word)
{
	for (size_t i = 0; i < s->sessions.size; i++) {
		for (struct chain_node *n = s->sessions.buckets[i]; n; n = n->next) {
			struct link *l = (struct link *)n;

			if (!strcmp(l->peer.agent, agent) && !strcmp(l->peer.word, word))
				return l;
		}
	}
	return NULL;
}

static void on_last_word(struct unknown *u, const struct link_message *m)
{
	struct link_listen *s = u->listen;
	const char *agent = json_get_string(m->parameters, "agent", "");
	const char *word = json_get_string(m->parameters, "word", "");
	struct link *l = find_agent(s, agent, word);
	struct error err = { 0 };

	if (!l && (!s->expected || strcmp(agent, s->expected) || strcmp(word, s->expected_word))) {
		error_field(&err, -EPROTO, "parameters.word",
			"expected one that this head has given to the agent");
		refuse_unknown(u, &err);
		return;
	}
	link_channel_close(unknown_take_channel(u), "", 0, &s->closing);
	listen_arm(s);
	if (s->events->last_word)
		s->events->last_word(s->arg, l);
}

static void on_unknown_message(void *arg, const char *text, size_t len)
{
	struct unknown *u = arg;
	_cleanup_(link_message_fini) struct link_message m = { .message = NULL };
	struct error err = { 0 };

	if (link_message_read(u->listen->idl, text, len, &m, &err) < 0) {
		refuse_unknown(u, &err);
	} else if (u->listen->tls && link_channel_is_plain(u->channel) &&
		   strcmp(m.method, "LastWord") != 0) {
		link_channel_expects_tls(&err);
		refuse_unknown(u, &err);
	} else if (!strcmp(m.method, "Hello")) {
		on_hello(u, &m);
	} else if (!strcmp(m.method, "LastWord")) {
		on_last_word(u, &m);
	} else {
		error_field(
			&err, -EPROTO, "method", "expected Hello or LastWord, got %s", m.method);
		refuse_unknown(u, &err);
	}
}

static void on_unknown_ended(void *arg, const struct error *err)
{
	struct unknown *u = arg;
	struct link_listen *s = u->listen;

	if (err->code == -EPROTO) {
		refuse_unknown(u, err);
		return;
	}
	link_channel_free(unknown_take_channel(u));
	listen_arm(s);
}

static const struct link_channel_events unknown_events = {
	.message = on_unknown_message,
	.ended = on_unknown_ended,
};

static void on_timer(void *arg)
{
	struct link_listen *s = arg;
	struct unknown *u = TAILQ_FIRST(&s->unknown);
	uint64_t limit = s->n_unknown >= UNKNOWN_MAX ? UNKNOWN_LEAST_MS : UNKNOWN_MS;
	struct error err = { 0 };

	if (u && loop_now_ms() - u->since_ms >= limit) {
		error_field(
			&err, -ETIMEDOUT, "message", "expected a Hello within %d ms", (int)limit);
		refuse_channel(s, unknown_take_channel(u), &err);
	}
	listen_arm(s);
}

static int add_unknown(struct link_listen *s, int fd)
{
	struct unknown *u = calloc(1, sizeof(*u));
	int r;

	if (!u) {
		close_fd(fd);
		return -ENOMEM;
	}
	*u = (struct unknown){ .listen = s, .since_ms = loop_now_ms() };
	r = link_channel_new(s->loop, fd, LINK_HELLO_BYTES, &unknown_events, u, &u->channel);
	if (r == 0)
		r = link_channel_secure(u->channel, s->tls, NULL);
	if (r < 0) {
		link_channel_free(u->channel);
		free(u);
		return r;
	}
	TAILQ_INSERT_TAIL(&s->unknown, u, entry);
	s->n_unknown++;
	return 0;
}

static void on_connections(int fd, int events, void *arg)
{
	struct link_listen *s = arg;
	int r = 0;

	for (int i = 0; i < ACCEPTS_PER_TURN && s->n_unknown < UNKNOWN_MAX && r == 0; i++) {
		int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (peer < 0 && (errno == EINTR || errno == ECONNABORTED))
			continue;
		r = peer < 0 ? -errno : add_unknown(s, peer);
	}
	listen_arm(s);
	if (r < 0 && r != -EAGAIN) {
		log_debug("link: cannot accept a connection: %s", strerror(-r));
		(void)!loop_fd_set(s->watch, 0);
		loop_timer_arm(s->timer, REST_MS);
	}
}

void link_listen_close(struct link *l, struct link_channel *c, const char *text, size_t len)
{
	link_channel_close(c, text, len, l->listen ? &l->listen->closing : NULL);
}

void link_listen_forget(struct link *l)
{
	chain_remove(&l->listen->sessions, &l->node);
	l->listen = NULL;
}

int link_listen_new(struct loop *loop, const struct link_addresses *addresses,
	const struct link_listen_options *options, struct link_listen **ret, struct error *err)
{
	_cleanup_(link_listen_freep) struct link_listen *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	*s = (struct link_listen){ .loop = loop,
		.fd = -1,
		.lease_ms = options->lease_ms,
		.tls = options->tls,
		.events = options->listen,
		.arg = options->arg };
	TAILQ_INIT(&s->unknown);
	r = link_bind(addresses, &s->fd, err);
	if (r < 0)
		return r;
	r = link_identity_copy(&s->self, &options->self);
	if (r == 0)
		r = random_hex(s->head, LINK_SECRET_SIZE - 1);
	if (r == 0)
		r = link_message_interface(&s->idl);
	if (r == 0)
		r = loop_timer_new(loop, on_timer, s, &s->timer);
	if (r == 0)
		r = loop_fd_new(loop, s->fd, LOOP_READ, on_connections, s, &s->watch);
	if (r < 0)
		return error_set(err, r, "%s", strerror(-r));
	*ret = TAKE_PTR(s);
	return 0;
}

struct link_listen *link_listen_free(struct link_listen *s)
{
	if (!s)
		return NULL;
	while (!TAILQ_EMPTY(&s->unknown))
		link_channel_free(unknown_take_channel(TAILQ_FIRST(&s->unknown)));
	while (!LIST_EMPTY(&s->closing))
		link_channel_free(LIST_FIRST(&s->closing));
	loop_fd_free(s->watch);
	loop_timer_free(s->timer);
	close_fd(s->fd);
	chain_fini(&s->sessions);
	varlink_idl_free(s->idl);
	link_identity_fini(&s->self);
	free(s->expected);
	free(s->expected_word);
	free(s);
	return NULL;
}

int link_listen_expect(struct link_listen *s, const char *agent, const char *word)
{
	char *copies[] = { strdup(agent), strdup(word) };

	free(s->expected);
	free(s->expected_word);
	s->expected = copies[0];
	s->expected_word = copies[1];
	if (copies[0] && copies[1])
		return 0;
	free(s->expected);
	s->expected = NULL;
	return -ENOMEM;
}

void link_listen_address(const struct link_listen *s, char *text)
{
	struct sockaddr_storage a = { .ss_family = AF_UNSPEC };
	socklen_t len = sizeof(a);

	(void)!getsockname(s->fd, (struct sockaddr *)&a, &len);
	socket_address_text((struct sockaddr *)&a, len, text);
}
