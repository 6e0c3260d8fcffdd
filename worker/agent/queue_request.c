/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/queue_request.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/private_agent.h"
#include "worker/base/waiting.h"

#include "common/base/hash_chain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
	AWAY_MS = 60000, /* elasticd may be away for so long, which is enough to restart it */
	HELD_MS = 1000,	 /* a call that lasted for so long had an elasticd */
	PAUSE_MS = 20,
};

/* --- numbers of calls */

/* The number of a call of this thread, while a signal has ended that call. */
static _Thread_local struct {
	uint64_t key;	/* of the call's parameters */
	int64_t number; /* 0: there is none */
} numbered;

static uint64_t request_key(const struct params *a)
{
	return chain_hash(params_members(a), params_length(a)) ^ (uint64_t)getpid();
}

/* A call that goes on has the number that it had. */
static enum elasticd_status request_number(const struct params *a, int64_t *ret)
{
	uint64_t key = request_key(a), n;

	if (!numbered.number || numbered.key != key) {
		if (getrandom(&n, sizeof(n), 0) != (ssize_t)sizeof(n))
			return fail_random();
		numbered.key = key;
		numbered.number = n >> 1 ? (int64_t)(n >> 1) : 1;
	}
	*ret = numbered.number;
	return ELASTICD_STATUS_OK;
}

/* --- one try */

/* Takes a. The number and the time come last, so that the same call can be found when it is made
 * again with other ones. */
static enum elasticd_status request_once(struct elasticd *h, const struct queue_request *r,
	struct params *a, int64_t number, int timeout_ms, int *ret_lost)
{
	int limit = limit_ms(timeout_ms);
	struct wait wait = r->limit ? WAIT_CALL(limit) : WAIT_PROMPT;
	/* The agent refuses to wait for the caller's own task only where it knows no limit. */
	bool unknown = timeout_ms < -1 && thread_lease(h) >= 0;
	size_t len = params_length(a);

	if (number)
		params_int(a, "once", number);
	if (r->limit && limit >= 0 && !unknown)
		params_int(a, r->limit, limit);
	if (r->limit && unknown)
		wait = WAIT_STREAM(limit);
	if (r->limit) {
		wait.resumes = true;
		wait.beside = r->beside;
		wait.endless = h->by_hand && r->endless && timeout_ms < 0;
		wait.tail = params_length(a) - len + sizeof("}}");
	}
	wait.ret_lost = ret_lost;
	return r->reader ? call_read(h, r->method, a, wait, r->reader)
			 : call_make(h, r->method, a, wait, r->ret);
}

/* --- from outside: again and again */

/* How long a call is made again. */
struct patience {
	int64_t end;	  /* of the call; -1: never */
	int64_t away_end; /* how long elasticd may stay away; 0: it has not been away */
};

static bool request_again(
	const struct queue_request *r, struct patience *p, int lost, int64_t began)
{
	int64_t now = clock_ms();

	if (lost != CALL_UNSENT && !(lost == CALL_LOST && r->repeatable))
		return false;
	if (!p->away_end || (lost == CALL_LOST && now - began >= HELD_MS))
		p->away_end = now + AWAY_MS;
	return now < p->away_end && (p->end < 0 || now < p->end);
}

static enum elasticd_status request_outside(struct elasticd *h, const struct queue_request *r)
{
	struct patience p = { .end = r->limit ? clock_end(r->timeout_ms) : -1 };
	enum elasticd_status status = ELASTICD_STATUS_OK;
	int64_t number = 0, began;
	int lost, timeout_ms = r->timeout_ms;

	if (r->numbered)
		status = request_number(r->params, &number);
	while (!status) {
		struct params a = PARAMS_EMPTY;

		params_raw(&a, params_members(r->params), params_length(r->params));
		began = clock_ms();
		lost = 0;
		status = request_once(h, r, &a, number, timeout_ms, &lost);
		if (!request_again(r, &p, lost, began))
			break;
		status = call_pause(h, PAUSE_MS, r->limit != NULL);
		timeout_ms = clock_left_of_wait(p.end, r->timeout_ms);
	}
	if (r->numbered && status != ELASTICD_STATUS_INTERRUPTED)
		numbered.number = 0;
	return status;
}

