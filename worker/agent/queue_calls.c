/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator's calls of io.elasticd.Queue: many tasks go in few messages. */
#include "worker/agent/queue_calls.h"
#include "worker/base/private_agent.h"

#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
	PIECE_BYTES = 512 << 10, /* of tasks in one message, if it is not one alone */
	PIECE_TASKS = 16384,	 /* numbers in one message */
	SLICE_MS = 50,		 /* for one of several pieces */
};

/* --- asking */

static void args_job(const struct elasticd *h, struct args *a)
{
	if (h->control)
		args_text(a, "job", h->who.job);
}

static void args_queue(const struct elasticd_queue *q, struct args *a)
{
	args_job(q->h, a);
	if (*q->name)
		args_text(a, "queue", q->name);
}

static void args_numbers(struct args *a, const int64_t *tasks, size_t n)
{
	char text[24];

	args_name(a, "tasks");
	for (size_t i = 0; i < n; i++)
		args_raw(a, text,
			(size_t)snprintf(
				text, sizeof(text), "%c%" PRId64, i ? ',' : '[', tasks[i]));
	args_raw(a, n ? "]" : "[]", n ? 1 : 2);
}

static void args_payload(struct args *a, const char *name, const struct elasticd_bytes *b)
{
	if (b)
		args_bytes(a, name, b->data ? b->data : "", b->len);
	if (*format_of(b))
		args_text(a, "format", b->format);
}

struct keep {
	struct pool *pool;
	struct conn *conn;
};

static const struct conn *keep_of(const struct elasticd_queue *q)
{
	const struct keep *k = q->keep;

	return k ? k->conn : NULL;
}

/* What waits at a queue. */
static int ask_queue(struct elasticd_queue *q, const char *method, struct args *a, int timeout_ms,
	struct taking *t)
{
	return remote_asking(q->h, &(struct asking){ .method = method,
					   .a = a,
					   .limit = "timeout_ms",
					   .timeout_ms = timeout_ms,
					   .t = t,
					   .beside = keep_of(q),
					   .repeats = true,
					   .endless = true });
}

/* The same for what is told its error. */
static int ask_numbered(struct elasticd_queue *q, const char *method, struct args *a,
	const char *limit, int timeout_ms, struct taking *t)
{
	return remote_asking(q->h, &(struct asking){ .method = method,
					   .a = a,
					   .limit = limit,
					   .timeout_ms = timeout_ms,
					   .t = t,
					   .beside = keep_of(q),
					   .repeats = true,
					   .once = true,
					   .endless = strcmp(limit, "wait_ms") != 0 });
}

/* What does not wait. */
static int ask_prompt(
	struct elasticd *h, const char *method, struct args *a, bool repeats, json_t **ret)
{
	return remote_asking(
		h, &(struct asking){ .method = method, .a = a, .repeats = repeats, .ret = ret });
}

/* What is left of timeout_ms until end. */
static int time_left(int timeout_ms, int64_t end)
{
	int64_t left = end - clock_ms();

	return timeout_ms <= 0 ? timeout_ms : left < 0 ? 0 : (int)left;
}

/* --- queues */

static void keep_free(struct keep *k)
{
	if (k->pool && pool_is_ours(k->pool))
		conn_drop(k->pool, k->conn);
	else
		conn_abandon(k->conn);
	if (k->pool)
		pool_unref(k->pool);
	free(k);
}

static int keep_begin(struct elasticd_queue *q, struct keep *k)
{
	_cleanup_json_ json_t *first = NULL;
	struct args a = ARGS_EMPTY;

	k->pool = pool_ref(q->h);
	if (!k->pool)
		return fail_memory();
	args_job(q->h, &a);
	args_text(&a, "queue", q->name);
	return remote_stream(q->h, k->pool, QUEUE_METHOD("Keep"), &a, &k->conn, &first);
}

static int remote_open(struct elasticd_queue *q)
{
	struct keep *k;
	uint64_t n;
	int r;

	if (!q->own)
		return 0;
	if (getrandom(&n, sizeof(n), 0) != (ssize_t)sizeof(n))
		return fail(ELASTICD_INTERNAL, "no random number: %s", strerror(errno));
	snprintf(q->name, sizeof(q->name), "own-%016" PRIx64, n);
	k = calloc(1, sizeof(*k));
	if (!k)
		return fail_memory();
	r = keep_begin(q, k);
	if (r)
		keep_free(k);
	else
		q->keep = k;
	return r;
}

static void remote_close(struct elasticd_queue *q)
{
	if (q->keep)
		keep_free(q->keep);
}

/* --- submit */

struct taken_numbers {
	int64_t task, first, accepted;
};
static const struct answer_member numbers_members[] = {
	ANSWER_MEMBER(struct taken_numbers, ANSWER_INT, "task", task),
	ANSWER_MEMBER(struct taken_numbers, ANSWER_INT, "first", first),
	ANSWER_MEMBER(struct taken_numbers, ANSWER_INT, "accepted", accepted),
};

