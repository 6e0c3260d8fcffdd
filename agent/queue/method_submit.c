/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives tasks to the machine as they are in the message. Only if the machine has no room for them
 * and the call waits, it copies them.
 */
#include "agent/queue/private.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { MANY_MAX = 65536 }; /* tasks that one call accepts; the caller submits the rest again */

void dispatch_reply_many(
	struct dispatch *d, struct varlink_call *call, int64_t first, size_t accepted)
{
	struct json_writer *t = dispatch_text_begin(d);

	dispatch_put(t, "{\"first\":");
	json_write_int(t, first);
	dispatch_put(t, ",\"accepted\":");
	json_write_int(t, (int64_t)accepted);
	dispatch_put(t, "}");
	dispatch_text_reply(d, call);
}

static void answer_one(struct dispatch_wait *x)
{
	dispatch_repeat_remember(x);
	sharing_reply_int(x->call, "task", x->wait.first);
}

static void answer_many(struct dispatch_wait *x)
{
	dispatch_repeat_remember(x);
	dispatch_reply_many(x->d, x->call, x->wait.first, x->wait.accepted);
}

/* --- waiting --- */

static size_t copy_size(const struct queue_new *n)
{
	size_t size = n->n_needs * sizeof(char *) + n->payload.len + strlen(n->payload.format) + 2;

	for (size_t i = 0; i < n->n_needs; i++)
		size += strlen(n->needs[i]) + 1;
	return size;
}

static const char *copy_string(char **to, const char *s)
{
	char *at = *to;

	*to = stpcpy(at, s) + 1;
	return at;
}

/* Makes n point to a copy: needs are copied to *needs, the rest to *to. */
static void copy_task(struct queue_new *n, const char ***needs, char **to)
{
	const char *const *old = n->needs;

	memcpy(*to, n->payload.data, n->payload.len);
	n->payload.data = *to;
	*to += n->payload.len;
	n->payload.format = copy_string(to, n->payload.format);
	n->needs = *needs;
	for (size_t i = 0; i < n->n_needs; i++)
		*(*needs)++ = copy_string(to, old[i]);
}

/* The call waits: copies x's tasks, since the message is freed. Returns false if too many wait, or
 * without memory. */
static bool copy_tasks(struct dispatch_wait *x)
{
	struct queue_new *tasks = x->many ? x->many : &x->one;
	size_t size = x->many ? x->n * sizeof(*tasks) : 0, n_needs = 0;
	const char **needs;
	char *to;

	for (size_t i = 0; i < x->n; i++) {
		size += copy_size(&tasks[i]);
		n_needs += tasks[i].n_needs;
	}
	x->kept = dispatch_wait_charge(x, size) ? malloc(size) : NULL;
	if (!x->kept)
		return false;
	needs = x->kept;
	to = (char *)(needs + n_needs);
	for (size_t i = 0; i < x->n; i++)
		copy_task(&tasks[i], &needs, &to);
	return true;
}

/* The tasks do not all fit, and cannot wait. Accepted ones stay, and the answer counts them, after
 * their records are written. */
static int refuse_rest(struct dispatch_wait *x)
{
	struct dispatch *d = x->d;

	if (x->wait.accepted) {
		queue_wait_expire(d->q, &x->wait);
		return dispatch_wait_begun(x);
	}
	sharing_fail(x->call, STATUS_RESOURCE_EXHAUSTED,
		"the queue is full, and %zu bytes of tasks wait already", d->waiting_bytes);
	queue_wait_fini(d->q, &x->wait, d->now_ms);
	dispatch_wait_drop(x);
	dispatch_run(d);
	return 0;
}

/* --- both --- */

/* x has its tasks. bytes: of their payloads. */
static int submit_begin(struct dispatch_endpoint *endpoint, struct dispatch_wait *x,
	const char *queue, size_t bytes, int64_t wait_ms)
{
	struct dispatch *d = endpoint->d;
	int worker = dispatch_caller(endpoint, x->call);
	bool exempt = worker >= 0 && queue_worker_has_lease(d->q, worker);

	if (!dispatch_journal_room(d, x->call, bytes)) {
		dispatch_wait_drop(x);
		return 0;
	}
	queue_submit(d->q, &x->wait, queue, x->many ? x->many : &x->one, x->n, exempt,
		dispatch_deadline(d, wait_ms), d->now_ms);
	return x->wait.is_over || copy_tasks(x) ? dispatch_wait_begun(x) : refuse_rest(x);
}

/* --- one --- */

/* Names of resources, in room for QUEUE_NEEDS_MAX of them. */
static int needs_of(
	const struct flat *p, const char **room, struct queue_new *what, struct error *err)
{
	const json_t *list = flat_array(p, "resources"), *name;
	size_t n = json_array_size(list), i;

	if (n > QUEUE_NEEDS_MAX)
		return error_set(err, -EINVAL, "resources: expected at most %d, got %zu",
			QUEUE_NEEDS_MAX, n);
	json_array_foreach (list, i, name)
		room[i] = json_string_value(name);
	what->limit_ms = flat_int(p, "limit_ms", -1);
	what->alone = flat_bool(p, "alone");
	what->needs = room;
	what->n_needs = n;
	return 0;
}