/* --- by hand */

/* Where this thread is alone, no other thread could end the wait: so it fails unless it is over
 * already. (Where the thread has a task, the agent knows which calls wait for that.) */
static enum elasticd_status request_by_hand(struct elasticd *h, const struct queue_request *r)
{
	bool alone = r->endless && r->timeout_ms < 0 && thread_lease(h) < 0 && process_is_alone();
	enum elasticd_status status =
		request_once(h, r, r->params, 0, alone ? 0 : r->timeout_ms, NULL);

	return alone && status == ELASTICD_STATUS_DEADLINE_EXCEEDED ? fail_alone() : status;
}

enum elasticd_status queue_request(struct elasticd *h, const struct queue_request *r)
{
	enum elasticd_status status;

	if (h->by_hand)
		return request_by_hand(h, r);
	if (!h->outside)
		return request_once(h, r, r->params, 0, r->timeout_ms, NULL);
	status = r->params->text.failed ? fail_memory() : request_outside(h, r);
	params_fini(r->params);
	return status;
}

/* --- kinds of requests */

static const struct conn *keeper_conn(const struct elasticd_queue *q)
{
	return q->keeper ? q->keeper->conn : NULL;
}

enum elasticd_status queue_wait(struct elasticd_queue *q, const char *method, struct params *a,
	int timeout_ms, const struct answer_reader *reader)
{
	const struct queue_request r = {
		.method = method,
		.params = a,
		.limit = "timeout_ms",
		.timeout_ms = timeout_ms,
		.reader = reader,
		.beside = keeper_conn(q),
		.repeatable = true,
		.endless = true,
	};

	return queue_request(q->h, &r);
}

enum elasticd_status queue_wait_numbered(struct elasticd_queue *q, const char *method,
	struct params *a, const char *limit, int timeout_ms, const struct answer_reader *reader)
{
	const struct queue_request r = {
		.method = method,
		.params = a,
		.limit = limit,
		.timeout_ms = timeout_ms,
		.reader = reader,
		.beside = keeper_conn(q),
		.repeatable = true,
		.numbered = true,
		.endless = strcmp(limit, "wait_ms") != 0,
	};

	return queue_request(q->h, &r);
}

enum elasticd_status queue_prompt(
	struct elasticd *h, const char *method, struct params *a, bool repeatable, json_t **ret)
{
	const struct queue_request r = {
		.method = method, .params = a, .repeatable = repeatable, .ret = ret
	};

	return queue_request(h, &r);
}

/* --- parameters */

void params_job(struct params *a, const struct elasticd *h)
{
	if (h->outside)
		params_text(a, "job", h->identity.job);
}

void params_queue(struct params *a, const struct elasticd_queue *q)
{
	params_job(a, q->h);
	if (*q->name)
		params_text(a, "queue", q->name);
}

void params_tasks(struct params *a, const int64_t *tasks, size_t n)
{
	char text[24];

	params_name(a, "tasks");
	for (size_t i = 0; i < n; i++)
		params_raw(a, text,
			(size_t)snprintf(
				text, sizeof(text), "%c%" PRId64, i ? ',' : '[', tasks[i]));
	params_raw(a, n ? "]" : "[]", n ? 1 : 2);
}

void params_payload(struct params *a, const struct elasticd_queue_bytes *b)
{
	if (b)
		params_bytes(a, "payload", b->data ? b->data : "", b->len);
	if (*format_of(b))
		params_text(a, "format", b->format);
}

void params_lease(struct params *a, const struct elasticd *h, int timeout_ms)
{
	int64_t lease = timeout_ms < 0 ? thread_lease(h) : -1;

	if (lease >= 0)
		params_int(a, "lease", lease);
}
