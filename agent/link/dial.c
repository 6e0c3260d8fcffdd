/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The member's side. One try resolves the endpoint's name, connects to one address after the other
 * until one accepts, and exchanges Hello and Welcome. When a step fails, the next try begins a
 * little later.
 */
#include "agent/link/private.h"
#include "agent/link/resolve.h"
#include "common/base/log.h"
#include "common/base/random.h"
#include "common/base/socket_address.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
	RETRY_FIRST_MS = 50,
	RETRY_LONGEST_MS = 1000,
	CONNECT_MS = 3000,  /* for one address */
	WELCOME_MS = 10000, /* longer than a head waits for a Hello */
	REPORT_MS = 10000,  /* of failing, until the owner gets a report */
};

struct link_dial {
	struct link *link;
	struct varlink_idl *idl;
	const struct link_tls *tls; /* NULL: plain */
	struct endpoint endpoint;
	char name[ENDPOINT_TEXT_MAX];
	struct link_resolve *resolve;
	struct link_addresses addresses;
	size_t next;	/* of the addresses */
	bool connected; /* the last try made a connection */
	int fd;		/* being connected; -1: none */
	struct loop_fd *watch;
	struct loop_timer *retry, *no_answer, *report, *limit;
	uint64_t retry_ms, limit_ms, begun_ms;
	struct error last;	   /* why the last try failed */
	struct link_identity self; /* owned */
};

static void dial_next_address(struct link_dial *d);

static void dial_stop_try(struct link_dial *d)
{
	d->resolve = link_resolve_free(d->resolve);
	d->watch = loop_fd_free(d->watch);
	d->fd = close_fd(d->fd);
	loop_timer_disarm(d->no_answer);
	loop_timer_disarm(d->retry);
}

static void dial_try_later(struct link_dial *d)
{
	dial_stop_try(d);
	loop_timer_arm(d->retry, d->retry_ms);
	d->retry_ms = d->retry_ms * 2 < RETRY_LONGEST_MS ? d->retry_ms * 2 : RETRY_LONGEST_MS;
}

/* Keeps why the try failed, with the name of the endpoint. at: its address, or NULL. */
static void dial_note_failure(struct link_dial *d, int code, const char *at, const char *why)
{
	if (at && strcmp(at, d->name) != 0)
		error_field(&d->last, code, LINK_ENDPOINT_FIELD, "%s (%s): %s", d->name, at, why);
	else
		error_field(&d->last, code, LINK_ENDPOINT_FIELD, "%s: %s", d->name, why);
}

static void dial_note_address(struct link_dial *d, int code)
{
	const struct sockaddr *a = (const struct sockaddr *)&d->addresses.at[d->next - 1];
	char at[SOCKET_ADDRESS_MAX];

	socket_address_text(a, socket_address_len(a), at);
	dial_note_failure(d, -code, at, strerror(code));
}

static int put_hello(struct link *l, json_t *body)
{
	int r = link_identity_put(&l->dial->self, body);

	/* The first Welcome has named the run. */
	if (r == 0)
		r = json_put_string(body, "run", l->peer.run);
	if (r == 0)
		r = json_put_string(body, "session", l->session);
	if (r == 0)
		r = json_put_string(body, "head", l->peer.head);
	if (r == 0)
		r = json_put_int(body, "resume", l->window.seen);
	return r == 0 ? link_control(l, "Hello", -1, json_incref(body)) : r;
}

static int say_hello(struct link *l)
{
	json_t *body = json_object();
	int r = put_hello(l, body);

	json_decref(body);
	return r;
}

static void on_connected(struct link_dial *d)
{
	struct link *l = d->link;
	int r;

	d->watch = loop_fd_free(d->watch);
	d->connected = true;
	link_channel_tune(d->fd, l->lease_ms);
	r = link_channel_new(
		l->loop, TAKE_FD(d->fd), LINK_MESSAGE_BYTES, &link_channel_events, l, &l->channel);
	if (r == 0)
		r = link_channel_secure(l->channel, d->tls, d->endpoint.host);
	if (r == 0)
		r = say_hello(l);
	if (r < 0) {
		dial_note_failure(d, r, NULL, strerror(-r));
		l->channel = link_channel_free(l->channel);
		dial_try_later(d);
		return;
	}
	loop_timer_arm(d->no_answer, WELCOME_MS);
}

