/* SPDX-License-Identifier: Apache-2.0 */
/* What the answers of io.elasticd.Queue say. */
#include "worker/agent/queue_calls.h"

#include "common/text/base64.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

#define MEMBERS_N(m) (sizeof(m) / sizeof((m)[0]))

/* The object at text, to the end of the text. */
static int taking_scan(char *text, const char *end, struct taking *t)
{
	char *at = answer_object(text, t->members, t->n, t->to);

	return at == end ? t->keep ? t->keep(t->to) : 0 : -EINVAL;
}

int taking_take(char *text, size_t len, void *arg)
{
	static const char start[] = "{\"parameters\":";
	struct taking *t = arg;
	int r;

	if (len < sizeof(start) || strncmp(text, start, sizeof(start) - 1) != 0 ||
		text[len - 1] != '}')
		return 0;
	r = taking_scan(text + sizeof(start) - 1, text + len - 1, t);
	return r == 0 ? 1 : r == -EINVAL ? 0 : r;
}

int taking_again(const json_t *parameters, struct taking *t, char **ret_text)
{
	_cleanup_free_ char *text = NULL;
	size_t len;
	int r;

	text = json_dump_text(parameters, &len);
	if (!text)
		return -ENOMEM;
	r = taking_scan(text, text + len, t);
	if (r < 0)
		return r == -EINVAL ? -EBADMSG : r;
	*ret_text = TAKE_PTR(text);
	return 0;
}

int bytes_take(const struct answer_text *text, const struct answer_text *base64, void **ret,
	size_t *ret_len)
{
	char *copy;
	int r;

	*ret = NULL;
	*ret_len = 0;
	if (base64->at) {
		/* Where a slash is escaped it is undone first. */
		r = answer_copy(base64, &copy, ret_len);
		if (r < 0)
			return r;
		r = base64_decode(copy, *ret_len, ret, ret_len);
		free(copy);
		return r == -EINVAL ? -EBADMSG : r;
	}
	if (!text->at)
		return 0;
	r = answer_copy(text, &copy, ret_len);
	if (r == 0)
		*ret = copy;
	return r;
}

/* --- errors */

struct taken_error {
	struct answer_text code, message, details, worker;
	int64_t task;
};
static const struct answer_member error_members[] = {
	ANSWER_MEMBER(struct taken_error, ANSWER_TEXT, "code", code),
	ANSWER_MEMBER(struct taken_error, ANSWER_TEXT, "message", message),
	ANSWER_MEMBER(struct taken_error, ANSWER_TEXT, "details", details),
	ANSWER_MEMBER(struct taken_error, ANSWER_TEXT, "worker", worker),
	ANSWER_MEMBER(struct taken_error, ANSWER_INT, "task", task),
};

static int code_of(const char *name)
{
	int code = status_from_name(name);

	return code > 0 ? code : ELASTICD_UNKNOWN;
}

/* Owned texts, "" where there is no error. */
static int error_keep(
	const struct answer_text *raw, int *ret_code, char **ret_message, char **ret_details)
{
	struct taken_error e = { .task = 0 };
	char name[32] = "";
	int r;

	*ret_code = ELASTICD_OK;
	if (raw->at && !answer_object(raw->at, error_members, MEMBERS_N(error_members), &e))
		return -EBADMSG;
	if (e.code.len < sizeof(name) && e.code.at)
		memcpy(name, e.code.at, e.code.len);
	if (raw->at)
		*ret_code = code_of(name);
	r = answer_copy(&e.message, ret_message, NULL);
	return r < 0 ? r : answer_copy(&e.details, ret_details, NULL);
}

int fail_queue_answer(const json_t *parameters)
{
	const json_t *e = json_get_object(parameters, "error");
	const struct queue_failure_text f = {
		.code = code_of(json_get_string(e, "code", "Unknown")),
		.message = json_get_string(e, "message", ""),
		.details = json_get_string(e, "details", ""),
		.worker = json_get_string(e, "worker", ""),
		.task = json_get_int(e, "task", -1),
		.exit_code = (int)json_get_int(parameters, "exit_code", -1),
	};

	return fail_queue(&f);
}

/* --- outcomes */

struct taken_outcome {
	struct answer_text state, value, base64, format, error, worker;
	int64_t task, tries;
};
static const struct answer_member outcome_members[] = {
	ANSWER_MEMBER(struct taken_outcome, ANSWER_INT, "task", task),
	ANSWER_MEMBER(struct taken_outcome, ANSWER_TEXT, "state", state),
	ANSWER_MEMBER(struct taken_outcome, ANSWER_TEXT, "value", value),
	ANSWER_MEMBER(struct taken_outcome, ANSWER_TEXT, "base64", base64),
	ANSWER_MEMBER(struct taken_outcome, ANSWER_TEXT, "format", format),
	ANSWER_MEMBER(struct taken_outcome, ANSWER_RAW, "error", error),
	ANSWER_MEMBER(struct taken_outcome, ANSWER_TEXT, "worker", worker),
	ANSWER_MEMBER(struct taken_outcome, ANSWER_INT, "tries", tries),
};
const struct answer_member outcomes_members[] = {
	ANSWER_MEMBER(struct taken_outcomes, ANSWER_RAW, "outcome", one),
	ANSWER_MEMBER(struct taken_outcomes, ANSWER_RAW, "outcomes", many),
};

