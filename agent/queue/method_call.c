/* SPDX-License-Identifier: Apache-2.0 */
/* Work of all workers: resources, and calls. */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
	ERROR_BYTES = 128,    /* of an error's JSON without its texts */
	REFUSED_BYTES = 512,  /* at most, of the error in place of an answer that does not fit */
	ENVELOPE_BYTES = 256, /* of a message without its answers */
};

/* --- resources --- */

int dispatch_create_resource(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	const char *name = flat_text(p, "name", "");
	_cleanup_free_ void *owned = NULL;
	struct queue_bytes payload;
	struct error err = { 0 };
	enum status s;
	int r;

	if (!dispatch_is_job(d, call, flat_text(p, "job", NULL)))
		return 0;
	r = dispatch_bytes(p, "payload", &payload, &owned, &err);
	if (r < 0)
		return dispatch_refuse(call, r, &err);
	s = queue_resource_create(d->q, name, &payload, dispatch_now(d));
	dispatch_run(d);
	switch (s) {
	case STATUS_OK:
		return varlink_reply_text(call, "{}", 2);
	case STATUS_ALREADY_EXISTS:
		return sharing_fail(call, s, "name: there is a resource \"%.100s\" already", name);
	case STATUS_INVALID_ARGUMENT:
		return sharing_fail(call, s,
			"name: expected 1 to %d of A-Z, a-z, 0-9, _, . and -, got \"%.100s\"",
			QUEUE_NAME_MAX, name);
	default:
		return sharing_fail(call, s,
			"there are %d resources already, which is the limit, or out of memory",
			QUEUE_RESOURCES_MAX);
	}
}

int dispatch_drop_resource(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	const char *name = json_get_string(p, "name", "");
	enum status s;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)))
		return 0;
	s = queue_resource_drop(d->q, name, dispatch_now(d));
	dispatch_run(d);
	if (s != STATUS_OK)
		return sharing_fail(call, s, "name: there is no resource \"%.100s\"", name);
	return varlink_reply_text(call, "{}", 2);
}

/* room: how many bytes of errors the answer may still have. */
static json_t *resource_json(
	const struct dispatch *d, size_t i, const struct queue_resource_view *v, size_t *room)
{
	json_t *j = json_object(), *errors = json_array();
	int n = d->commons ? d->commons->n_slots : 0;
	struct queue_error e;

	for (int worker = 0; worker < n && *room; worker++) {
		size_t len;

		if (!queue_resource_error(d->q, i, worker, &e))
			continue;
		len = ERROR_BYTES + strlen(e.message) + strlen(e.details);
		*room -= len < *room ? len : *room;
		json_add(errors, dispatch_error_json(d, &e));
	}
	json_put_string(j, "name", v->name);
	json_put_int(j, "ready", v->ready);
	json_put_int(j, "building", v->building);
	json_put_int(j, "failed", v->failed);
	json_put(j, "errors", errors);
	return j;
}

int dispatch_resources(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	size_t room = DISPATCH_ANSWER_BYTES;
	struct queue_resource_view v;
	json_t *list, *answer;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)))
		return 0;
	list = json_array();
	answer = json_object();
	for (size_t i = 0; queue_resource_view(d->q, i, &v); i++)
		json_add(list, resource_json(d, i, &v, &room));
	json_put(answer, "resources", list);
	return varlink_reply(call, answer);
}

/* --- calls --- */

static void text_answer(
	const struct dispatch *d, struct json_writer *t, const struct queue_answer *a)
{
	dispatch_put(t, "{\"worker\":");
	json_write_text(t, dispatch_worker_name(d, a->worker));
	dispatch_put(t, ",");
	if (a->ok) {
		dispatch_text_bytes(t, "value", &a->value);
	} else {
		dispatch_put(t, "\"error\":");
		dispatch_text_error(d, t, &a->error);
	}
	dispatch_put(t, "}");
}

/* The error in place of an answer of so many bytes. */
static void text_refused(const struct dispatch *d, struct json_writer *t,
	const struct queue_answer *a, size_t bytes, size_t most)
{
	struct queue_answer refused = { .worker = a->worker };
	char text[128];

	snprintf(text, sizeof(text),
		"its answer of %zu bytes does not fit beside the others' into one message of %zu "
		"MiB",
		bytes, most >> 20);
	refused.error = (struct queue_error){ .code = STATUS_RESOURCE_EXHAUSTED,
		.message = text,
		.details = "",
		.worker = a->worker,
		.task = -1 };
	text_answer(d, t, &refused);
}

