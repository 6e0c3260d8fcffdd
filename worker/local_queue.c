/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator's side of the queue within the process. */
#include "worker/local_queue.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct queue_bytes local_bytes(const struct elasticd_bytes *b)
{
	if (!b || !b->data)
		return (struct queue_bytes){ "", 0, format_of(b) };
	return (struct queue_bytes){ b->data, b->len, format_of(b) };
}

/* An owned copy with a NUL behind it. */
int local_bytes_copy(const struct queue_bytes *b, void **ret, size_t *ret_len, char **ret_format)
{
	*ret_format = strdup(b->format ? b->format : "");
	if (!*ret_format)
		return -ENOMEM;
	return value_copy(b->len ? b->data : "", b->len, ret, ret_len);
}

int local_error_copy(
	const struct queue_error *e, int *ret_code, char **ret_message, char **ret_details)
{
	*ret_code = e ? (int)e->code : ELASTICD_OK;
	*ret_message = strdup(e && e->message ? e->message : "");
	*ret_details = strdup(e && e->details ? e->details : "");
	return *ret_message && *ret_details ? 0 : -ENOMEM;
}

/* --- queues */

static int local_open(struct elasticd_queue *q)
{
	static unsigned last;
	enum status s;
	struct queues *m;
	int r = local_queue_enter(q->h, &m);

	if (r)
		return r;
	if (q->own) {
		snprintf(q->name, sizeof(q->name), "own-%u", ++last);
		s = queue_keep(m, q->name);
		r = s == STATUS_OK ? 0 : fail((int)s, "there are too many queues");
	}
	local_unlock();
	return r;
}

static void local_close(struct elasticd_queue *q)
{
	struct queues *m = local_machine();

	if (!q->own)
		return;
	local_lock();
	queue_unkeep(m, q->name, local_now());
	local_queue_settle(m);
	local_unlock();
}

/* --- what waits */

static struct queue_new *new_tasks(const struct elasticd_new_task *tasks, size_t n)
{
	struct queue_new *list = calloc(n, sizeof(*list));

	for (size_t i = 0; list && i < n; i++)
		list[i] = (struct queue_new){
			.payload = local_bytes(&tasks[i].payload),
			.needs = tasks[i].resources,
			.n_needs = tasks[i].n_resources,
			.limit_ms = tasks[i].limit_ms > 0 ? tasks[i].limit_ms : -1,
			.alone = tasks[i].alone,
		};
	return list;
}

static int local_submit(struct elasticd_queue *q, const struct elasticd_new_task *tasks, size_t n,
	int timeout_ms, int64_t *ret_tasks, size_t *ret_accepted)
{
	_cleanup_free_ struct queue_new *list = new_tasks(tasks, n);
	struct local_ask a;
	struct queues *m;
	bool over;
	int r = list ? local_queue_enter(q->h, &m) : fail_memory();

	if (r)
		return r;
	local_ask_begin(&a, q->h);
	over = queue_submit(m, &a.w, q->name, list, n, local_place_mine(),
		local_deadline(timeout_ms), local_now());
	r = local_ask_wait(m, &a, over, timeout_ms, NULL);
	*ret_accepted = a.w.accepted < n ? a.w.accepted : n;
	for (size_t i = 0; i < *ret_accepted; i++)
		ret_tasks[i] = a.w.first + (int64_t)i;
	local_ask_end(m, &a);
	local_unlock();
	return r;
}

/* The task that this thread would wait for, and that waits for it; -1: none. */
static int64_t own_task(const struct elasticd_queue *q, const struct queues *m,
	const int64_t *tasks, size_t n, int timeout_ms)
{
	return timeout_ms < 0 ? queue_own(m, 0, work_lease(q->h), q->name, n ? tasks : NULL, n)
			      : -1;
}

static int fail_own(int64_t task)
{
	return fail(ELASTICD_FAILED_PRECONDITION, QUEUE_OWN_TEXT, (long long)task);
}

