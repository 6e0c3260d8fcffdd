/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/event_feed.h"

#include "common/loop/loop.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"

#include <errno.h>
#include <stdio.h>
#include <sys/queue.h>

/* Streams of one user that is no administrator: each event is sent to all of them at once. */
enum { OF_USER_MAX = 64 };

struct subscriber {
	LIST_ENTRY(subscriber) link;
	struct varlink_call *call;
	enum access_level level;
	uid_t uid;
	size_t missed;
	bool congested;
};

struct feed {
	LIST_HEAD(, subscriber) subscribers;
};

int feed_new(struct feed **ret)
{
	struct feed *f = calloc(1, sizeof(*f));

	if (!f)
		return -ENOMEM;
	LIST_INIT(&f->subscribers);
	*ret = f;
	return 0;
}

static void subscriber_free(struct subscriber *s)
{
	LIST_REMOVE(s, link);
	free(s);
}

struct feed *feed_free(struct feed *f)
{
	if (!f)
		return NULL;
	while (!LIST_EMPTY(&f->subscribers))
		subscriber_free(LIST_FIRST(&f->subscribers));
	free(f);
	return NULL;
}

static void on_gone(void *arg)
{
	subscriber_free(arg);
}

/* Returns owned, or NULL without memory. */
static char *events_text(json_t *events, size_t *ret_len)
{
	_cleanup_json_ json_t *answer = json_object();

	if (json_put(answer, "events", json_incref(events)) < 0)
		return NULL;
	return json_dump_text(answer, ret_len);
}

static void send_events(struct subscriber *s, json_t *events)
{
	json_t *answer = json_object();

	json_put(answer, "events", json_incref(events));
	varlink_notify(s->call, answer);
}

static void on_drained(void *arg)
{
	struct subscriber *s = arg;
	_cleanup_json_ json_t *events = json_array();
	char text[96];

	s->congested = false;
	if (!s->missed)
		return;
	snprintf(text, sizeof(text), "%zu events were missed: this reader is too slow", s->missed);
	json_add(events, json_pack("{s:i, s:I, s:s, s:s, s:{s:I}}", "seq", 0, "time_us",
				 (json_int_t)loop_real_us(), "event", "missed", "text", text,
				 "data", "missed", (json_int_t)s->missed));
	s->missed = 0;
	send_events(s, events);
}

static bool has_too_many(const struct feed *f, uid_t uid)
{
	const struct subscriber *s;
	int n = 0;

	LIST_FOREACH (s, &f->subscribers, link)
		n += s->uid == uid;
	return n >= OF_USER_MAX;
}

int feed_subscribe(struct feed *f, struct varlink_call *call, enum access_level level, uid_t uid)
{
	_cleanup_json_ json_t *none = json_array();
	struct subscriber *s;

	if (level != ACCESS_ALL && has_too_many(f, uid)) {
		varlink_error(call, "ResourceExhausted",
			manager_limit("streams of all events of one user", OF_USER_MAX));
		return 0;
	}
	s = calloc(1, sizeof(*s));
	if (!s || !none) {
		free(s);
		return -ENOMEM;
	}
	*s = (struct subscriber){ .call = call, .level = level, .uid = uid };
	LIST_INSERT_HEAD(&f->subscribers, s, link);
	varlink_call_on_gone(call, on_gone, s);
	/* The empty first answer tells the reader that it misses no event from here on. */
	send_events(s, none);
	return 0;
}

void feed_publish(struct feed *f, uid_t owner, json_t *events)
{
	_cleanup_free_ char *text = NULL;
	struct subscriber *s;
	struct subscriber *next;
	size_t len = 0;

	for (s = LIST_FIRST(&f->subscribers); s; s = next) {
		next = LIST_NEXT(s, link);
		if (!access_job(s->level, s->uid, owner))
			continue;
		if (!s->congested)
			s->congested = varlink_call_congested(s->call, on_drained, s);
		/* Once for all. */
		if (!s->congested && !text)
			text = events_text(events, &len);
		if (s->congested || !text)
			s->missed += json_array_size(events);
		else
			varlink_notify_text(s->call, text, len);
	}
}
