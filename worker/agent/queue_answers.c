/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/queue_answers.h"
#include "worker/base/message.h"
#include "worker/base/values.h"

#include "common/base/array.h"
#include "common/varlink/queue_limits.h"

#include <errno.h>
#include <string.h>

/* --- the error of a task or of an answer */

struct error_text {
	struct answer_text code, message, details;
};
static const struct answer_member error_members[] = {
	ANSWER_MEMBER(struct error_text, ANSWER_TEXT, "code", code),
	ANSWER_MEMBER(struct error_text, ANSWER_TEXT, "message", message),
	ANSWER_MEMBER(struct error_text, ANSWER_TEXT, "details", details),
};

/* OK and "" where there is no error. The texts are owned. */
static int error_keep(const struct answer_text *raw, enum elasticd_status *ret_code,
	char **ret_message, char **ret_details)
{
	struct error_text e = { .code = { .at = NULL } };
	char name[32] = "";
	int r;

	*ret_code = ELASTICD_STATUS_OK;
	if (raw->at && !answer_object(raw->at, error_members, ANSWER_N(error_members), &e))
		return -EBADMSG;
	if (e.code.len < sizeof(name) && e.code.at)
		memcpy(name, e.code.at, e.code.len);
	if (raw->at)
		*ret_code = error_code(name);
	r = answer_copy(&e.message, ret_message, NULL);
	return r < 0 ? r : answer_copy(&e.details, ret_details, NULL);
}

/* --- outcomes */

struct outcome_text {
	struct answer_text state, value, base64, format, error, worker;
	int64_t task, tries;
};
static const struct answer_member outcome_members[] = {
	ANSWER_MEMBER(struct outcome_text, ANSWER_INT, "task", task),
	ANSWER_MEMBER(struct outcome_text, ANSWER_TEXT, "state", state),
	ANSWER_MEMBER(struct outcome_text, ANSWER_TEXT, "value", value),
	ANSWER_MEMBER(struct outcome_text, ANSWER_TEXT, "base64", base64),
	ANSWER_MEMBER(struct outcome_text, ANSWER_TEXT, "format", format),
	ANSWER_MEMBER(struct outcome_text, ANSWER_RAW, "error", error),
	ANSWER_MEMBER(struct outcome_text, ANSWER_TEXT, "worker", worker),
	ANSWER_MEMBER(struct outcome_text, ANSWER_INT, "tries", tries),
};
static const struct answer_member outcomes_members[] = {
	ANSWER_MEMBER(struct got_outcomes, ANSWER_RAW, "outcome", one),
	ANSWER_MEMBER(struct got_outcomes, ANSWER_RAW, "outcomes", many),
};

static const char *const task_states[] = {
#define X(name, text) [QUEUE_##name] = text,
	QUEUE_STATES(X)
#undef X
};

/* Sets all of o; after a failure the rest is zero. */
static int outcome_keep(char *at, struct elasticd_queue_outcome *o)
{
	struct outcome_text t = { .task = 0 };
	int state, r;

	*o = (struct elasticd_queue_outcome){ .task = 0 };
	if (!answer_object(at, outcome_members, ANSWER_N(outcome_members), &t))
		return -EBADMSG;
	o->task = t.task;
	o->tries = (int)t.tries;
	state = answer_name(&t.state, task_states, QUEUE_N_STATES);
	if (state < 0)
		return -EBADMSG;
	o->state = (enum elasticd_task_state)state;
	r = answer_bytes(&t.value, &t.base64, &o->value, &o->len);
	if (r == 0)
		r = answer_copy(&t.format, &o->format, NULL);
	if (r == 0)
		r = answer_copy(&t.worker, &o->worker, NULL);
	return r < 0 ? r : error_keep(&t.error, &o->code, &o->message, &o->details);
}

static int outcomes_add(struct outcomes *into, char *at)
{
	int r = array_reserve((void **)&into->list, &into->room, into->n + 1,
		sizeof(struct elasticd_queue_outcome));

	if (r < 0)
		return r;
	return outcome_keep(at, &into->list[into->n++]);
}

static int got_outcomes_keep(void *to)
{
	const struct got_outcomes *t = to;
	struct answer_text one;
	char *at = t->many.at;
	int r = 0;

	if (t->one.at)
		return outcomes_add(t->into, t->one.at);
	if (!at || *at != '[')
		return -EBADMSG;
	while (r == 0 && answer_element(&at, &one))
		r = outcomes_add(t->into, one.at);
	return r;
}

struct answer_reader got_outcomes_reader(struct got_outcomes *to)
{
	return (struct answer_reader){ outcomes_members, ANSWER_N(outcomes_members), to,
		offsetof(struct got_outcomes, into), got_outcomes_keep };
}

/* --- answers to calls */

struct worker_answer_text {
	struct answer_text worker, value, base64, format, error;
};
static const struct answer_member answer_members[] = {
	ANSWER_MEMBER(struct worker_answer_text, ANSWER_TEXT, "worker", worker),
	ANSWER_MEMBER(struct worker_answer_text, ANSWER_TEXT, "value", value),
	ANSWER_MEMBER(struct worker_answer_text, ANSWER_TEXT, "base64", base64),
	ANSWER_MEMBER(struct worker_answer_text, ANSWER_TEXT, "format", format),
	ANSWER_MEMBER(struct worker_answer_text, ANSWER_RAW, "error", error),
};
static const struct answer_member answers_members[] = {
	ANSWER_MEMBER(struct got_answers, ANSWER_RAW, "answers", many),
};

static int worker_answer_keep(char *at, struct elasticd_queue_answer *a)
{
	struct worker_answer_text t = { .worker = { .at = NULL } };
	int r;

	*a = (struct elasticd_queue_answer){ .code = 0 };
	if (!answer_object(at, answer_members, ANSWER_N(answer_members), &t))
		return -EBADMSG;
	r = answer_bytes(&t.value, &t.base64, &a->value, &a->len);
	if (r == 0)
		r = answer_copy(&t.worker, &a->worker, NULL);
	if (r == 0)
		r = answer_copy(&t.format, &a->format, NULL);
	return r < 0 ? r : error_keep(&t.error, &a->code, &a->message, &a->details);
}

static int got_answers_keep(void *to)
{
	struct got_answers *t = to;
	struct answer_text one;
	char *at = t->many.at;
	int r = 0;

	if (!at || *at != '[')
		return -EBADMSG;
	while (r == 0 && answer_element(&at, &one)) {
		r = array_reserve((void **)&t->list, &t->room, t->n + 1,
			sizeof(struct elasticd_queue_answer));
		if (r == 0)
			r = worker_answer_keep(one.at, &t->list[t->n++]);
	}
	return r;
}

struct answer_reader got_answers_reader(struct got_answers *to)
{
	return (struct answer_reader){ answers_members, ANSWER_N(answers_members), to,
		offsetof(struct got_answers, list), got_answers_keep };
}
