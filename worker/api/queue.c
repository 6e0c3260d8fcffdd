/* SPDX-License-Identifier: Apache-2.0 */
/* The work queue, for coordinators. */
#include "worker/agent/queue_calls.h"
#include "worker/base/checks.h"
#include "worker/base/failure.h"

#include "common/text/duration.h"

#include <string.h>

/* --- checks */

static enum elasticd_status check_name(const char *what, const char *name, bool empty)
{
	if (!name)
		return fail(
			ELASTICD_STATUS_INVALID_ARGUMENT, "%s: expected a name, got NULL", what);
	if (!queue_name_ok(name, empty))
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"%s: expected %d to %d of A-Z a-z 0-9 _ . -, got \"%.70s\"", what, !empty,
			QUEUE_NAME_MAX, name);
	return ELASTICD_STATUS_OK;
}

static enum elasticd_status check_numbers(const int64_t *tasks, size_t n)
{
	if (n && !tasks)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"tasks: expected %zu numbers, got NULL", n);
	for (size_t i = 0; i < n; i++)
		if (tasks[i] < 0 || tasks[i] > QUEUE_TASK_MAX)
			return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
				"tasks: expected 0 to %lld, got %lld", (long long)QUEUE_TASK_MAX,
				(long long)tasks[i]);
	return ELASTICD_STATUS_OK;
}

static enum elasticd_status check_resources(const struct elasticd_queue_new_task *t)
{
	enum elasticd_status status = ELASTICD_STATUS_OK;

	if (t->n_resources > QUEUE_NEEDS_MAX)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"resources: expected at most %d, got %zu", QUEUE_NEEDS_MAX, t->n_resources);
	if (t->n_resources && !t->resources)
		return fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"resources: expected %zu names, got NULL", t->n_resources);
	for (size_t i = 0; i < t->n_resources && !status; i++)
		status = check_name("resources", t->resources[i], false);
	return status;
}

static enum elasticd_status check_task(const struct elasticd_queue_new_task *t)
{
	enum elasticd_status status = check_bytes("payload", &t->payload);

	if (!status)
		status = check_resources(t);
	if (!status && (t->limit_ms < 0 || t->limit_ms > DURATION_MAX_MS))
		status = fail(ELASTICD_STATUS_INVALID_ARGUMENT,
			"limit_ms: expected 0 to %lld, got %lld", (long long)DURATION_MAX_MS,
			(long long)t->limit_ms);
	return status;
}

/* --- queues */

enum elasticd_status elasticd_queue_open(
	struct elasticd *h, const char *name, struct elasticd_queue **ret)
{
	enum elasticd_status status = name ? check_name("name", name, true) : ELASTICD_STATUS_OK;
	struct elasticd_queue *q;

	if (status)
		return status;
	q = calloc(1, sizeof(*q));
	if (!q)
		return fail_memory();
	q->h = h;
	if (name)
		strcpy(q->name, name);
	else
		status = own_queue_open(q);
	if (status)
		free(q);
	else
		*ret = q;
	return status;
}

void elasticd_queue_close(struct elasticd_queue *q)
{
	if (q)
		own_queue_close(q);
	free(q);
}

const char *elasticd_queue_name(const struct elasticd_queue *q)
{
	return q->name;
}

enum elasticd_status elasticd_queue_submit(struct elasticd_queue *q,
	const struct elasticd_queue_new_task *tasks, size_t n, int timeout_ms, int64_t *ret_tasks,
	size_t *ret_accepted)
{
	enum elasticd_status status = ELASTICD_STATUS_OK;

	*ret_accepted = 0;
	if (n && !tasks)
		status = fail(ELASTICD_STATUS_INVALID_ARGUMENT, "tasks: expected %zu, got NULL", n);
	for (size_t i = 0; i < n && !status; i++)
		status = check_task(&tasks[i]);
	if (status || !n)
		return status;
	return call_submit(q, tasks, n, timeout_ms, ret_tasks, ret_accepted);
}

enum elasticd_status elasticd_queue_join(struct elasticd_queue *q, int timeout_ms)
{
	return call_join(q, timeout_ms);
}

enum elasticd_status elasticd_queue_done(struct elasticd_queue *q, bool *ret_done)
{
	return call_done(q, ret_done);
}

enum elasticd_status elasticd_queue_cancel(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	const char *reason, int timeout_ms, size_t *ret_n)
{
	enum elasticd_status status = check_numbers(tasks, n);
	size_t cancelled;

	if (!status && reason)
		status = check_text("reason", reason, QUEUE_TEXT_MAX);
	if (!status)
		status = call_cancel(q, tasks, n, reason ? reason : "", timeout_ms, &cancelled);
	if (!status && ret_n)
		*ret_n = cancelled;
	return status;
}

enum elasticd_status elasticd_queue_fetch(struct elasticd_queue *q, const int64_t *tasks, size_t n,
	int flags, int timeout_ms, struct elasticd_queue_outcome **ret, size_t *ret_n)
{
	enum elasticd_status status = check_numbers(tasks, n);

	if (!status)
		status = check_flags(flags, ELASTICD_FETCH_ANY | ELASTICD_FETCH_RELEASE);
	if (!status && !n)
		status = fail(
			ELASTICD_STATUS_INVALID_ARGUMENT, "tasks: expected at least 1, got none");
	return status ? status : call_fetch(q, tasks, n, flags, timeout_ms, ret, ret_n);
}

void elasticd_queue_outcomes_free(struct elasticd_queue_outcome *outcomes, size_t n)
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

enum elasticd_status elasticd_queue_release(
	struct elasticd_queue *q, const int64_t *tasks, size_t n)
{
	enum elasticd_status status = check_numbers(tasks, n);

	return status || !n ? status : call_release(q, tasks, n);
}

enum elasticd_status elasticd_queue_stats(
	struct elasticd *h, struct elasticd_queue *q, struct elasticd_queue_stats *ret)
{
	return call_stats(h, q ? q->name : NULL, ret);
}

enum elasticd_status elasticd_queue_close_all(struct elasticd *h)
{
	return call_close_all(h);
}

/* --- resources and calls */

enum elasticd_status elasticd_queue_resource_create(
	struct elasticd *h, const char *name, const struct elasticd_queue_bytes *payload)
{
	enum elasticd_status status = check_name("name", name, false);

	if (!status)
		status = check_bytes("payload", payload);
	return status ? status : call_create_resource(h, name, payload);
}

enum elasticd_status elasticd_queue_resource_drop(struct elasticd *h, const char *name)
{
	enum elasticd_status status = check_name("name", name, false);

	return status ? status : call_drop_resource(h, name);
}

enum elasticd_status elasticd_queue_call(struct elasticd *h, const char *const *workers, size_t n,
	const struct elasticd_queue_bytes *payload, int timeout_ms, int answer_timeout_ms,
	struct elasticd_queue_answer **ret, size_t *ret_n)
{
	enum elasticd_status status = check_bytes("payload", payload);

	if (!status)
		status = check_names("workers", workers, n);
	if (status)
		return status;
	return call_workers(h, workers, n, payload, timeout_ms, answer_timeout_ms, ret, ret_n);
}

void elasticd_queue_answers_free(struct elasticd_queue_answer *answers, size_t n)
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
