/* SPDX-License-Identifier: Apache-2.0 */
#include "common/etcd/private.h"

#include <errno.h>
#include <string.h>

enum kind { TXN, GRANT, KEEP_ALIVE, REVOKE, STATUS };

static const struct {
	const char *path;
	bool write, once;
} kinds[] = {
	[TXN] = { "/v3/kv/txn", true, true },
	[GRANT] = { "/v3/lease/grant", true, true },
	[KEEP_ALIVE] = { "/v3/lease/keepalive", false, false },
	[REVOKE] = { "/v3/lease/revoke", true, false },
	[STATUS] = { "/v3/maintenance/status", false, false },
};

struct etcd_call {
	TAILQ_ENTRY(etcd_call) entry, write_entry;
	struct etcd *owner;
	enum kind kind;
	bool write; /* in the list of writes */
	bool once;  /* not sent again where etcd may have carried it out */
	bool maybe; /* as in the answer */
	struct json_writer body;
	struct etcd_shape shape;
	int64_t *leases;
	size_t n_leases;
	struct etcd_request *request; /* NULL: not under way */
	struct loop_timer *timer;
	uint64_t began_ms;
	int64_t limit_ms;
	size_t tries;
	enum status failed; /* not OK: the timer reports it */
	char text[1024];    /* the failures of all tries */
	etcd_fn fn;
	void *arg;
};

static void call_on_done(void *arg, const struct etcd_failure *failure);

static const struct etcd_wire_events call_events = { .done = call_on_done };

static int64_t call_left_ms(const struct etcd_call *c)
{
	return c->limit_ms - (int64_t)(loop_now_ms() - c->began_ms);
}

static int call_send(struct etcd_call *c)
{
	bool last = c->tries + 1 >= c->owner->n;
	int64_t half = call_left_ms(c) / 2;
	struct etcd_question q = {
		.path = kinds[c->kind].path,
		.body = c->body.data,
		.len = c->body.len,
		.once = c->once,
		.has_leader = c->kind != STATUS,
		.events = call_events,
		.arg = c,
	};

	/* The other half of the time is for other endpoints; c->timer limits the whole. */
	half = half > 1 ? half : 1;
	q.connect_ms = last ? 0 : half;
	q.limit_ms = last || c->once ? 0 : half;
	return etcd_request_new(c->owner, &q, &c->request);
}

static void call_fail_later(struct etcd_call *c, enum status status)
{
	c->failed = status;
	loop_timer_arm(c->timer, 0);
}

static void writes_send_next(struct etcd *e)
{
	struct etcd_call *c = TAILQ_FIRST(&e->writes);

	if (!c || c->request || c->failed || call_send(c) == 0)
		return;
	snprintf(c->text, sizeof(c->text), "out of memory");
	call_fail_later(c, STATUS_INTERNAL);
}

/* Takes the call out of its client. */
static void call_detach(struct etcd_call *c)
{
	c->request = etcd_request_free(c->request);
	c->timer = loop_timer_free(c->timer);
	if (!c->owner)
		return;
	TAILQ_REMOVE(&c->owner->calls, c, entry);
	if (c->write)
		TAILQ_REMOVE(&c->owner->writes, c, write_entry);
	c->owner = NULL;
}

static struct etcd_call *call_free(struct etcd_call *c)
{
	if (!c)
		return NULL;
	call_detach(c);
	json_writer_fini(&c->body);
	free(c->leases);
	free(c);
	return NULL;
}
DEFINE_CLEANUP(struct etcd_call *, call_free)

static void call_answer(struct etcd_call *c, const struct etcd_answer *answer)
{
	struct etcd *e = c->owner;

	call_detach(c);
	writes_send_next(e);
	c->fn(c->arg, answer);
	call_free(c);
}

static void call_fail(struct etcd_call *c, enum status status)
{
	struct etcd_answer answer = {
		.status = status, .text = c->text, .maybe = c->write && c->maybe
	};

	call_answer(c, &answer);
}

