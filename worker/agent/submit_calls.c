/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/queue_calls.h"
#include "worker/agent/queue_request.h"
#include "worker/base/failure.h"
#include "worker/base/waiting.h"

#include <string.h>

enum { PIECE_BYTES = 512 << 10 }; /* of one message, unless a single task has more */

struct got_numbers {
	int64_t task, first, accepted;
};
static const struct answer_member numbers_members[] = {
	ANSWER_MEMBER(struct got_numbers, ANSWER_INT, "task", task),
	ANSWER_MEMBER(struct got_numbers, ANSWER_INT, "first", first),
	ANSWER_MEMBER(struct got_numbers, ANSWER_INT, "accepted", accepted),
};

static void params_new_task(struct params *a, const struct elasticd_queue_new_task *t)
{
	params_payload(a, &t->payload);
	if (t->n_resources)
		params_names(a, "resources", t->resources, t->n_resources);
	if (t->limit_ms)
		params_int(a, "limit_ms", t->limit_ms);
	params_true(a, "alone", t->alone);
}

/* Adds as many as fit into one message, at least one. Returns how many. */
static size_t params_new_tasks(
	struct params *a, const struct elasticd_queue_new_task *tasks, size_t n)
{
	size_t i, first = params_length(a);

	params_name(a, "tasks");
	for (i = 0; i < n && i < PIECE_TASKS && !a->text.failed; i++) {
		size_t end = a->text.len;

		params_raw(a, i ? ",{" : "[{", 2);
		params_new_task(a, &tasks[i]);
		params_raw(a, "}", 1);
		if (i && params_length(a) - first > PIECE_BYTES) {
			a->text.len = end;
			break;
		}
	}
	params_raw(a, "]", 1);
	return i;
}

/* Submits the first of n tasks, as many as fit into one message. ret_all: all of these are in. */
static enum elasticd_status submit_piece(struct elasticd_queue *q,
	const struct elasticd_queue_new_task *tasks, size_t n, int timeout_ms, int64_t *ret_tasks,
	size_t *ret_accepted, bool *ret_all)
{
	struct got_numbers got = { .task = 0 };
	const struct answer_reader reader = { numbers_members, ANSWER_N(numbers_members), &got,
		sizeof(got), NULL };
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;
	size_t sent = 1;

	params_queue(&a, q);
	if (n == 1)
		params_new_task(&a, tasks);
	else
		sent = params_new_tasks(&a, tasks, n);
	status =
		queue_wait_numbered(q, n == 1 ? QUEUE_METHOD("Submit") : QUEUE_METHOD("SubmitMany"),
			&a, "wait_ms", timeout_ms, &reader);
	if (status)
		return status;
	if (n == 1)
		got = (struct got_numbers){ .first = got.task, .accepted = 1 };
	if (got.accepted < 1 || (uint64_t)got.accepted > sent)
		return fail_malformed();
	for (int64_t i = 0; i < got.accepted; i++)
		ret_tasks[i] = got.first + i;
	*ret_accepted = (size_t)got.accepted;
	*ret_all = *ret_accepted == sent;
	return ELASTICD_STATUS_OK;
}

/* The agent of a queue without a name is gone, and another agent may have the tasks: they would
 * have no keeper. */
static enum elasticd_status submit_undo(struct elasticd_queue *q)
{
	_cleanup_free_ char *text = strdup(elasticd_error_text());

	own_queue_clear(q);
	return fail(ELASTICD_STATUS_UNAVAILABLE, "%s", text ? text : "out of memory");
}

/* Whether a submit that fails because the queue is full ends well: some tasks are in, and the time
 * is over. */
static bool is_time_over(enum elasticd_status status, size_t in, int timeout_ms, int64_t end)
{
	return status == ELASTICD_STATUS_RESOURCE_EXHAUSTED && in &&
	       elasticd_queue_error_task() < 0 && timeout_ms >= 0 && clock_ms() >= end;
}

enum elasticd_status call_submit(struct elasticd_queue *q,
	const struct elasticd_queue_new_task *tasks, size_t n, int timeout_ms, int64_t *ret_tasks,
	size_t *ret_accepted)
{
	int64_t end = timeout_ms < 0 ? -1 : clock_end(timeout_ms);
	enum elasticd_status status = ELASTICD_STATUS_OK;
	size_t in = 0;
	bool all = true;

	timeout_ms = timeout_ms < 0 ? -1 : timeout_ms;
	while (in < n && (all || timeout_ms < 0) && !status) {
		size_t more = 0;

		status = submit_piece(q, tasks + in, n - in,
			in ? clock_left(end, timeout_ms) : timeout_ms, ret_tasks + in, &more, &all);
		in += more;
	}
	if (status == ELASTICD_STATUS_UNAVAILABLE && q->keeper && conn_ended(q->keeper->conn)) {
		status = submit_undo(q);
		in = 0;
	}
	*ret_accepted = in;
	return is_time_over(status, in, timeout_ms, end) ? ELASTICD_STATUS_OK : status;
}