static int state_of(const struct answer_text *t)
{
	static const char *const names[] = {
#define X(name, text) [QUEUE_##name] = text,
		QUEUE_STATES(X)
#undef X
	};

	for (int i = 0; i < QUEUE_N_STATES; i++)
		if (strlen(names[i]) == t->len && memcmp(names[i], t->at, t->len) == 0)
			return i;
	return -1;
}

/* All of o is set, or zero. */
static int outcome_take(char *at, struct elasticd_outcome *o)
{
	struct taken_outcome t = { .task = 0 };
	int r;

	*o = (struct elasticd_outcome){ .task = 0 };
	if (!answer_object(at, outcome_members, MEMBERS_N(outcome_members), &t) || !t.state.at)
		return -EBADMSG;
	o->task = t.task;
	o->tries = (int)t.tries;
	o->state = state_of(&t.state);
	if (o->state < 0)
		return -EBADMSG;
	r = bytes_take(&t.value, &t.base64, &o->value, &o->len);
	if (r == 0)
		r = answer_copy(&t.format, &o->format, NULL);
	if (r == 0)
		r = answer_copy(&t.worker, &o->worker, NULL);
	return r < 0 ? r : error_keep(&t.error, &o->code, &o->message, &o->details);
}

static int outcome_append(struct outcomes *into, char *at)
{
	int r = list_grow(
		(void **)&into->list, &into->room, into->n + 1, sizeof(struct elasticd_outcome));

	if (r < 0)
		return r;
	return outcome_take(at, &into->list[into->n++]);
}

int outcomes_keep(void *to)
{
	const struct taken_outcomes *t = to;
	struct answer_text one;
	char *at = t->many.at;
	int r = 0;

	if (t->one.at)
		return outcome_append(t->into, t->one.at);
	if (!at || *at != '[')
		return -EBADMSG;
	while (r == 0 && answer_element(&at, &one))
		r = outcome_append(t->into, one.at);
	return r;
}

/* --- answers to calls */

struct taken_answer {
	struct answer_text worker, value, base64, format, error;
};
static const struct answer_member answer_members[] = {
	ANSWER_MEMBER(struct taken_answer, ANSWER_TEXT, "worker", worker),
	ANSWER_MEMBER(struct taken_answer, ANSWER_TEXT, "value", value),
	ANSWER_MEMBER(struct taken_answer, ANSWER_TEXT, "base64", base64),
	ANSWER_MEMBER(struct taken_answer, ANSWER_TEXT, "format", format),
	ANSWER_MEMBER(struct taken_answer, ANSWER_RAW, "error", error),
};
const struct answer_member answers_members[] = {
	ANSWER_MEMBER(struct taken_answers, ANSWER_RAW, "answers", many),
};

static int answer_take(char *at, struct elasticd_answer *a)
{
	struct taken_answer t = { .worker = { .at = NULL } };
	int r;

	*a = (struct elasticd_answer){ .code = 0 };
	if (!answer_object(at, answer_members, MEMBERS_N(answer_members), &t))
		return -EBADMSG;
	r = bytes_take(&t.value, &t.base64, &a->value, &a->len);
	if (r == 0)
		r = answer_copy(&t.worker, &a->worker, NULL);
	if (r == 0)
		r = answer_copy(&t.format, &a->format, NULL);
	return r < 0 ? r : error_keep(&t.error, &a->code, &a->message, &a->details);
}

int answers_keep(void *to)
{
	struct taken_answers *t = to;
	struct answer_text one;
	char *at = t->many.at;
	int r = 0;

	if (!at || *at != '[')
		return -EBADMSG;
	while (r == 0 && answer_element(&at, &one)) {
		r = list_grow(
			(void **)&t->list, &t->room, t->n + 1, sizeof(struct elasticd_answer));
		if (r == 0)
			r = answer_take(one.at, &t->list[t->n++]);
	}
	return r;
}

/* --- items */

const struct answer_member item_members[] = {
	ANSWER_MEMBER(struct taken_item, ANSWER_TEXT, "kind", kind),
	ANSWER_MEMBER(struct taken_item, ANSWER_INT, "lease", lease),
	ANSWER_MEMBER(struct taken_item, ANSWER_INT, "task", task),
	ANSWER_MEMBER(struct taken_item, ANSWER_TEXT, "name", name),
	ANSWER_MEMBER(struct taken_item, ANSWER_TEXT, "payload", payload),
	ANSWER_MEMBER(struct taken_item, ANSWER_TEXT, "base64", base64),
	ANSWER_MEMBER(struct taken_item, ANSWER_TEXT, "format", format),
	ANSWER_MEMBER(struct taken_item, ANSWER_RAW, "resources", resources),
	ANSWER_MEMBER(struct taken_item, ANSWER_INT, "limit_ms", limit_ms),
	ANSWER_MEMBER(struct taken_item, ANSWER_INT, "index", index),
	ANSWER_MEMBER(struct taken_item, ANSWER_INT, "start", incarnation),
	ANSWER_MEMBER(struct taken_item, ANSWER_INT, "tries", attempt),
};
