/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a coordinator asks. From outside of the job it does so through elasticd, which may be away
 * for a while, to be started again, and may end amid a call. Such a call is made again, as long as
 * its time lasts, where that does no harm: because it has not been sent, because made twice it is
 * as made once, or because the agent knows it by a number (`once`).
 */
#include "worker/agent/queue_calls.h"
#include "worker/base/private_agent.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
	AWAY_MS = 60000, /* elasticd may be, as long as it takes to start it */
	HELD_MS = 1000,	 /* so long a call lasts only where it was there */
	PAUSE_MS = 20,
};

/* A call of this thread that has a number, while a signal has ended it. */
static _Thread_local struct {
	uint64_t key;
	int64_t number; /* 0: there is none */
} numbered;

static uint64_t key_of(const struct args *a)
{
	uint64_t key = UINT64_C(14695981039346656037) ^ (uint64_t)getpid();

	const char *text = args_members(a);

	for (size_t i = 0; i < args_length(a); i++)
		key = (key ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
	return key;
}

/* What goes on has the number that it had. A status. */
static int number_of(const struct asking *k, int64_t *ret)
{
	uint64_t key = key_of(k->a), n;

	if (!numbered.number || numbered.key != key) {
		if (getrandom(&n, sizeof(n), 0) != (ssize_t)sizeof(n))
			return fail(ELASTICD_INTERNAL, "no random number: %s", strerror(errno));
		numbered.key = key;
		numbered.number = n >> 1 ? (int64_t)(n >> 1) : 1;
	}
	*ret = numbered.number;
	return 0;
}

/* --- one try */

/* Takes a. */
static int take_answer(struct elasticd *h, const struct asking *k, struct args *a, struct wait wait)
{
	_cleanup_json_ json_t *answer = NULL;
	_cleanup_free_ char *text = NULL;
	const struct taker taker = { taking_take, k->t };
	int r;

	if (!k->t)
		return remote_call(h, k->method, a, wait, k->ret);
	r = remote_ask(h, k->method, a, wait, &taker, &answer);
	if (r || !answer)
		return r;
	memset(k->t->to, 0, k->t->size);
	r = taking_again(answer, k->t, &text);
	return r == -ENOMEM ? fail_memory()
	       : r < 0	    ? fail(ELASTICD_INTERNAL, "the agent's answer is not understood")
			    : 0;
}

/* Takes a. The number and the time come last: made again with others, it is the same call. */
static int ask_once(struct elasticd *h, const struct asking *k, struct args *a, int64_t number,
	int timeout_ms, int *ret_lost)
{
	struct wait wait = k->limit ? WAIT_CALL(timeout_ms) : WAIT_PROMPT;
	size_t len = args_length(a);

	if (number)
		args_int(a, "once", number);
	if (k->limit && timeout_ms >= 0)
		args_int(a, k->limit, timeout_ms);
	if (k->limit) {
		wait.resumes = true;
		wait.beside = k->beside;
		wait.endless = h->alone && k->endless && timeout_ms < 0;
		wait.tail = args_length(a) - len + sizeof("}}");
	}
	wait.ret_lost = ret_lost;
	return take_answer(h, k, a, wait);
}

/* --- several */

/* How long elasticd may be away: since it was there last. */
struct patience {
	int64_t end;	  /* of the call; -1: never */
	int64_t away_end; /* 0: it has not been away */
};

static bool is_worth_another(const struct asking *k, struct patience *p, int lost, int64_t began)
{
	int64_t now = clock_ms();

	if (lost != CALL_UNSENT && !(lost == CALL_LOST && k->repeats))
		return false;
	if (!p->away_end || (lost == CALL_LOST && now - began >= HELD_MS))
		p->away_end = now + AWAY_MS;
	return now < p->away_end && (p->end < 0 || now < p->end);
}

static int ask_outside(struct elasticd *h, const struct asking *k)
{
	struct patience p = { .end = k->limit ? clock_end(k->timeout_ms) : -1 };
	int64_t number = 0, began;
	int r = 0, lost, timeout_ms = k->timeout_ms;

	if (k->once)
		r = number_of(k, &number);
	while (r == 0) {
		struct args a = ARGS_EMPTY;

		args_raw(&a, args_members(k->a), args_length(k->a));
		began = clock_ms();
		lost = 0;
		r = ask_once(h, k, &a, number, timeout_ms, &lost);
		if (!is_worth_another(k, &p, lost, began))
			break;
		r = remote_pause(h, PAUSE_MS, k->limit != NULL);
		timeout_ms = clock_left(p.end, k->timeout_ms);
	}
	if (k->once && r != ELASTICD_INTERRUPTED)
		numbered.number = 0;
	return r;
}

/* Nobody can end a wait where there is nobody else: then it is to be over already. */
static int ask_alone(struct elasticd *h, const struct asking *k)
{
	/* Of one who has a task the agent knows what waits for it. */
	bool single = k->endless && k->timeout_ms < 0 && work_lease(h) < 0 && alone_single();
	int r = ask_once(h, k, k->a, 0, single ? 0 : k->timeout_ms, NULL);

	return single && r == ELASTICD_DEADLINE_EXCEEDED ? fail_single() : r;
}

int remote_asking(struct elasticd *h, const struct asking *k)
{
	int r;

	if (h->alone)
		return ask_alone(h, k);
	if (!h->control)
		return ask_once(h, k, k->a, 0, k->timeout_ms, NULL);
	r = k->a->text.failed ? fail_memory() : ask_outside(h, k);
	args_fini(k->a);
	return r;
}