/* Waits, unless it would be for own. */
static int wait_unless_own(
	struct queues *m, struct local_ask *a, bool over, int timeout_ms, int64_t own)
{
	return !over && own >= 0 ? fail_own(own) : local_ask_wait(m, a, over, timeout_ms, NULL);
}

static int local_join(struct elasticd_queue *q, int timeout_ms)
{
	struct local_ask a;
	struct queues *m;
	bool over;
	int r = local_queue_enter(q->h, &m);

	if (r)
		return r;
	local_ask_begin(&a, q->h);
	over = queue_join(m, &a.w, q->name, local_deadline(timeout_ms), local_now());
	r = wait_unless_own(m, &a, over, timeout_ms, own_task(q, m, NULL, 0, timeout_ms));
	local_ask_end(m, &a);
	local_unlock();
	return r;
}

static int local_done(struct elasticd_queue *q, int *ret)
{
	struct local_ask a;
	struct queues *m;
	bool over;
	int r = local_queue_enter(q->h, &m);

	if (r)
		return r;
	local_ask_begin(&a, q->h);
	over = queue_done(m, &a.w, q->name, UINT64_MAX, local_now());
	r = wait_unless_own(m, &a, over, -1, own_task(q, m, NULL, 0, -1));
	local_ask_end(m, &a);
	local_unlock();
	if (r && (r != ELASTICD_DEADLINE_EXCEEDED || elasticd_error_task() >= 0))
		return r;
	*ret = r == 0;
	return 0;
}

static int local_cancel(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n)
{
	struct local_ask a;
	struct queues *m;
	int64_t own;
	bool over;
	int r = local_queue_enter(q->h, &m);

	if (r)
		return r;
	own = own_task(q, m, tasks, n, timeout_ms);
	if (own >= 0) {
		local_unlock();
		return fail_own(own);
	}
	local_ask_begin(&a, q->h);
	over = queue_cancel(m, &a.w, q->name, n ? tasks : NULL, n, reason,
		local_deadline(timeout_ms), local_now());
	r = local_ask_wait(m, &a, over, timeout_ms, NULL);
	*ret_n = a.w.accepted;
	local_ask_end(m, &a);
	local_unlock();
	return r;
}

/* --- outcomes */

static int outcome_copy(const struct queue_outcome *from, struct elasticd_outcome *to)
{
	bool failed = from->state == QUEUE_FAILED || from->state == QUEUE_CANCELLED;
	int r;

	*to = (struct elasticd_outcome){
		.task = from->task,
		.state = (int)from->state,
		.tries = (int)from->tries,
		.worker = strdup(from->worker < 0 ? "" : LOCAL_WORKER),
	};
	r = to->worker ? local_error_copy(failed ? &from->error : NULL, &to->code, &to->message,
				 &to->details)
		       : -ENOMEM;
	if (r == 0 && from->state == QUEUE_SUCCEEDED)
		return local_bytes_copy(&from->value, &to->value, &to->len, &to->format);
	if (r == 0)
		to->format = strdup("");
	return r < 0 || !to->format ? -ENOMEM : 0;
}

/* Those that are over. With the lock. */
static int outcomes_copy(struct queues *m, const int64_t *tasks, size_t n,
	struct elasticd_outcome **ret, size_t *ret_n)
{
	struct elasticd_outcome *list = calloc(n, sizeof(*list));
	struct queue_outcome o;
	size_t got = 0;

	for (size_t i = 0; list && i < n; i++) {
		if (!queue_outcome(m, tasks[i], &o) || o.state < QUEUE_SUCCEEDED)
			continue;
		if (outcome_copy(&o, &list[got++]) < 0) {
			elasticd_outcomes_free(list, got);
			list = NULL;
		}
	}
	if (!list)
		return fail_memory();
	*ret = list;
	*ret_n = got;
	return 0;
}