static void call_note(struct etcd_call *c, const struct etcd_endpoint *at, const char *text)
{
	size_t n = strlen(c->text);

	snprintf(c->text + n, sizeof(c->text) - n, "%s%s: %s", n ? "; " : "", at->name, text);
}

static void call_on_timer(void *arg)
{
	struct etcd_call *c = arg;
	struct etcd *e = c->owner;
	char text[64];
	size_t endpoint;

	if (c->failed) {
		call_fail(c, c->failed);
		return;
	}
	snprintf(text, sizeof(text), "no answer within %lld ms", (long long)c->limit_ms);
	if (c->request) {
		endpoint = etcd_request_endpoint(c->request);
		c->maybe |= etcd_request_sent(c->request, NULL);
		call_note(c, &e->endpoints[endpoint], text);
		etcd_leave(e, endpoint);
	} else {
		snprintf(c->text, sizeof(c->text),
			"not sent within %lld ms: earlier writes were not answered",
			(long long)c->limit_ms);
	}
	call_fail(c, STATUS_DEADLINE_EXCEEDED);
}

static void call_failed(struct etcd_call *c, const struct etcd_failure *f)
{
	struct etcd *e = c->owner;
	size_t endpoint = etcd_request_endpoint(c->request);

	call_note(c, &e->endpoints[endpoint], f->text);
	c->maybe |= !f->certain;
	c->request = etcd_request_free(c->request);
	if (f->elsewhere)
		etcd_leave(e, endpoint);
	c->tries++;
	if (!f->elsewhere || (c->once && !f->certain) || c->tries >= e->n) {
		call_fail(c, f->status);
	} else if (call_left_ms(c) <= 0) {
		call_fail(c, STATUS_DEADLINE_EXCEEDED);
	} else if (call_send(c) < 0) {
		snprintf(c->text, sizeof(c->text), "out of memory");
		call_fail(c, STATUS_INTERNAL);
	}
}

static int call_decode(struct etcd_call *c, const char *body, size_t len, struct etcd_decoded *ret)
{
	switch (c->kind) {
	case TXN:
		return etcd_decode_txn(body, len, &c->shape, ret);
	case GRANT:
		return etcd_decode_grant(body, len, ret);
	case KEEP_ALIVE:
		return etcd_decode_keep_alive(body, len, c->leases, c->n_leases, ret);
	case REVOKE:
		return etcd_decode_revoke(body, len, ret);
	case STATUS:
		break;
	}
	return etcd_decode_status(body, len, ret);
}

static void call_answered(struct etcd_call *c)
{
	_cleanup_(etcd_decoded_fini) struct etcd_decoded d = { 0 };
	struct etcd *e = c->owner;
	struct etcd_failure f;
	const char *body;
	size_t len;
	int r;

	body = etcd_request_body(c->request, &len);
	r = call_decode(c, body, len, &d);
	if (r < 0) {
		if (r == -EREMOTEIO)
			etcd_failure_of_refusal(&d.change.refusal, e->user, &f);
		else
			etcd_failure_of_decoder(r, &f);
		call_failed(c, &f);
		return;
	}
	e->cluster = d.answer.cluster;
	e->took_ms = (int64_t)(loop_now_ms() - c->began_ms);
	etcd_request_sent(c->request, &d.answer.sent_ms);
	d.answer.text = "";
	call_answer(c, &d.answer);
}

static void call_on_done(void *arg, const struct etcd_failure *failure)
{
	struct etcd_call *c = arg;
	struct etcd_answer gone = { .text = "" };

	if (!failure)
		call_answered(c);
	else if (c->kind == REVOKE && failure->status == STATUS_NOT_FOUND)
		call_answer(c, &gone);
	else
		call_failed(c, failure);
}

/* --- Calls --- */

static int call_new(struct etcd *e, enum kind kind, int64_t limit_ms, etcd_fn fn, void *arg,
	struct etcd_call **ret)
{
	struct etcd_call *c;

