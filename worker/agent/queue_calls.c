/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/queue_calls.h"
#include "worker/agent/queue_answers.h"
#include "worker/agent/queue_request.h"
#include "worker/base/failure.h"
#include "worker/base/pool.h"
#include "worker/base/waiting.h"

#include "common/base/random.h"
#include "common/text/json.h"

#include <string.h>

/* --- queues without a name */

static void keeper_free(struct keeper *k)
{
	if (k->pool && pool_is_ours(k->pool))
		conn_drop(k->pool, k->conn);
	else
		conn_abandon(k->conn);
	if (k->pool)
		pool_unref(k->pool);
	free(k);
}

static enum elasticd_status keeper_new(struct elasticd_queue *q, struct keeper **ret)
{
	struct keeper *k = calloc(1, sizeof(*k));
	_cleanup_json_ json_t *first = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	if (!k)
		return fail_memory();
	k->pool = pool_ref(q->h);
	if (k->pool) {
		params_job(&a, q->h);
		params_text(&a, "queue", q->name);
		status = call_stream(q->h, k->pool, QUEUE_METHOD("Keep"), &a, &k->conn, &first);
	} else {
		status = fail_memory();
	}
	if (status)
		keeper_free(k);
	else
		*ret = k;
	return status;
}

enum elasticd_status own_queue_open(struct elasticd_queue *q)
{
	static const char prefix[] = "own-";

	strcpy(q->name, prefix);
	if (random_hex(q->name + strlen(prefix), 16) < 0)
		return fail_random();
	return keeper_new(q, &q->keeper);
}

void own_queue_close(struct elasticd_queue *q)
{
	if (q->keeper)
		keeper_free(q->keeper);
	q->keeper = NULL;
}

void own_queue_clear(struct elasticd_queue *q)
{
	struct keeper *k;

	/* The queue ends with its new keeper. */
	if (keeper_new(q, &k) == ELASTICD_STATUS_OK)
		keeper_free(k);
}

/* --- join, done, cancel */

enum elasticd_status call_join(struct elasticd_queue *q, int timeout_ms)
{
	struct params a = PARAMS_EMPTY;

	params_queue(&a, q);
	params_lease(&a, q->h, timeout_ms);
	return queue_wait_numbered(
		q, QUEUE_METHOD("Join"), &a, "timeout_ms", timeout_ms, &answer_nothing);
}

struct got_done {
	bool done;
};
static const struct answer_member done_members[] = {
	ANSWER_MEMBER(struct got_done, ANSWER_BOOL, "done", done),
};

/* It waits where cancelled tasks still run after an error of the queue. */
enum elasticd_status call_done(struct elasticd_queue *q, bool *ret)
{
	struct got_done got = { .done = false };
	const struct answer_reader reader = { done_members, ANSWER_N(done_members), &got,
		sizeof(got), NULL };
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	params_queue(&a, q);
	params_lease(&a, q->h, -1);
	status = queue_wait_numbered(q, QUEUE_METHOD("Done"), &a, "timeout_ms", -1, &reader);
	if (!status)
		*ret = got.done;
	return status;
}

struct got_count {
	int64_t n;
};
static const struct answer_member count_members[] = {
	ANSWER_MEMBER(struct got_count, ANSWER_INT, "cancelled", n),
};

static enum elasticd_status cancel_piece(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n)
{
	struct got_count got = { .n = 0 };
	const struct answer_reader reader = { count_members, ANSWER_N(count_members), &got,
		sizeof(got), NULL };
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	params_queue(&a, q);
	if (n)
		params_tasks(&a, tasks, n);
	if (*reason)
		params_text(&a, "reason", reason);
	params_lease(&a, q->h, timeout_ms);
	status = queue_wait(q, QUEUE_METHOD("Cancel"), &a, timeout_ms, &reader);
	*ret_n += (size_t)got.n;
	return status;
}

enum elasticd_status call_cancel(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n)
{
	int64_t end = clock_end(timeout_ms);
	enum elasticd_status status;
	size_t at = 0;

	*ret_n = 0;
	do {
		size_t piece = piece_of(n - at);

		status = cancel_piece(q, tasks + at, piece, reason,
			at ? clock_left(end, timeout_ms) : timeout_ms, ret_n);
		at += piece;
	} while (!status && at < n);
	return status;
}

/* --- about the whole job */

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

enum elasticd_status call_stats(
	struct elasticd *h, const char *queue, struct elasticd_queue_stats *ret)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;
	const json_t *stats;

	params_job(&a, h);
	params_text(&a, "queue", queue);
	status = queue_prompt(h, QUEUE_METHOD("Stats"), &a, true, &answer);
	if (status)
		return status;
	stats = json_get_object(answer, "stats");
#define X(field) ret->field = json_get_int(stats, #field, 0);
	STATS_FIELDS(X)
#undef X
	ret->closed = json_get_bool(stats, "closed", false);
	return ELASTICD_STATUS_OK;
}

enum elasticd_status call_close_all(struct elasticd *h)
{
	struct params a = PARAMS_EMPTY;

	params_job(&a, h);
	return queue_prompt(h, QUEUE_METHOD("Close"), &a, true, NULL);
}

enum elasticd_status call_create_resource(
	struct elasticd *h, const char *name, const struct elasticd_queue_bytes *payload)
{
	struct params a = PARAMS_EMPTY;

	params_job(&a, h);
	params_text(&a, "name", name);
	params_payload(&a, payload);
	return queue_prompt(h, QUEUE_METHOD("CreateResource"), &a, false, NULL);
}

enum elasticd_status call_drop_resource(struct elasticd *h, const char *name)
{
	struct params a = PARAMS_EMPTY;

	params_job(&a, h);
	params_text(&a, "name", name);
	return queue_prompt(h, QUEUE_METHOD("DropResource"), &a, false, NULL);
}

enum elasticd_status call_workers(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_queue_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_queue_answer **ret, size_t *ret_n)
{
	struct got_answers got = { .list = NULL };
	const struct answer_reader reader = got_answers_reader(&got);
	struct params a = PARAMS_EMPTY;
	const struct queue_request r = {
		.method = QUEUE_METHOD("Call"),
		.params = &a,
		.limit = "timeout_ms",
		.timeout_ms = timeout_ms,
		.reader = &reader,
	};
	enum elasticd_status status;

	params_job(&a, h);
	if (n)
		params_names(&a, "workers", workers, n);
	params_payload(&a, payload);
	if (answer_timeout_ms >= 0)
		params_int(&a, "answer_timeout_ms", answer_timeout_ms);
	status = queue_request(h, &r);
	if (status) {
		elasticd_queue_answers_free(got.list, got.n);
		return status;
	}
	*ret = got.list;
	*ret_n = got.n;
	return ELASTICD_STATUS_OK;
}