int dispatch_submit(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	const char *queue = flat_text(p, "queue", ""), *needs[QUEUE_NEEDS_MAX];
	uint64_t repeat_key = dispatch_repeat_key(flat_int(p, "once", 0), queue);
	_cleanup_free_ void *owned = NULL;
	struct queue_new task = { .limit_ms = -1 };
	struct error err = { 0 };
	struct dispatch_wait *x;
	int r = needs_of(p, needs, &task, &err);

	if (r < 0)
		return dispatch_refuse(call, r, &err);
	if (!dispatch_is_job(d, call, flat_text(p, "job", NULL)) ||
		dispatch_repeat_answer(d, call, repeat_key))
		return 0;
	r = dispatch_bytes(p, "payload", &task.payload, &owned, &err);
	if (r < 0)
		return dispatch_refuse(call, r, &err);
	x = dispatch_wait_new(d, call, answer_one);
	if (!x)
		return 0;
	x->one = task;
	x->n = 1;
	x->repeat_key = repeat_key;
	return submit_begin(endpoint, x, queue, task.payload.len, flat_int(p, "wait_ms", -1));
}

/* --- many --- */

/* Parts of tasks that are not in the message, for the time of the step. */
struct many {
	struct queue_new *tasks;
	void **owned; /* decoded base64, for each task */
	const char **needs;
	size_t n, n_needs, bytes;
};

static void many_fini(struct many *m)
{
	for (size_t i = 0; m->owned && i < m->n; i++)
		free(m->owned[i]);
	free(m->owned);
	free(m->needs);
	free(m->tasks);
}

static int parse_task(struct many *m, size_t i, const struct flat *p, struct error *err)
{
	struct queue_new *what = &m->tasks[i];
	int r = needs_of(p, m->needs + m->n_needs, what, err);

	if (r < 0)
		return r;
	if (flat_get(p, "limit_ms") && (what->limit_ms < 1 || what->limit_ms > DURATION_MAX_MS))
		return error_set(err, -EINVAL, "limit_ms: expected 1 to %" PRId64 ", got %" PRId64,
			(int64_t)DURATION_MAX_MS, what->limit_ms);
	m->n_needs += what->n_needs;
	r = dispatch_bytes(p, "payload", &what->payload, &m->owned[i], err);
	if (r == 0)
		m->bytes += what->payload.len;
	return r;
}

static size_t count_needs(const json_t *list, size_t n)
{
	size_t total = 0;

	for (size_t i = 0; i < n; i++) {
		const json_t *p = json_array_get(list, i);

		total += json_array_size(json_get_array(p, "resources"));
	}
	return total;
}

static int parse_many(struct many *m, const json_t *list, struct error *err)
{
	int r = 0;

	m->n = json_array_size(list) < MANY_MAX ? json_array_size(list) : MANY_MAX;
	if (!m->n)
		return error_set(err, -EINVAL, "tasks: expected at least one, got none");
	m->tasks = calloc(m->n, sizeof(*m->tasks));
	m->owned = calloc(m->n, sizeof(*m->owned));
	m->needs = calloc(count_needs(list, m->n) + 1, sizeof(*m->needs));
	if (!m->tasks || !m->owned || !m->needs)
		return -ENOMEM;
	for (size_t i = 0; r == 0 && i < m->n; i++) {
		struct flat task;

		flat_of(json_array_get(list, i), &task);
		r = parse_task(m, i, &task, err);
		if (r == -EINVAL) {
			struct error what = *err;

			error_set(err, r, "tasks[%zu].%s", i, what.text);
		}
	}
	return r;
}

int dispatch_submit_many(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	_cleanup_(many_fini) struct many m = { .n = 0 };
	const char *queue = json_get_string(p, "queue", "");
	uint64_t repeat_key = dispatch_repeat_key(json_get_int(p, "once", 0), queue);
	struct error err = { 0 };
	struct dispatch_wait *x;
	int r;

	if (!dispatch_is_job(endpoint->d, call, json_get_string(p, "job", NULL)) ||
		dispatch_repeat_answer(endpoint->d, call, repeat_key))
		return 0;
	r = parse_many(&m, json_get_array(p, "tasks"), &err);
	if (r < 0)
		return dispatch_refuse(call, r, &err);
	x = dispatch_wait_new(endpoint->d, call, answer_many);
	if (!x)
		return 0;
	x->many = TAKE_PTR(m.tasks);
	x->n = m.n;
	x->repeat_key = repeat_key;
	return submit_begin(endpoint, x, queue, m.bytes, json_get_int(p, "wait_ms", -1));
}