static void args_task(struct args *a, const struct elasticd_new_task *t)
{
	args_payload(a, "payload", &t->payload);
	if (t->n_resources)
		args_names(a, "resources", t->resources, t->n_resources);
	if (t->limit_ms)
		args_int(a, "limit_ms", t->limit_ms);
	args_true(a, "alone", t->alone);
}

/* As many as fit into one message, one at least. Returns how many. */
static size_t args_tasks(struct args *a, const struct elasticd_new_task *tasks, size_t n)
{
	size_t i, first = args_length(a);

	args_name(a, "tasks");
	for (i = 0; i < n && i < PIECE_TASKS && !a->text.failed; i++) {
		size_t end = a->text.len;

		args_raw(a, i ? ",{" : "[{", 2);
		args_task(a, &tasks[i]);
		args_raw(a, "}", 1);
		if (i && args_length(a) - first > PIECE_BYTES) {
			a->text.len = end;
			break;
		}
	}
	args_raw(a, "]", 1);
	return i;
}

static int submit_piece(struct elasticd_queue *q, const struct elasticd_new_task *tasks, size_t n,
	int timeout_ms, int64_t *ret_tasks, size_t *ret_accepted, bool *ret_all)
{
	struct taken_numbers got = { .task = 0 };
	struct taking t = { numbers_members, 3, &got, sizeof(got), NULL };
	struct args a = ARGS_EMPTY;
	size_t sent = 1;
	int r;

	args_queue(q, &a);
	if (n == 1)
		args_task(&a, tasks);
	else
		sent = args_tasks(&a, tasks, n);
	r = ask_numbered(q, n == 1 ? QUEUE_METHOD("Submit") : QUEUE_METHOD("SubmitMany"), &a,
		"wait_ms", timeout_ms, &t);
	if (r)
		return r;
	if (n == 1)
		got = (struct taken_numbers){ .first = got.task, .accepted = 1 };
	if (got.accepted < 1 || (uint64_t)got.accepted > sent)
		return fail(ELASTICD_INTERNAL, "the agent's answer is not understood");
	for (int64_t i = 0; i < got.accepted; i++)
		ret_tasks[i] = got.first + i;
	*ret_accepted = (size_t)got.accepted;
	*ret_all = *ret_accepted == sent;
	return 0;
}

/* Of a queue that went with its agent, nobody keeps what another agent has taken. */
static void submit_undo(struct elasticd_queue *q)
{
	_cleanup_free_ char *text = strdup(elasticd_error_text());
	struct keep k = { .conn = NULL };

	if (keep_begin(q, &k) == 0)
		conn_drop(k.pool, k.conn);
	if (k.pool)
		pool_unref(k.pool);
	fail(ELASTICD_UNAVAILABLE, "%s", text ? text : "out of memory");
}

static int remote_submit(struct elasticd_queue *q, const struct elasticd_new_task *tasks, size_t n,
	int timeout_ms, int64_t *ret_tasks, size_t *ret_accepted)
{
	int64_t end = clock_end(timeout_ms);
	size_t in = 0;
	bool all = true;
	int r = 0;

	while (in < n && (all || timeout_ms < 0) && r == 0) {
		size_t more = 0;

		r = submit_piece(q, tasks + in, n - in,
			in ? time_left(timeout_ms, end) : timeout_ms, ret_tasks + in, &more, &all);
		in += more;
	}
	if (r == ELASTICD_UNAVAILABLE && q->keep && conn_ended(((struct keep *)q->keep)->conn)) {
		submit_undo(q);
		in = 0;
	}
	*ret_accepted = in;
	/* Those that came before are in, and there was no room for more within the time. */
	return r == ELASTICD_RESOURCE_EXHAUSTED && in && elasticd_error_task() < 0 &&
			       timeout_ms >= 0 && clock_ms() >= end
		       ? 0
		       : r;
}

/* --- join, done, cancel */

/* Without a limit it is not to wait for what waits for it. */
static void args_own(const struct elasticd_queue *q, struct args *a, int timeout_ms)
{
	int64_t lease = timeout_ms < 0 ? work_lease(q->h) : -1;

	if (lease >= 0)
		args_int(a, "lease", lease);
}

static int remote_join(struct elasticd_queue *q, int timeout_ms)
{
	struct args a = ARGS_EMPTY;

	args_queue(q, &a);
	args_own(q, &a, timeout_ms);
	return ask_numbered(q, QUEUE_METHOD("Join"), &a, "timeout_ms", timeout_ms, NULL);
}

struct taken_done {
	bool done;
};
static const struct answer_member done_members[] = {
	ANSWER_MEMBER(struct taken_done, ANSWER_BOOL, "done", done),
};

