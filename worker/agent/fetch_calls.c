/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/queue_answers.h"
#include "worker/agent/queue_calls.h"
#include "worker/agent/queue_request.h"
#include "worker/base/failure.h"
#include "worker/base/handle.h"
#include "worker/base/private_agent.h"
#include "worker/base/waiting.h"

enum { SLICE_MS = 50 }; /* how long to wait at one of several pieces */

enum elasticd_status call_release(struct elasticd_queue *q, const int64_t *tasks, size_t n)
{
	enum elasticd_status status = ELASTICD_STATUS_OK;

	for (size_t at = 0, piece; at < n && !status; at += piece) {
		struct params a = PARAMS_EMPTY;

		piece = piece_of(n - at);
		params_job(&a, q->h);
		params_tasks(&a, tasks + at, piece);
		status = call_make(q->h, QUEUE_METHOD("Release"), &a, WAIT_PROMPT, NULL);
	}
	return status;
}

/* From outside, the agent must keep what elasticd may lose with its end, so it is released once it
 * is here. Where elasticd ends just then, the agent keeps it until the queue ends. */
static void release_fetched(
	struct elasticd_queue *q, const struct elasticd_queue_outcome *got, size_t n)
{
	_cleanup_free_ int64_t *tasks = malloc(n * sizeof(*tasks));

	for (size_t i = 0; tasks && i < n; i++)
		tasks[i] = got[i].task;
	if (tasks)
		(void)call_release(q, tasks, n);
}

static enum elasticd_status fetch_piece(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	int flags, int timeout_ms, struct outcomes *into)
{
	struct got_outcomes got = { .into = into };
	const struct answer_reader reader = got_outcomes_reader(&got);
	const char *method = n == 1 ? QUEUE_METHOD("Fetch") : QUEUE_METHOD("FetchMany");
	bool release = flags & ELASTICD_FETCH_RELEASE;
	size_t before = into->n;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	params_job(&a, q->h);
	if (n == 1)
		params_int(&a, "task", tasks[0]);
	else
		params_tasks(&a, tasks, n);
	params_true(&a, "any", n > 1 && flags & ELASTICD_FETCH_ANY);
	params_lease(&a, q->h, timeout_ms);
	params_true(&a, "release", release && !q->h->outside);
	status = queue_wait(q, method, &a, timeout_ms, &reader);
	if (!status && (into->n == before || into->n - before > n))
		return fail_malformed();
	if (!status && release && q->h->outside)
		release_fetched(q, into->list + before, into->n - before);
	return status;
}

/* Waits a little at one piece after the other, until one has outcomes. */
static enum elasticd_status fetch_any(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	int flags, int timeout_ms, struct outcomes *into)
{
	int64_t end = clock_end(timeout_ms);
	enum elasticd_status status = ELASTICD_STATUS_DEADLINE_EXCEEDED;

	if (n <= PIECE_TASKS)
		return fetch_piece(q, tasks, n, flags, timeout_ms, into);
	do {
		for (size_t at = 0, piece; at < n; at += piece) {
			int left = limit_ms(clock_left(end, timeout_ms));

			piece = piece_of(n - at);
			status = fetch_piece(q, tasks + at, piece, flags,
				left < 0 || left > SLICE_MS ? SLICE_MS : left, into);
			if (status != ELASTICD_STATUS_DEADLINE_EXCEEDED)
				return status;
		}
		if (timeout_ms < 0 && q->h->by_hand && process_is_alone())
			return fail_alone();
	} while (timeout_ms == -1 || clock_ms() < end);
	return status;
}

/* Releases the tasks only when all have come. */
static enum elasticd_status fetch_all(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	int flags, int timeout_ms, struct outcomes *into)
{
	int64_t end = clock_end(timeout_ms);
	enum elasticd_status status = ELASTICD_STATUS_OK;

	if (n == 1)
		return fetch_piece(q, tasks, n, flags, timeout_ms, into);
	while (!status && into->n < n)
		status = fetch_piece(q, tasks + into->n, piece_of(n - into->n), 0,
			into->n ? clock_left(end, timeout_ms) : timeout_ms, into);
	if (!status && flags & ELASTICD_FETCH_RELEASE)
		status = call_release(q, tasks, n);
	return status;
}

enum elasticd_status call_fetch(struct elasticd_queue *q, const int64_t *tasks, size_t n, int flags,
	int timeout_ms, struct elasticd_queue_outcome **ret, size_t *ret_n)
{
	struct outcomes got = { .list = NULL };
	enum elasticd_status status = flags & ELASTICD_FETCH_ANY
					      ? fetch_any(q, tasks, n, flags, timeout_ms, &got)
					      : fetch_all(q, tasks, n, flags, timeout_ms, &got);

	if (status) {
		elasticd_queue_outcomes_free(got.list, got.n);
		return status;
	}
	*ret = got.list;
	*ret_n = got.n;
	return ELASTICD_STATUS_OK;
}
