/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/agent/streams.h"
#include "worker/agent/answer_parts.h"
#include "worker/base/calls.h"
#include "worker/base/failure.h"
#include "worker/base/pool.h"
#include "worker/base/values.h"
#include "worker/base/waiting.h"

#include "common/text/json.h"

#include <string.h>

void stream_fini(struct stream *s)
{
	if (s->pool && pool_is_ours(s->pool))
		conn_drop(s->pool, s->conn);
	else
		conn_abandon(s->conn);
	if (s->pool)
		pool_unref(s->pool);
	json_decref(s->changes);
	free(s->key);
}

/* Changes to be returned. An answer without changes says which revision it is up to. */
static void stream_take_changes(struct stream *s, const json_t *answer)
{
	json_decref(s->changes);
	s->changes = json_incref(json_get_array(answer, "changes"));
	s->at = 0;
	if (!json_array_size(s->changes))
		s->since = json_get_int(answer, "revision", s->since);
}

/* Nothing that happens after this is missed. */
static enum elasticd_status stream_begin(struct stream *s)
{
	_cleanup_json_ json_t *first = NULL;
	enum elasticd_status status;
	struct params a = PARAMS_EMPTY;

	if (s->key) {
		params_text(&a, "key", s->key);
		if (s->since >= 0)
			params_int(&a, "since", s->since);
	}
	status = call_stream(s->h, s->pool, s->key ? "Watch" : "Events", &a, &s->conn, &first);
	if (!status && s->key)
		stream_take_changes(s, first);
	return status;
}

enum elasticd_status stream_init(
	struct stream *s, struct elasticd *h, const char *key, int64_t since)
{
	enum elasticd_status status;

	*s = (struct stream){ .h = h, .since = since };
	s->key = key ? strdup(key) : NULL;
	s->pool = pool_ref(h);
	status = !s->pool || (key && !s->key) ? fail_memory() : stream_begin(s);
	if (status)
		stream_fini(s);
	return status;
}

int stream_fd(const struct stream *s)
{
	return s->conn ? s->conn->fd : -1;
}

/* In a child that has the stream from its parent. */
static enum elasticd_status stream_renew(struct stream *s)
{
	conn_abandon(s->conn);
	s->conn = NULL;
	if (!pool_is_ours(s->pool))
		s->pool = pool_ref(s->h);
	return s->pool ? stream_begin(s) : fail_memory();
}

/* After an error the stream returns the same status for ever. */
static enum elasticd_status stream_result(struct stream *s, enum elasticd_status status)
{
	if (status && status != ELASTICD_STATUS_DEADLINE_EXCEEDED &&
		status != ELASTICD_STATUS_INTERRUPTED)
		s->over = status;
	return status;
}

/* Call it before each wait. */
static enum elasticd_status stream_ready(struct stream *s)
{
	if (s->over)
		return fail(s->over, "it has ended");
	if (s->conn && pool_is_ours(s->pool))
		return ELASTICD_STATUS_OK;
	return stream_result(s, stream_renew(s));
}

static enum elasticd_status stream_receive(struct stream *s, int timeout_ms, json_t **ret)
{
	bool last = false;
	enum elasticd_status status =
		call_stream_next(s->h, s->pool, s->conn, WAIT_STREAM(timeout_ms), ret, &last);

	if (last)
		s->over = ELASTICD_STATUS_CANCELLED;
	return stream_result(s, status);
}

enum elasticd_status stream_next_change(
	struct stream *s, int timeout_ms, struct elasticd_entry **ret)
{
	int64_t end = clock_end(timeout_ms);
	enum elasticd_status status = ELASTICD_STATUS_OK;

	if (s->at == json_array_size(s->changes))
		status = stream_ready(s);
	while (!status && s->at == json_array_size(s->changes)) {
		_cleanup_json_ json_t *answer = NULL;

		status = stream_receive(s, clock_left(end, timeout_ms), &answer);
		if (!status)
			stream_take_changes(s, answer);
	}
	if (!status)
		status = entries_take(s->changes, s->at, 1, ret);
	if (!status) {
		s->at++;
		s->since = (*ret)->revision;
	}
	return status;
}

static enum elasticd_status event_take(const json_t *j, struct elasticd_event **ret)
{
	struct elasticd_event *e = calloc(1, sizeof(*e));
	const char *worker = json_get_string(j, "worker", NULL);
	const json_t *error = json_get_object(j, "error");
	enum elasticd_status status = ELASTICD_STATUS_OK;

	if (!e)
		return fail_memory();
	e->event = text_take(j, "event");
	e->text = text_take(j, "text");
	e->worker = worker ? strdup(worker) : NULL;
	if (!e->event || !e->text || (worker && !e->worker))
		status = fail_memory();
	if (!status && error)
		status = error_take(error, &e->error);
	if (status)
		elasticd_event_free(e);
	else
		*ret = e;
	return status;
}

enum elasticd_status stream_next_event(
	struct stream *s, int timeout_ms, struct elasticd_event **ret)
{
	_cleanup_json_ json_t *answer = NULL;
	enum elasticd_status status = stream_ready(s);

	if (!status)
		status = stream_receive(s, timeout_ms, &answer);
	return status ? status : event_take(json_get_object(answer, "event"), ret);
}