static void on_fd(int fd, int events, void *arg)
{
	struct link_dial *d = arg;
	int code = 0;
	socklen_t len = sizeof(code);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
		code = errno;
	if (!code) {
		on_connected(d);
		return;
	}
	dial_note_address(d, code);
	dial_next_address(d);
}

static int dial_connect(struct link_dial *d, const struct sockaddr *a)
{
	int r;

	d->fd = socket(a->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (d->fd < 0)
		return -errno;
	if (connect(d->fd, a, socket_address_len(a)) < 0 && errno != EINPROGRESS)
		return -errno;
	r = loop_fd_new(d->link->loop, d->fd, LOOP_WRITE, on_fd, d, &d->watch);
	if (r == 0)
		loop_timer_arm(d->no_answer, CONNECT_MS);
	return r;
}

static void dial_next_address(struct link_dial *d)
{
	while (d->next < d->addresses.n) {
		int r;

		d->watch = loop_fd_free(d->watch);
		d->fd = close_fd(d->fd);
		r = dial_connect(d, (const struct sockaddr *)&d->addresses.at[d->next++]);
		if (r == 0)
			return;
		dial_note_address(d, -r);
	}
	dial_try_later(d);
}

static void on_resolved(void *arg, const struct link_addresses *a, const struct error *err)
{
	struct link_dial *d = arg;

	if (err) {
		d->last = *err;
		d->addresses.n = 0;
		dial_try_later(d);
		return;
	}
	d->addresses = *a;
	d->next = 0;
	d->connected = false;
	d->resolve = link_resolve_free(d->resolve);
	dial_next_address(d);
}

static void on_retry(void *arg)
{
	struct link_dial *d = arg;
	int r = link_resolve_new(d->link->loop, &d->endpoint, on_resolved, d, &d->resolve);

	if (r == 0)
		return;
	dial_note_failure(d, r, NULL, strerror(-r));
	dial_try_later(d);
}

/* The address does not answer, or the head sends no Welcome. */
static void on_no_answer(void *arg)
{
	struct link_dial *d = arg;
	struct link *l = d->link;
	struct error err = { 0 };

	if (!l->channel) {
		dial_note_address(d, ETIMEDOUT);
		dial_next_address(d);
		return;
	}
	error_set(&err, -ETIMEDOUT, "it has accepted a connection but sent no Welcome");
	link_down(l, &err);
}

/* Names this host's addresses where the endpoint may be a wrong one. */
static void add_advice(const struct link_dial *d, struct error *err)
{
	char here[512];

	if (!d->addresses.n || d->next == 0 || d->connected ||
		socket_address_is_here((const struct sockaddr *)&d->addresses.at[0]))
		return;
	socket_address_list(here, sizeof(here));
	error_append(err, "; it is none of this host's addresses: %s", here);
}

static void on_report(void *arg)
{
	struct link_dial *d = arg;
	struct error err = d->last;

	add_advice(d, &err);
	error_append(&err, "; still trying, for %" PRIu64 " s in all", d->limit_ms / 1000);
	d->link->events->state(d->link->arg, LINK_WAITING, &err);
}

static void on_limit(void *arg)
{
	struct link_dial *d = arg;
	struct error err = d->last;

	add_advice(d, &err);
	error_append(&err, "; gave up after %" PRIu64 " ms", loop_now_ms() - d->begun_ms);
	err.code = -ETIMEDOUT;
	link_end(d->link, &err, false);
}

static void dial_begin(struct link_dial *d, uint64_t delay_ms)
{
	d->begun_ms = loop_now_ms();
	d->retry_ms = RETRY_FIRST_MS;
	dial_note_failure(d, -ETIMEDOUT, NULL, "it has not answered");
	if (d->limit_ms > REPORT_MS)
		loop_timer_arm(d->report, REPORT_MS);
	loop_timer_arm(d->limit, d->limit_ms);
	loop_timer_arm(d->retry, delay_ms);
}

void link_dial_lost(struct link *l, const struct error *why)
{
	struct link_dial *d = l->dial;

	if (!loop_timer_armed(d->limit)) {
		dial_begin(d, RETRY_FIRST_MS);
		return;
	}
	dial_note_failure(d, why->code, NULL, why->text);
	dial_try_later(d);
}

static int check_welcome(const struct link *l, const json_t *p, struct error *err)
{
	const struct link_dial *d = l->dial;
	const char *group = json_get_string(p, "group", ""), *head = json_get_string(p, "head", "");

	if (strcmp(group, d->self.group) != 0)
		return error_field(
			err, -EPROTO, "rendezvous.id", "expected %s, got %s", d->self.group, group);
	if (l->peer.head && strcmp(l->peer.head, head) != 0)
		return error_field(
			err, -EPROTO, "parameters.head", "expected %s, got %s", l->peer.head, head);
	return 0;
}

int link_dial_welcome(struct link *l, const struct link_message *m, struct error *err)
{
	struct link_dial *d = l->dial;
	int r;

	if (strcmp(m->method, "Welcome") != 0)
		return error_field(err, -EPROTO, "method", "expected Welcome, got %s", m->method);
	r = check_welcome(l, m->parameters, err);
	if (r == 0)
		r = link_window_resume(&l->window, json_get_int(m->parameters, "resume", 0), err);
	if (r < 0)
		return r;
	r = link_peer_set(l, m->parameters);
	if (r < 0)
		return error_set(err, r, "out of memory");
	l->lease_ms = l->peer.lease_ms;
	link_channel_tune(link_channel_fd(l->channel), l->lease_ms);
	dial_stop_try(d);
	loop_timer_disarm(d->report);
	loop_timer_disarm(d->limit);
	link_up(l);
	return 0;
}

void link_dial_refused(const struct link *l, struct error *err)
{
	error_prefix(err, LINK_ENDPOINT_FIELD ": %s refused this host", l->dial->name);
}

void link_dial_name(const struct link *l, struct error *err)
{
	if (err->code == -EPROTO)
		error_prefix(err, "%s", l->dial->name);
}

struct link_dial *link_dial_free(struct link_dial *d)
{
	if (!d)
		return NULL;
	if (d->retry && d->no_answer)
		dial_stop_try(d);
	loop_timer_free(d->retry);
	loop_timer_free(d->no_answer);
	loop_timer_free(d->report);
	loop_timer_free(d->limit);
	varlink_idl_free(d->idl);
	link_identity_fini(&d->self);
	free(d);
	return NULL;
}

static int dial_new(struct link *l, const struct link_options *o)
{
	struct link_dial *d = l->dial = calloc(1, sizeof(*d));
	int r;

	if (!d)
		return -ENOMEM;
	*d = (struct link_dial){ .link = l, .fd = -1, .tls = o->tls, .limit_ms = o->limit_ms };
	r = link_identity_copy(&d->self, &o->self);
	if (r == 0)
		r = loop_timer_new(l->loop, on_retry, d, &d->retry);
	if (r == 0)
		r = loop_timer_new(l->loop, on_no_answer, d, &d->no_answer);
	if (r == 0)
		r = loop_timer_new(l->loop, on_report, d, &d->report);
	if (r == 0)
		r = loop_timer_new(l->loop, on_limit, d, &d->limit);
	if (r == 0)
		r = link_message_interface(&d->idl);
	return r;
}

int link_connect(
	struct loop *loop, const struct link_options *options, struct link **ret, struct error *err)
{
	_cleanup_(link_freep) struct link *l = NULL;
	struct endpoint endpoint;
	char session[LINK_SECRET_SIZE];
	int r = endpoint_parse(options->endpoint, LINK_ENDPOINT_FIELD, &endpoint, err);

	if (r < 0)
		return r;
	r = link_new(loop, NULL, &l);
	if (r == 0)
		r = dial_new(l, options);
	if (r == 0)
		r = random_hex(session, LINK_SECRET_SIZE - 1);
	if (r == 0)
		l->session = strdup(session);
	if (r < 0 || !l->session)
		return error_set(err, -ENOMEM, "out of memory");
	l->idl = l->dial->idl;
	l->events = options->events;
	l->arg = options->arg;
	l->lease_ms = options->lease_ms;
	l->dial->endpoint = endpoint;
	endpoint_text(&endpoint, l->dial->name);
	dial_begin(l->dial, 0);
	*ret = TAKE_PTR(l);
	return 0;
}

ssize_t link_last_word(
	const struct link *l, char *text, size_t size, struct sockaddr_storage *ret_to)
{
	if (!l->channel || !l->dial || !l->peer.word)
		return 0;
	link_channel_peer_at(l->channel, ret_to);
	return link_last_word_text(
		l->dial->self.group, l->dial->self.agent, l->peer.word, text, size);
}