	if (limit_ms < 1)
		return -EINVAL;
	c = calloc(1, sizeof(*c));
	if (!c || loop_timer_new(e->loop, call_on_timer, c, &c->timer) < 0) {
		free(c);
		return -ENOMEM;
	}
	c->kind = kind;
	c->write = kinds[kind].write;
	c->once = kinds[kind].once;
	c->limit_ms = limit_ms;
	c->fn = fn;
	c->arg = arg;
	*ret = c;
	return 0;
}

/* Takes c, whose body is written. */
static int call_start(struct etcd *e, struct etcd_call *c, struct etcd_call **ret)
{
	int r = c->body.failed ? -ENOMEM : 0;

	c->owner = e;
	c->began_ms = loop_now_ms();
	TAILQ_INSERT_TAIL(&e->calls, c, entry);
	if (c->write)
		TAILQ_INSERT_TAIL(&e->writes, c, write_entry);
	if (!r && (!c->write || TAILQ_FIRST(&e->writes) == c))
		r = call_send(c);
	if (r < 0) {
		call_free(c);
		return r;
	}
	loop_timer_arm(c->timer, (uint64_t)c->limit_ms);
	if (ret)
		*ret = c;
	return 0;
}

int etcd_txn(struct etcd *e, const struct etcd_txn *t, int64_t limit_ms, etcd_fn fn, void *arg,
	struct etcd_call **ret)
{
	_cleanup_(call_freep) struct etcd_call *c = NULL;
	bool write = false;
	int r = call_new(e, TXN, limit_ms, fn, arg, &c);

	if (!r)
		r = etcd_encode_txn(&c->body, t, &c->shape);
	if (r < 0)
		return r;
	for (size_t i = 0; i < c->shape.n_then + c->shape.n_else; i++)
		write |= c->shape.kinds[i] != ETCD_GET;
	c->write = c->once = write;
	return call_start(e, TAKE_PTR(c), ret);
}

int etcd_grant(struct etcd *e, int64_t ttl_s, int64_t limit_ms, etcd_fn fn, void *arg,
	struct etcd_call **ret)
{
	struct etcd_call *c;
	int r = ttl_s < 1 ? -EINVAL : call_new(e, GRANT, limit_ms, fn, arg, &c);

	if (r < 0)
		return r;
	etcd_encode_grant(&c->body, ttl_s);
	return call_start(e, c, ret);
}

int etcd_keep_alive(struct etcd *e, const int64_t *leases, size_t n, int64_t limit_ms, etcd_fn fn,
	void *arg, struct etcd_call **ret)
{
	_cleanup_(call_freep) struct etcd_call *c = NULL;
	int r = call_new(e, KEEP_ALIVE, limit_ms, fn, arg, &c);

	if (!r)
		r = etcd_encode_keep_alive(&c->body, leases, n);
	if (r < 0)
		return r;
	c->leases = calloc(n, sizeof(*leases));
	if (!c->leases)
		return -ENOMEM;
	memcpy(c->leases, leases, n * sizeof(*leases));
	c->n_leases = n;
	return call_start(e, TAKE_PTR(c), ret);
}

int etcd_revoke(struct etcd *e, int64_t lease, int64_t limit_ms, etcd_fn fn, void *arg,
	struct etcd_call **ret)
{
	struct etcd_call *c;
	int r = lease < 1 ? -EINVAL : call_new(e, REVOKE, limit_ms, fn, arg, &c);

	if (r < 0)
		return r;
	etcd_encode_revoke(&c->body, lease);
	return call_start(e, c, ret);
}

int etcd_status(struct etcd *e, int64_t limit_ms, etcd_fn fn, void *arg, struct etcd_call **ret)
{
	struct etcd_call *c;
	int r = call_new(e, STATUS, limit_ms, fn, arg, &c);

	if (r < 0)
		return r;
	json_write(&c->body, "{}", 2);
	return call_start(e, c, ret);
}

struct etcd_call *etcd_cancel(struct etcd_call *c)
{
	struct etcd *e;

	if (!c)
		return NULL;
	e = c->owner;
	call_free(c);
	writes_send_next(e);
	return NULL;
}

void etcd_calls_fini(struct etcd *e)
{
	struct etcd_call *c;

	while ((c = TAILQ_FIRST(&e->calls)))
		call_free(c);
}
