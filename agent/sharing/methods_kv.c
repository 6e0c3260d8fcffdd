/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/sharing/private.h"
#include "common/text/json.h"

#include <errno.h>
#include <inttypes.h>

/* For shorter answers the limit of each connection is enough. */
enum { LONG_VALUE = 4096 };

/* A request to the store, whose answer becomes the answer of a call. */
struct sharing_request {
	LIST_ENTRY(sharing_request) link; /* of a Get that may wait */
	bool get;
	struct varlink_call *call;
	struct kv_call *kv;
	void (*reply)(struct varlink_call *call, const struct store_answer *answer);
};

static void request_free(struct sharing_request *q)
{
	if (q->get)
		LIST_REMOVE(q, link);
	free(q);
}

static void request_answered(void *arg, const struct store_answer *answer)
{
	struct sharing_request *q = arg;
	struct commons *c = sharing_commons_of(q->call);
	bool lost = c->lost && q->get && answer->status == STATUS_UNAVAILABLE;

	if (answer->status == STATUS_OK)
		q->reply(q->call, answer);
	else
		sharing_fail_missing(
			c, q->call, answer->status, answer->message, &c->lost_slot, lost ? 1 : 0);
	request_free(q);
}

static void request_gone(void *arg)
{
	struct sharing_request *q = arg;

	kv_cancel(q->kv);
	request_free(q);
}

static struct sharing_request *request_new(struct varlink_call *call,
	void (*reply)(struct varlink_call *call, const struct store_answer *answer))
{
	struct sharing_request *q = calloc(1, sizeof(*q));

	if (q)
		*q = (struct sharing_request){ .call = call, .reply = reply };
	else
		sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	return q;
}

/* Ends a handler that starts a request; r: the result of kv's function. */
static int request_started(struct sharing_request *q, int r, const struct error *err)
{
	struct varlink_call *call = q->call;

	if (r == 0) {
		varlink_call_on_gone(call, request_gone, q);
		return 0;
	}
	request_free(q);
	if (r == -EINVAL)
		return sharing_fail(call, STATUS_INVALID_ARGUMENT, "%s", err->text);
	return sharing_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

static void reply_revision(struct varlink_call *call, const struct store_answer *answer)
{
	sharing_reply_int(call, "revision", answer->revision);
}

/* --- unread answers --- */

bool sharing_too_much_unread(struct varlink_call *call)
{
	const struct commons *c = sharing_commons_of(call);
	size_t most = sharing_unread_bytes(c);
	size_t own = varlink_call_account_bytes(call);

	if (own > SHARING_UNREAD_WORKER_BYTES)
		sharing_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"%zu bytes of answers wait for this worker to read them: expected at most %d",
			own, SHARING_UNREAD_WORKER_BYTES);
	else if (varlink_server_bytes(c->server) > most)
		sharing_fail(call, STATUS_RESOURCE_EXHAUSTED,
			"more than %zu bytes of answers wait for workers to read them", most);
	else
		return false;
	return true;
}

/* --- answers --- */

static void reply_entry(struct varlink_call *call, const struct store_answer *answer)
{
	_cleanup_(json_writer_fini) struct json_writer t = { .data = NULL };

	if (answer->entries[0].len >= LONG_VALUE && sharing_too_much_unread(call))
		return;
	json_write(&t, "{\"entry\":", 9);
	sharing_text_entry(&t, &answer->entries[0], false);
	json_write(&t, "}", 1);
	sharing_text_reply(call, &t);
}

static void reply_entries(struct varlink_call *call, const struct store_answer *answer)
{
	_cleanup_(json_writer_fini) struct json_writer t = { .data = NULL };

	if (sharing_too_much_unread(call))
		return;
	json_write(&t, "{\"entries\":[", 12);
	for (size_t i = 0; i < answer->n && t.len <= sharing_commons_of(call)->reply_bytes; i++) {
		if (i)
			json_write(&t, ",", 1);
		sharing_text_entry(&t, &answer->entries[i], false);
	}
	json_write_format(&t, "],\"revision\":%" PRId64 "}", answer->revision);
	sharing_text_reply(call, &t);
}

static void reply_deleted(struct varlink_call *call, const struct store_answer *answer)
{
	sharing_reply_int(call, "deleted", answer->deleted);
}

int sharing_put(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	_cleanup_free_ void *owned = NULL;
	struct sharing_request *q;
	struct error err = { 0 };
	const void *value;
	size_t len;

	if (sharing_bytes(call, p, &value, &len, &owned) != 0)
		return 0;
	q = request_new(call, reply_revision);
	if (!q)
		return 0;
	return request_started(q,
		kv_put(c->kv, flat_text(p, "key", ""), value, len, flat_bool(p, "overwrite"),
			flat_bool(p, "persistent"), request_answered, q, &q->kv, &err),
		&err);
}

int sharing_get(struct varlink_call *call, const struct flat *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	struct sharing_request *q = request_new(call, reply_entry);
	struct error err = { 0 };

	if (!q)
		return 0;
	q->get = flat_bool(p, "wait");
	if (q->get)
		LIST_INSERT_HEAD(&c->gets, q, link);
	return request_started(q,
		kv_get(c->kv, flat_text(p, "key", ""), q->get, flat_int(p, "timeout_ms", -1),
			request_answered, q, &q->kv, &err),
		&err);
}

bool commons_gets(const struct commons *c, int slot)
{
	const struct sharing_request *q;

	LIST_FOREACH (q, &c->gets, link)
		if (sharing_slot_of(q->call) == slot && kv_waits(q->kv))
			return true;
	return false;
}

int sharing_list(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	struct sharing_request *q = request_new(call, reply_entries);
	struct error err = { 0 };

	if (!q)
		return 0;
	return request_started(q,
		kv_list(c->kv, json_get_string(p, "key", ""), request_answered, q, &q->kv, &err),
		&err);
}

int sharing_delete(struct varlink_call *call, json_t *p, void *arg)
{
	struct commons *c = sharing_commons_of(call);
	struct sharing_request *q = request_new(call, reply_deleted);
	struct error err = { 0 };

	if (!q)
		return 0;
	return request_started(q,
		kv_delete(c->kv, json_get_string(p, "key", ""), request_answered, q, &q->kv, &err),
		&err);
}
