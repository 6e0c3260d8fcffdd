/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's side of the work queue: checks, and asks the side behind it. */
#include "worker/base/queue_handle.h"

#include "common/text/duration.h"

#include <errno.h>
#include <string.h>

enum { TASK_NEEDS_MAX = QUEUE_NEEDS_MAX, CANCEL_REASON_MAX = QUEUE_TEXT_MAX };

/* --- checks */

static int check_name(const char *what, const char *name, bool empty)
{
	static const char chars[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
				    "_.-";
	size_t len = name ? strlen(name) : 0;

	if (!name)
		return fail(ELASTICD_INVALID_ARGUMENT, "%s: expected a name, got NULL", what);
	if (len > QUEUE_NAME_MAX || (!len && !empty) || strspn(name, chars) != len)
		return fail(ELASTICD_INVALID_ARGUMENT,
			"%s: expected %d to %d of A-Z a-z 0-9 _ . -, got \"%.70s\"", what, !empty,
			QUEUE_NAME_MAX, name);
	return 0;
}

int check_bytes(const char *what, const struct elasticd_bytes *b)
{
	if (!b)
		return 0;
	if (!b->data && b->len)
		return fail(ELASTICD_INVALID_ARGUMENT, "%s: expected %zu bytes, got NULL", what,
			b->len);
	if (b->len > QUEUE_VALUE_MAX)
		return fail(ELASTICD_INVALID_ARGUMENT, "%s: expected at most %d bytes, got %zu",
			what, QUEUE_VALUE_MAX, b->len);
	return b->format ? check_text("format", b->format, QUEUE_FORMAT_MAX) : 0;
}

static int check_numbers(const int64_t *tasks, size_t n)
{
	if (n && !tasks)
		return fail(ELASTICD_INVALID_ARGUMENT, "tasks: expected %zu numbers, got NULL", n);
	for (size_t i = 0; i < n; i++)
		if (tasks[i] < 0 || tasks[i] > QUEUE_TASK_MAX)
			return fail(ELASTICD_INVALID_ARGUMENT,
				"tasks: expected 0 to %lld, got %lld", (long long)QUEUE_TASK_MAX,
				(long long)tasks[i]);
	return 0;
}

static int check_task(const struct elasticd_new_task *t)
{
	int r = check_bytes("payload", &t->payload);

	if (!r && t->n_resources > TASK_NEEDS_MAX)
		r = fail(ELASTICD_INVALID_ARGUMENT, "resources: expected at most %d, got %zu",
			TASK_NEEDS_MAX, t->n_resources);
	if (!r && t->n_resources && !t->resources)
		r = fail(ELASTICD_INVALID_ARGUMENT, "resources: expected %zu names, got NULL",
			t->n_resources);
	for (size_t i = 0; i < t->n_resources && !r; i++)
		r = check_name("resources", t->resources[i], false);
	if (!r && (t->limit_ms < 0 || t->limit_ms > DURATION_MAX_MS))
		r = fail(ELASTICD_INVALID_ARGUMENT, "limit_ms: expected 0 to %lld, got %lld",
			(long long)DURATION_MAX_MS, (long long)t->limit_ms);
	return r;
}

int list_grow(void **list, size_t *room, size_t n, size_t size)
{
	size_t grown = *room ? *room : 4;
	void *p;

	if (n <= *room)
		return 0;
	while (grown < n)
		grown *= 2;
	p = reallocarray(*list, grown, size);
	if (!p)
		return -ENOMEM;
	*list = p;
	*room = grown;
	return 0;
}

/* --- queues */

int elasticd_queue_open(struct elasticd *h, const char *name, struct elasticd_queue **ret)
{
	struct elasticd_queue *q;
	int r = name ? check_name("name", name, true) : 0;

	if (r)
		return r;
	q = calloc(1, sizeof(*q));
	if (!q)
		return fail_memory();
	q->h = h;
	q->own = !name;
	strcpy(q->name, name ? name : "");
	r = h->side->queue->open(q);
	if (r)
		free(q);
	else
		*ret = q;
	return r;
}

void elasticd_queue_close(struct elasticd_queue *q)
{
	if (q)
		q->h->side->queue->close(q);
	free(q);
}

const char *elasticd_queue_name(const struct elasticd_queue *q)
{
	return q->name;
}

int elasticd_submit(struct elasticd_queue *q, const struct elasticd_new_task *tasks, size_t n,
	int timeout_ms, int64_t *ret_tasks, size_t *ret_accepted)
{
	int r = 0;

	*ret_accepted = 0;
	if (n && !tasks)
		r = fail(ELASTICD_INVALID_ARGUMENT, "tasks: expected %zu, got NULL", n);
	for (size_t i = 0; i < n && !r; i++)
		r = check_task(&tasks[i]);
	if (r || !n)
		return r;
	return q->h->side->queue->submit(q, tasks, n, timeout_ms, ret_tasks, ret_accepted);
}

int elasticd_join(struct elasticd_queue *q, int timeout_ms)
{
	return q->h->side->queue->join(q, timeout_ms);
}

int elasticd_done(struct elasticd_queue *q, int *ret_done)
{
	return q->h->side->queue->done(q, ret_done);
}

int elasticd_cancel_tasks(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n)
{
	size_t cancelled;
	int r = check_numbers(tasks, n);

	if (!r && reason)
		r = check_text("reason", reason, CANCEL_REASON_MAX);
	if (!r)
		r = q->h->side->queue->cancel(
			q, tasks, n, reason ? reason : "", timeout_ms, &cancelled);
	if (!r && ret_n)
		*ret_n = cancelled;
	return r;
}

int elasticd_fetch(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct elasticd_outcome **ret, size_t *ret_n)
{
	int r = check_numbers(tasks, n);

	if (!r && (flags & ~(ELASTICD_ANY | ELASTICD_RELEASE)))
		r = fail(ELASTICD_INVALID_ARGUMENT, "flags: %d is none of this version", flags);
	if (!r && !n)
		r = fail(ELASTICD_INVALID_ARGUMENT, "tasks: expected 1 at least, got none");
	return r ? r : q->h->side->queue->fetch(q, tasks, n, flags, timeout_ms, ret, ret_n);
}

void elasticd_outcomes_free(struct elasticd_outcome *outcomes, size_t n)
{
	for (size_t i = 0; outcomes && i < n; i++) {
		free(outcomes[i].value);
		free(outcomes[i].format);
		free(outcomes[i].message);
		free(outcomes[i].details);
		free(outcomes[i].worker);
	}
	free(outcomes);
}

int elasticd_release(struct elasticd_queue *q, const int64_t *tasks, size_t n)
{
	int r = check_numbers(tasks, n);

	return r || !n ? r : q->h->side->queue->release(q, tasks, n);
}

int elasticd_queue_stats(
	struct elasticd *h, struct elasticd_queue *q, struct elasticd_queue_stats *ret)
{
	return h->side->queue->stats(h, q ? q->name : NULL, ret);
}

int elasticd_close_queues(struct elasticd *h)
{
	return h->side->queue->close_all(h);
}

/* --- resources and calls */

int elasticd_resource_create(
	struct elasticd *h, const char *name, const struct elasticd_bytes *payload)
{
	int r = check_name("name", name, false);

	if (!r)
		r = check_bytes("payload", payload);
	return r ? r : h->side->queue->resource_create(h, name, payload);
}

int elasticd_resource_drop(struct elasticd *h, const char *name)
{
	int r = check_name("name", name, false);

	return r ? r : h->side->queue->resource_drop(h, name);
}

int elasticd_call(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_answer **ret, size_t *ret_n)
{
	int r = check_bytes("payload", payload);

	if (!r)
		r = check_names("workers", workers, n);
	return r ? r
		 : h->side->queue->call(
			   h, workers, n, payload, timeout_ms, answer_timeout_ms, ret, ret_n);
}

void elasticd_answers_free(struct elasticd_answer *answers, size_t n)
{
	for (size_t i = 0; answers && i < n; i++) {
		free(answers[i].worker);
		free(answers[i].value);
		free(answers[i].format);
		free(answers[i].message);
		free(answers[i].details);
	}
	free(answers);
}
