/* SPDX-License-Identifier: Apache-2.0 */
/* Calls by hand. One that a signal has ended is still under way until its thread makes it again. */
#include "worker/local_queue.h"

#include <errno.h>
#include <string.h>

enum { HALTED_MAX = 64 }; /* the first of more is given up */

struct call {
	TAILQ_ENTRY(call) entry;
	struct local_ask ask;
	struct elasticd *h;
	pthread_t thread;
	/* What it is known by. */
	size_t n;
	int answer_timeout_ms;
	size_t len;
	char format[QUEUE_FORMAT_MAX + 1];
	char payload[];
};
static TAILQ_HEAD(, call) calls = TAILQ_HEAD_INITIALIZER(calls);
static int n_halted;

static bool is_ours(const struct call *c, const struct elasticd *h)
{
	return c->h == h && c->ask.halted && pthread_equal(c->thread, pthread_self());
}

/* The call that this thread makes again, if it is one. */
static struct call *call_find(
	struct elasticd *h, size_t n, const struct queue_bytes *b, int answer_timeout_ms)
{
	struct call *c;

	TAILQ_FOREACH (c, &calls, entry)
		if (is_ours(c, h) && c->n == n && c->answer_timeout_ms == answer_timeout_ms &&
			c->len == b->len && memcmp(c->payload, b->data, b->len) == 0 &&
			strcmp(c->format, b->format) == 0)
			return c;
	return NULL;
}

static struct call *call_new(
	struct elasticd *h, size_t n, const struct queue_bytes *b, int answer_timeout_ms)
{
	struct call *c = calloc(1, sizeof(*c) + b->len);

	if (!c)
		return NULL;
	c->h = h;
	c->thread = pthread_self();
	c->n = n;
	c->answer_timeout_ms = answer_timeout_ms;
	c->len = b->len;
	text_cut(c->format, sizeof(c->format), b->format);
	memcpy(c->payload, b->data, b->len);
	TAILQ_INSERT_TAIL(&calls, c, entry);
	return c;
}

static void call_drop(struct queues *m, struct call *c)
{
	n_halted -= c->ask.halted;
	local_ask_end(m, &c->ask);
	TAILQ_REMOVE(&calls, c, entry);
	free(c);
}

static void call_halt(struct queues *m, struct call *c)
{
	struct call *first;

	local_ask_halt(&c->ask);
	if (++n_halted <= HALTED_MAX)
		return;
	TAILQ_FOREACH (first, &calls, entry)
		if (first->ask.halted)
			break;
	call_drop(m, first);
}

void local_calls_drop(const struct elasticd *h, bool all)
{
	struct call *c = TAILQ_FIRST(&calls), *next;

	for (; c; c = next) {
		next = TAILQ_NEXT(c, entry);
		if (all ? c->h == h : is_ours(c, h))
			call_drop(local_machine(), c);
	}
}

void local_calls_in_child(void)
{
	struct call *c;

	while ((c = TAILQ_FIRST(&calls))) {
		TAILQ_REMOVE(&calls, c, entry);
		free(c);
	}
	n_halted = 0;
}

static int answer_copy_of(const struct queue_answer *from, struct elasticd_answer *to)
{
	const struct queue_bytes none = { "", 0, "" };
	int r = local_error_copy(
		from->ok ? NULL : &from->error, &to->code, &to->message, &to->details);

	to->worker = strdup(LOCAL_WORKER);
	if (r == 0)
		r = local_bytes_copy(
			from->ok ? &from->value : &none, &to->value, &to->len, &to->format);
	return to->worker ? r : -ENOMEM;
}

/* With the lock. */
static int answers_copy(const struct queue_call *c, struct elasticd_answer **ret, size_t *ret_n)
{
	struct elasticd_answer *list = NULL;
	struct queue_answer one;
	size_t n = 0, room = 0;
	int r = list_grow((void **)&list, &room, 1, sizeof(*list));

	for (; r == 0 && queue_answer(c, n, &one); n++) {
		r = list_grow((void **)&list, &room, n + 1, sizeof(*list));
		if (r < 0)
			break;
		list[n] = (struct elasticd_answer){ .code = 0 };
		r = answer_copy_of(&one, &list[n]);
	}
	if (r < 0) {
		elasticd_answers_free(list, n);
		return fail_memory();
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

/* Begins it, or goes on with what a signal has ended. With the lock. */
static struct call *call_begin(struct queues *m, struct elasticd *h, size_t n,
	const struct queue_bytes *b, int timeout_ms, int answer_timeout_ms, bool *ret_over)
{
	const uint64_t answer_ms =
		answer_timeout_ms < 0 ? LOCAL_ANSWER_MS : (uint64_t)answer_timeout_ms;
	const int limit_ms = timeout_ms < 0 ? LOCAL_CALL_MS : timeout_ms, self = 0;
	struct call *c = call_find(h, n, b, answer_timeout_ms);

	*ret_over = false;
	if (c) {
		n_halted--;
		local_ask_resume(&c->ask, h);
		return c;
	}
	c = call_new(h, n, b, answer_timeout_ms);
	if (!c)
		return NULL;
	local_ask_begin(&c->ask, h);
	*ret_over = queue_call(m, &c->ask.w, &self, n ? 1 : 0, b, local_deadline(limit_ms),
		answer_ms, local_now());
	return c;
}

int local_call(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_answer **ret, size_t *ret_n)
{
	const struct queue_bytes b = local_bytes(payload);
	struct queues *m;
	struct call *c;
	bool over;
	int r;

	for (size_t i = 0; i < n; i++)
		if (strcmp(workers[i], LOCAL_WORKER) != 0)
			return fail(ELASTICD_NOT_FOUND, "workers: %.256s is no task of this group",
				workers[i]);
	r = local_queue_enter(h, &m);
	if (r)
		return r;
	c = call_begin(m, h, n, &b, timeout_ms, answer_timeout_ms, &over);
	r = c ? local_ask_wait(m, &c->ask, over, timeout_ms, NULL) : fail_memory();
	if (r == 0)
		r = answers_copy(c->ask.w.answers, ret, ret_n);
	if (r == ELASTICD_INTERRUPTED)
		call_halt(m, c);
	else if (c)
		call_drop(m, c);
	local_unlock();
	return r;
}