static int local_fetch(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct elasticd_outcome **ret, size_t *ret_n)
{
	bool any = n > 1 && flags & ELASTICD_ANY, over;
	struct local_ask a;
	struct queues *m;
	int r = local_queue_enter(q->h, &m);

	if (r)
		return r;
	local_ask_begin(&a, q->h);
	over = queue_fetch(m, &a.w, tasks, n, any, local_deadline(timeout_ms), local_now());
	/* Any may be another one's. */
	r = wait_unless_own(
		m, &a, over, timeout_ms, any ? -1 : own_task(q, m, tasks, n, timeout_ms));
	if (r == 0)
		r = outcomes_copy(m, tasks, n, ret, ret_n);
	for (size_t i = 0; r == 0 && flags & ELASTICD_RELEASE && i < *ret_n; i++)
		(void)queue_release(m, &(*ret)[i].task, 1, local_now());
	local_ask_end(m, &a);
	local_unlock();
	return r;
}

static int local_release(struct elasticd_queue *q, const int64_t *tasks, size_t n)
{
	struct queues *m;
	int r = local_queue_enter(q->h, &m);

	if (r)
		return r;
	(void)queue_release(m, tasks, n, local_now());
	local_queue_settle(m);
	local_unlock();
	return 0;
}

/* --- the process's */

static int local_stats(struct elasticd *h, const char *queue, struct elasticd_queue_stats *ret)
{
	struct queue_stats s;
	struct queues *m;
	int r = local_queue_enter(h, &m);

	if (r)
		return r;
	queue_stats(m, queue, &s);
	local_unlock();
	*ret = (struct elasticd_queue_stats){
		.queued = (int64_t)s.n[QUEUE_QUEUED],
		.running = (int64_t)s.n[QUEUE_RUNNING],
		.succeeded = (int64_t)s.n[QUEUE_SUCCEEDED],
		.failed = (int64_t)s.n[QUEUE_FAILED],
		.cancelled = (int64_t)s.n[QUEUE_CANCELLED],
		.put_back = (int64_t)s.put_back,
		.bytes = (int64_t)s.bytes,
		.waiting = (int64_t)s.waiting,
		.workers = (int64_t)s.workers,
		.free = (int64_t)s.free,
		.closed = s.closed,
	};
	return 0;
}

static int local_close_all(struct elasticd *h)
{
	struct queues *m;
	int r = local_queue_enter(h, &m);

	if (r)
		return r;
	queue_close(m, local_now());
	local_queue_settle(m);
	local_unlock();
	return 0;
}

/* After a step about a resource. */
static int resource_came(struct queues *m, enum status s, const char *name)
{
	local_queue_settle(m);
	local_unlock();
	if (s == STATUS_ALREADY_EXISTS)
		return fail((int)s, "there is a resource %s", name);
	if (s == STATUS_NOT_FOUND)
		return fail((int)s, "there is no resource %s", name);
	if (s == STATUS_RESOURCE_EXHAUSTED)
		return fail((int)s, "there is no room for resource %s", name);
	return s == STATUS_OK ? 0 : fail((int)s, "name: %s cannot be a resource", name);
}

static int local_resource_create(
	struct elasticd *h, const char *name, const struct elasticd_bytes *payload)
{
	const struct queue_bytes b = local_bytes(payload);
	struct queues *m;
	int r = local_queue_enter(h, &m);

	return r ? r : resource_came(m, queue_resource_create(m, name, &b, local_now()), name);
}

static int local_resource_drop(struct elasticd *h, const char *name)
{
	struct queues *m;
	int r = local_queue_enter(h, &m);

	return r ? r : resource_came(m, queue_resource_drop(m, name, local_now()), name);
}

const struct queue_side queue_local = {
	.open = local_open,
	.close = local_close,
	.submit = local_submit,
	.join = local_join,
	.done = local_done,
	.cancel = local_cancel,
	.fetch = local_fetch,
	.release = local_release,
	.stats = local_stats,
	.close_all = local_close_all,
	.resource_create = local_resource_create,
	.resource_drop = local_resource_drop,
	.call = local_call,
	.work_open = local_work_open,
	.work_close = local_work_close,
	.work_renew = local_work_renew,
	.work_next = local_work_next,
	.work_answer = local_work_answer,
	.work_under_way = local_work_under_way,
	.work_cancelled = local_work_cancelled,
};