/* left: how many answers follow, each with room for its error. */
static void text_fitting(const struct dispatch *d, struct json_writer *t,
	const struct queue_answer *a, size_t left, size_t most)
{
	size_t begun = t->len, len;

	text_answer(d, t, a);
	len = t->len - begun;
	if (t->failed || len <= REFUSED_BYTES ||
		t->len + left * REFUSED_BYTES + ENVELOPE_BYTES <= most)
		return;
	t->len = begun;
	text_refused(d, t, a, len, most);
}

struct ranked_answer {
	size_t answer;
	int rank;
};

static int by_rank(const void *a, const void *b)
{
	const struct ranked_answer *x = a, *y = b;

	return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The answers by the ranks of their workers; NULL without memory. */
static struct ranked_answer *ranked_answers(
	const struct dispatch *d, const struct queue_call *c, size_t *ret_n)
{
	const struct commons *all = d->commons;
	struct queue_answer a;
	struct ranked_answer *ranked;
	size_t n = 0;

	while (queue_answer(c, n, &a))
		n++;
	ranked = calloc(n + 1, sizeof(*ranked));
	for (size_t i = 0; ranked && i < n; i++) {
		const struct worker *w;

		(void)queue_answer(c, i, &a);
		w = all && a.worker < all->n_slots ? commons_worker(all, a.worker) : NULL;
		ranked[i] = (struct ranked_answer){ .answer = i, .rank = w ? w->rank : INT32_MAX };
	}
	if (ranked)
		qsort(ranked, n, sizeof(*ranked), by_rank);
	*ret_n = n;
	return ranked;
}

static void answer_call(struct dispatch_wait *x)
{
	struct json_writer *t = dispatch_text_begin(x->d);
	struct queue_answer a;
	size_t n = 0, most = x->workers ? SHARING_REPLY_BYTES : VARLINK_REPLY_BYTES;
	_cleanup_free_ struct ranked_answer *ranked = ranked_answers(x->d, x->wait.answers, &n);

	dispatch_put(t, "{\"answers\":[");
	for (size_t i = 0; ranked && i < n; i++) {
		if (i)
			dispatch_put(t, ",");
		(void)queue_answer(x->wait.answers, ranked[i].answer, &a);
		text_fitting(x->d, t, &a, n - 1 - i, most);
	}
	dispatch_put(t, "]}");
	if (!ranked)
		dispatch_no_memory(x->call);
	else if (!x->workers || !sharing_too_much_unread(x->call))
		dispatch_text_reply(x->d, x->call);
}

/* The numbers of the workers in list. 0, or non-zero after having answered the call. */
static int named_workers(
	const struct dispatch *d, struct varlink_call *call, const json_t *list, int **ret)
{
	struct commons *c = d->commons;
	size_t n = json_array_size(list), i, all = c ? (size_t)commons_count(c) : 0;
	_cleanup_free_ int *set = NULL;
	const json_t *name;

	if (!n || n > all)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT,
			       "workers: expected 1 to %zu workers, which this job has, got %zu",
			       all, n),
		       -EINVAL;
	set = calloc(n, sizeof(*set));
	if (!set)
		return dispatch_no_memory(call), -ENOMEM;
	/* A worker may be named before its first start. */
	if (!d->several)
		sharing_give_slots(sharing_of(d->sv));
	json_array_foreach (list, i, name) {
		set[i] = commons_slot_named(c, json_string_value(name));
		if (set[i] < 0)
			return sharing_fail(call, STATUS_INVALID_ARGUMENT,
				       "workers: there is no worker %.100s",
				       json_string_value(name)),
			       -EINVAL;
	}
	*ret = TAKE_PTR(set);
	return 0;
}

int dispatch_call_all(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	const json_t *list = flat_array(p, "workers");
	_cleanup_free_ int *workers = NULL;
	_cleanup_free_ void *owned = NULL;
	struct queue_bytes payload;
	struct error err = { 0 };
	struct dispatch_wait *x;
	int64_t timeout, answer;
	int r;

	if (!dispatch_is_job(d, call, flat_text(p, "job", NULL)) ||
		(list && named_workers(d, call, list, &workers) != 0))
		return 0;
	r = dispatch_bytes(p, "payload", &payload, &owned, &err);
	if (r < 0)
		return dispatch_refuse(call, r, &err);
	x = dispatch_wait_new(d, call, answer_call);
	if (!x)
		return 0;
	x->workers = endpoint->workers;
	timeout = flat_int(p, "timeout_ms", (int64_t)d->options.call_timeout_ms);
	answer = flat_int(p, "answer_timeout_ms", (int64_t)d->options.answer_timeout_ms);
	queue_worker_calls(d->q, dispatch_caller(endpoint, call), d->now_ms);
	queue_call(d->q, &x->wait, workers, json_array_size(list), &payload,
		dispatch_deadline(d, timeout), (uint64_t)answer, d->now_ms);
	return dispatch_wait_begun(x);
}