/* It waits where an error has yet to be cleaned up. */
static int remote_done(struct elasticd_queue *q, int *ret)
{
	struct taken_done got = { .done = false };
	struct taking t = { done_members, 1, &got, sizeof(got), NULL };
	struct args a = ARGS_EMPTY;
	int r;

	args_queue(q, &a);
	args_own(q, &a, -1);
	r = ask_numbered(q, QUEUE_METHOD("Done"), &a, "timeout_ms", -1, &t);
	if (r == 0)
		*ret = got.done;
	return r;
}

struct taken_count {
	int64_t n;
};
static const struct answer_member count_members[] = {
	ANSWER_MEMBER(struct taken_count, ANSWER_INT, "cancelled", n),
};

static int cancel_piece(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n)
{
	struct taken_count got = { .n = 0 };
	struct taking t = { count_members, 1, &got, sizeof(got), NULL };
	struct args a = ARGS_EMPTY;
	int r;

	args_queue(q, &a);
	if (n)
		args_numbers(&a, tasks, n);
	if (*reason)
		args_text(&a, "reason", reason);
	args_own(q, &a, timeout_ms);
	r = ask_queue(q, QUEUE_METHOD("Cancel"), &a, timeout_ms, &t);
	*ret_n += (size_t)got.n;
	return r;
}

static int remote_cancel(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n)
{
	int64_t end = clock_end(timeout_ms);
	size_t at = 0;
	int r;

	*ret_n = 0;
	do {
		size_t piece = n - at < PIECE_TASKS ? n - at : PIECE_TASKS;

		r = cancel_piece(q, tasks + at, piece, reason,
			at ? time_left(timeout_ms, end) : timeout_ms, ret_n);
		at += piece;
	} while (r == 0 && at < n);
	return r;
}

/* --- fetch */

static int remote_release(struct elasticd_queue *q, const int64_t *tasks, size_t n)
{
	int r = 0;

	for (size_t at = 0, piece; at < n && r == 0; at += piece) {
		struct args a = ARGS_EMPTY;

		piece = n - at < PIECE_TASKS ? n - at : PIECE_TASKS;
		args_job(q->h, &a);
		args_numbers(&a, tasks + at, piece);
		r = remote_call(q->h, QUEUE_METHOD("Release"), &a, WAIT_PROMPT, NULL);
	}
	return r;
}

/* What elasticd has is lost when it ends: they are forgotten once they are here. Where elasticd
 * goes right then, the agent has them until the queue ends. */
static void release_fetched(struct elasticd_queue *q, const struct elasticd_outcome *got, size_t n)
{
	_cleanup_free_ int64_t *tasks = malloc(n * sizeof(*tasks));

	for (size_t i = 0; tasks && i < n; i++)
		tasks[i] = got[i].task;
	if (tasks)
		(void)remote_release(q, tasks, n);
}

static int fetch_piece(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct outcomes *into)
{
	struct taken_outcomes got = { .into = into };
	struct taking t = { outcomes_members, 2, &got, offsetof(struct taken_outcomes, into),
		outcomes_keep };
	const char *method = n == 1 ? QUEUE_METHOD("Fetch") : QUEUE_METHOD("FetchMany");
	struct args a = ARGS_EMPTY;
	bool release = flags & ELASTICD_RELEASE;
	size_t before = into->n;
	int r;

	args_job(q->h, &a);
	if (n == 1)
		args_int(&a, "task", tasks[0]);
	else
		args_numbers(&a, tasks, n);
	args_true(&a, "any", n > 1 && flags & ELASTICD_ANY);
	args_own(q, &a, timeout_ms);
	args_true(&a, "release", release && !q->h->control);
	r = ask_queue(q, method, &a, timeout_ms, &t);
	if (r == 0 && (into->n == before || into->n - before > n))
		return fail(ELASTICD_INTERNAL, "the agent's answer is not understood");
	if (r == 0 && release && q->h->control)
		release_fetched(q, into->list + before, into->n - before);
	return r;
}

/* Looks at one piece after the other, until one has some. */
static int fetch_any(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct outcomes *into)
{
	int64_t end = clock_end(timeout_ms);
	int r = ELASTICD_DEADLINE_EXCEEDED;

	if (n <= PIECE_TASKS)
		return fetch_piece(q, tasks, n, flags, timeout_ms, into);
	do {
		for (size_t at = 0, piece; at < n; at += piece) {
			int left = time_left(timeout_ms, end);

			piece = n - at < PIECE_TASKS ? n - at : PIECE_TASKS;
			r = fetch_piece(q, tasks + at, piece, flags,
				left < 0 || left > SLICE_MS ? SLICE_MS : left, into);
			if (r != ELASTICD_DEADLINE_EXCEEDED)
				return r;
		}
		if (timeout_ms < 0 && q->h->alone && alone_single())
			return fail_single();
	} while (timeout_ms < 0 || clock_ms() < end);
	return r;
}

