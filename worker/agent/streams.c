/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches and events: a connection each. In a child of fork() the descriptor is its parent's, so it
 * begins anew there: a watch after the last change that it knows of, events from then on.
 */
#include "worker/agent/worker_calls.h"

#include "common/text/json.h"

#include <string.h>

struct stream {
	struct elasticd *h;
	struct pool *pool; /* of the process that opened conn */
	struct conn *conn; /* NULL: none was to be had */
	char *key;	   /* of a watch; NULL: events */
	int64_t since;	   /* of a watch: the last revision that is known; -1: none */
	int over;	   /* the status that ended it */
	json_t *changes;   /* the last answer of a watch, handed out up to at */
	size_t at;
};

void remote_stream_close(void *stream)
{
	struct stream *s = stream;

	if (s->pool && pool_is_ours(s->pool))
		conn_drop(s->pool, s->conn);
	else
		conn_abandon(s->conn);
	if (s->pool)
		pool_unref(s->pool);
	json_decref(s->changes);
	free(s->key);
	free(s);
}

/* What a watch was told, to be handed out. One that was told no change knows how far it has come.
 */
static void stream_take(struct stream *s, const json_t *answer)
{
	json_decref(s->changes);
	s->changes = json_incref(json_get_array(answer, "changes"));
	s->at = 0;
	if (!json_array_size(s->changes))
		s->since = json_get_int(answer, "revision", s->since);
}

/* What happens after this is told. */
static int stream_begin(struct stream *s)
{
	_cleanup_json_ json_t *first = NULL;
	struct args a = ARGS_EMPTY;
	int r;

	if (s->key) {
		args_text(&a, "key", s->key);
		if (s->since >= 0)
			args_int(&a, "since", s->since);
	}
	r = remote_stream(s->h, s->pool, s->key ? "Watch" : "Events", &a, &s->conn, &first);
	if (r == 0 && s->key)
		stream_take(s, first);
	return r;
}

static int stream_new(struct elasticd *h, const char *key, int64_t since, void **ret)
{
	struct stream *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return fail_memory();
	s->h = h;
	s->since = since;
	s->key = key ? strdup(key) : NULL;
	s->pool = pool_ref(h);
	r = !s->pool || (key && !s->key) ? fail_memory() : stream_begin(s);
	if (r)
		remote_stream_close(s);
	else
		*ret = s;
	return r;
}

int remote_watch_open(struct elasticd *h, const char *key, int64_t since, void **ret)
{
	return stream_new(h, key, since, ret);
}

int remote_events_open(struct elasticd *h, void **ret)
{
	return stream_new(h, NULL, -1, ret);
}

int remote_stream_fd(const void *stream)
{
	const struct stream *s = stream;

	return s->conn ? conn_fd(s->conn) : -1;
}

/* In a child that got this stream from its parent. */
static int stream_renew(struct stream *s)
{
	conn_abandon(s->conn);
	s->conn = NULL;
	if (!pool_is_ours(s->pool))
		s->pool = pool_ref(s->h);
	return s->pool ? stream_begin(s) : fail_memory();
}

/* An error is for ever. */
static int stream_ends(struct stream *s, int r)
{
	if (r && r != ELASTICD_DEADLINE_EXCEEDED && r != ELASTICD_INTERRUPTED)
		s->over = r;
	return r;
}

/* Before anything is waited for. */
static int stream_ready(struct stream *s)
{
	if (s->over)
		return fail(s->over, "it is over");
	return s->conn && pool_is_ours(s->pool) ? 0 : stream_ends(s, stream_renew(s));
}

static int stream_receive(struct stream *s, int timeout_ms, json_t **ret)
{
	bool last = false;
	int r = remote_stream_next(s->h, s->pool, s->conn, WAIT_STREAM(timeout_ms), ret, &last);

	if (last)
		s->over = ELASTICD_CANCELLED;
	return stream_ends(s, r);
}

/* The time that is left of timeout_ms until end. */
static int time_left(int timeout_ms, int64_t end)
{
	int64_t left = end - clock_ms();

	return timeout_ms <= 0 ? timeout_ms : left < 0 ? 0 : (int)left;
}

int remote_watch_next(void *stream, int timeout_ms, struct elasticd_entry **ret)
{
	struct stream *s = stream;
	int64_t end = clock_end(timeout_ms);
	int r;

	if (s->at == json_array_size(s->changes)) {
		r = stream_ready(s);
		if (r)
			return r;
	}
	while (s->at == json_array_size(s->changes)) {
		_cleanup_json_ json_t *answer = NULL;

		r = stream_receive(s, time_left(timeout_ms, end), &answer);
		if (r)
			return r;
		stream_take(s, answer);
	}
	r = entries_take(s->changes, s->at, 1, ret);
	if (r == 0) {
		s->at++;
		s->since = (*ret)->revision;
	}
	return r;
}

static int event_take(const json_t *j, struct elasticd_event **ret)
{
	struct elasticd_event *e = calloc(1, sizeof(*e));
	const char *task = json_get_string(j, "worker", NULL);
	const json_t *error = json_get_object(j, "error");
	int r = 0;

	if (!e)
		return fail_memory();
	e->event = text_take(j, "event");
	e->text = text_take(j, "text");
	e->task = task ? strdup(task) : NULL;
	if (!e->event || !e->text || (task && !e->task))
		r = fail_memory();
	if (r == 0 && error)
		r = error_take(error, &e->error);
	if (r)
		elasticd_event_free(e);
	else
		*ret = e;
	return r;
}

int remote_events_next(void *stream, int timeout_ms, struct elasticd_event **ret)
{
	_cleanup_json_ json_t *answer = NULL;
	int r = stream_ready(stream);

	if (r == 0)
		r = stream_receive(stream, timeout_ms, &answer);
	return r ? r : event_take(json_get_object(answer, "event"), ret);
}
