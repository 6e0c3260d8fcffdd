/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/private.h"

#include <errno.h>
#include <string.h>

/*
 * A request sends its question. With a user it first gets a token (LOGIN), and another one where
 * etcd no longer accepts that. Where there is no gateway, it asks for the server's version, to say
 * why (VERSION_QUERY).
 */
enum phase { LOGIN, QUESTION, VERSION_QUERY };

enum { LOGINS_MAX = 2 };

struct etcd_request {
	struct etcd *owner;
	struct etcd_question q;
	struct etcd_exchange *exchange;
	enum phase phase;
	size_t endpoint;
	unsigned token_serial;
	int logins;
};

static void request_on_done(void *arg, const struct etcd_failure *failure);
static void request_on_more(void *arg);

static const struct etcd_wire_events request_whole = { .done = request_on_done };
static const struct etcd_wire_events request_stream = { .done = request_on_done,
	.more = request_on_more };

static void request_end(struct etcd_request *r, const struct etcd_failure *failure)
{
	r->q.events.done(r->q.arg, failure);
}

static void phase_request(const struct etcd_request *r, struct etcd_wire_request *w)
{
	const struct etcd *e = r->owner;

	switch (r->phase) {
	case LOGIN:
		w->body = e->login.data;
		w->len = e->login.len;
		w->has_leader = true;
		break;
	case QUESTION:
		w->body = r->q.body;
		w->len = r->q.len;
		w->once = r->q.once;
		w->has_leader = r->q.has_leader;
		w->token = e->token;
		break;
	case VERSION_QUERY:
		break;
	}
}

static int request_send(struct etcd_request *r)
{
	static const char *const paths[] = {
		[LOGIN] = "/v3/auth/authenticate", [VERSION_QUERY] = "/version"
	};
	const struct etcd_endpoint *at = &r->owner->endpoints[r->endpoint];
	char url[ENDPOINT_TEXT_MAX + 64];
	struct etcd_wire_request w = { .url = url,
		.known = at->known,
		.limit_ms = r->q.limit_ms,
		.connect_ms = r->q.connect_ms };

	/* The limits are for each phase: the caller has a timer for all of them together. */
	snprintf(url, sizeof(url), "%s://%s%s", at->tls ? "https" : "http", at->name,
		r->phase == QUESTION ? r->q.path : paths[r->phase]);
	phase_request(r, &w);
	r->token_serial = r->owner->token_serial;
	r->exchange = etcd_exchange_free(r->exchange);
	return etcd_exchange_new(r->owner->wire, &w,
		r->phase == QUESTION && r->q.events.more ? &request_stream : &request_whole, r,
		&r->exchange);
}

static int request_begin(struct etcd_request *r)
{
	const struct etcd *e = r->owner;

	bool user = e->user && !e->token && !e->no_users;

	/* Without a leader, a member answers some questions but gives no token. */
	r->phase = user && (r->q.has_leader || r->logins) ? LOGIN : QUESTION;
	return request_send(r);
}

/* Begins the next phase. The question was not sent yet, or etcd refused it. */
static void request_go_on(struct etcd_request *r, int (*go)(struct etcd_request *r))
{
	struct etcd_failure f;

	if (go(r) == 0)
		return;
	etcd_failure_of_decoder(-ENOMEM, &f);
	f.certain = true;
	request_end(r, &f);
}

static void request_take_token(struct etcd_request *r, const char *body, size_t len)
{
	_cleanup_(etcd_decoded_fini) struct etcd_decoded d = { 0 };
	struct etcd_failure f;
	int code = etcd_decode_user(body, len, &d);

	if (code < 0) {
		etcd_failure_of_decoder(code, &f);
		f.certain = true;
		request_end(r, &f);
		return;
	}
	free(r->owner->token);
	r->owner->token = TAKE_PTR(d.token);
	r->owner->token_serial++;
	request_go_on(r, request_begin);
}

static void request_refused(struct etcd_request *r, int status, const char *body, size_t len)
{
	struct etcd *e = r->owner;
	struct etcd_failure f;

	etcd_failure_of_answer(status, body, len, e->user, &f);
	if (r->phase == LOGIN && f.no_users) {
		e->no_users = true;
		request_go_on(r, request_begin);
	} else if (r->phase == LOGIN) {
		f.certain = true;
		request_end(r, &f);
	} else if (f.no_gateway) {
		r->phase = VERSION_QUERY;
		request_go_on(r, request_send);
	} else if (f.user && e->user && r->logins < LOGINS_MAX) {
		r->logins++;
		etcd_forget_token(e, r->token_serial);
		request_go_on(r, request_begin);
	} else {
		request_end(r, &f);
	}
}

static void request_on_done(void *arg, const struct etcd_failure *failure)
{
	struct etcd_request *r = arg;
	struct etcd_endpoint *at = &r->owner->endpoints[r->endpoint];
	char version[ETCD_VERSION_MAX];
	struct etcd_failure f;
	const char *body;
	size_t len;
	int status;

	if (failure && r->phase != VERSION_QUERY) {
		f = *failure;
		f.certain |= r->phase == LOGIN;
		request_end(r, &f);
		return;
	}
	status = failure ? 0 : etcd_exchange_status(r->exchange);
	body = etcd_exchange_body(r->exchange, &len);
	at->known |= status == 200;
	if (r->phase == VERSION_QUERY) {
		etcd_decode_version(body, status == 200 ? len : 0, version);
		etcd_failure_of_version(version, &f);
		request_end(r, &f);
	} else if (status != 200) {
		request_refused(r, status, body, len);
	} else if (r->phase == LOGIN) {
		request_take_token(r, body, len);
	} else {
		request_end(r, NULL);
	}
}

static void request_on_more(void *arg)
{
	struct etcd_request *r = arg;

	r->q.events.more(r->q.arg);
}

int etcd_request_new(struct etcd *e, const struct etcd_question *q, struct etcd_request **ret)
{
	struct etcd_request *r = calloc(1, sizeof(*r));
	int code;

	if (!r)
		return -ENOMEM;
	r->owner = e;
	r->q = *q;
	r->endpoint = e->at;
	code = request_begin(r);
	if (code < 0) {
		etcd_request_free(r);
		return code;
	}
	*ret = r;
	return 0;
}

struct etcd_request *etcd_request_free(struct etcd_request *r)
{
	if (!r)
		return NULL;
	etcd_exchange_free(r->exchange);
	free(r);
	return NULL;
}

bool etcd_request_sent(const struct etcd_request *r, uint64_t *ret_ms)
{
	return r->phase == QUESTION && r->exchange && etcd_exchange_sent(r->exchange, ret_ms);
}

const char *etcd_request_body(const struct etcd_request *r, size_t *ret_len)
{
	return etcd_exchange_body(r->exchange, ret_len);
}

void etcd_request_consume(struct etcd_request *r, size_t n)
{
	etcd_exchange_consume(r->exchange, n);
}

size_t etcd_request_endpoint(const struct etcd_request *r)
{
	return r->endpoint;
}

unsigned etcd_request_token(const struct etcd_request *r)
{
	return r->token_serial;
}