/* They are forgotten when all have come. */
static int fetch_all(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct outcomes *into)
{
	int64_t end = clock_end(timeout_ms);
	int r = 0;

	if (n == 1)
		return fetch_piece(q, tasks, n, flags, timeout_ms, into);
	while (r == 0 && into->n < n) {
		size_t left = n - into->n;

		r = fetch_piece(q, tasks + into->n, left < PIECE_TASKS ? left : PIECE_TASKS, 0,
			into->n ? time_left(timeout_ms, end) : timeout_ms, into);
	}
	if (r == 0 && flags & ELASTICD_RELEASE)
		r = remote_release(q, tasks, n);
	return r;
}

static int remote_fetch(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct elasticd_outcome **ret, size_t *ret_n)
{
	struct outcomes got = { .list = NULL };
	int r = flags & ELASTICD_ANY ? fetch_any(q, tasks, n, flags, timeout_ms, &got)
				     : fetch_all(q, tasks, n, flags, timeout_ms, &got);

	if (r) {
		elasticd_outcomes_free(got.list, got.n);
		return r;
	}
	*ret = got.list;
	*ret_n = got.n;
	return 0;
}

/* --- the job's */

#define STATS_FIELDS(X) \
	X(queued)       \
	X(running)      \
	X(succeeded)    \
	X(failed)       \
	X(cancelled)    \
	X(put_back)     \
	X(bytes)        \
	X(waiting)      \
	X(workers)      \
	X(free)

static int remote_stats(struct elasticd *h, const char *queue, struct elasticd_queue_stats *ret)
{
	_cleanup_json_ json_t *answer = NULL;
	struct args a = ARGS_EMPTY;
	const json_t *stats;
	int r;

	args_job(h, &a);
	args_text(&a, "queue", queue);
	r = ask_prompt(h, QUEUE_METHOD("Stats"), &a, true, &answer);
	if (r)
		return r;
	stats = json_get_object(answer, "stats");
#define X(field) ret->field = json_get_int(stats, #field, 0);
	STATS_FIELDS(X)
#undef X
	ret->closed = json_get_bool(stats, "closed", false);
	return 0;
}

static int remote_close_all(struct elasticd *h)
{
	struct args a = ARGS_EMPTY;

	args_job(h, &a);
	return ask_prompt(h, QUEUE_METHOD("Close"), &a, true, NULL);
}

static int remote_resource_create(
	struct elasticd *h, const char *name, const struct elasticd_bytes *payload)
{
	struct args a = ARGS_EMPTY;

	args_job(h, &a);
	args_text(&a, "name", name);
	args_payload(&a, "payload", payload);
	return ask_prompt(h, QUEUE_METHOD("CreateResource"), &a, false, NULL);
}

static int remote_resource_drop(struct elasticd *h, const char *name)
{
	struct args a = ARGS_EMPTY;

	args_job(h, &a);
	args_text(&a, "name", name);
	return ask_prompt(h, QUEUE_METHOD("DropResource"), &a, false, NULL);
}

static int remote_call_all(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_answer **ret, size_t *ret_n)
{
	struct taken_answers got = { .list = NULL };
	struct taking t = { answers_members, 1, &got, sizeof(got.many), answers_keep };
	struct args a = ARGS_EMPTY;
	int r;

	args_job(h, &a);
	if (n)
		args_names(&a, "workers", workers, n);
	args_payload(&a, "payload", payload);
	if (answer_timeout_ms >= 0)
		args_int(&a, "answer_timeout_ms", answer_timeout_ms);
	r = remote_asking(h, &(struct asking){ .method = QUEUE_METHOD("Call"),
				     .a = &a,
				     .limit = "timeout_ms",
				     .timeout_ms = timeout_ms,
				     .t = &t });
	if (r) {
		elasticd_answers_free(got.list, got.n);
		return r;
	}
	*ret = got.list;
	*ret_n = got.n;
	return 0;
}

const struct queue_side queue_remote = {
	.open = remote_open,
	.close = remote_close,
	.submit = remote_submit,
	.join = remote_join,
	.done = remote_done,
	.cancel = remote_cancel,
	.fetch = remote_fetch,
	.release = remote_release,
	.stats = remote_stats,
	.close_all = remote_close_all,
	.resource_create = remote_resource_create,
	.resource_drop = remote_resource_drop,
	.call = remote_call_all,
	.work_open = remote_work_open,
	.work_close = remote_work_close,
	.work_renew = remote_work_renew,
	.work_next = remote_work_next,
	.work_answer = remote_work_answer,
	.work_under_way = remote_work_under_way,
	.work_cancelled = remote_work_cancelled,
};
