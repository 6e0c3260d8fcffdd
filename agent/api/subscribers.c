/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/subscribers.h"

#include "agent/supervise/supervisor.h"
#include "common/text/json.h"

#include <errno.h>

/* Per answer: an event can carry a traceback, and answers have a size limit. */
enum { SUBSCRIBERS_EVENTS_MAX = 200 };

struct subscriber {
	TAILQ_ENTRY(subscriber) link;
	struct subscribers *all;
	struct varlink_call *call;
	enum subscriber_kind kind;
	int64_t since;		  /* the last event that was sent */
	struct loop_timer *timer; /* of a call with a time limit */
	int64_t limit_ms;	  /* how long its caller waits in all */
};

static void subscriber_free(struct subscriber *s)
{
	TAILQ_REMOVE(&s->all->list, s, link);
	loop_timer_free(s->timer);
	free(s);
}

static void subscriber_gone(void *arg)
{
	subscriber_free(arg);
}

static void subscriber_timeout(void *arg)
{
	struct subscriber *s = arg;

	if (s->kind == SUBSCRIBER_KILL) {
		end_run_timeout_asked(s->all->sv, s->limit_ms, "a wait that ends the run");
		return;
	}
	varlink_error(s->call, "DeadlineExceeded",
		json_pack("{s:s}", "message", "the job did not reach this state in time"));
	subscriber_free(s);
}

static bool subscriber_wants_events(const struct subscriber *s)
{
	return s->kind == SUBSCRIBER_WATCH || s->kind == SUBSCRIBER_EVENTS;
}

/* The next events for s, owned. */
static json_t *subscriber_events(struct subscriber *s, bool *ret_more)
{
	json_t *events =
		events_since(supervisor_events(s->all->sv), s->since, SUBSCRIBERS_EVENTS_MAX);
	size_t n = json_array_size(events);

	if (n)
		s->since = json_get_int(json_array_get(events, n - 1), "seq", s->since);
	*ret_more = n == SUBSCRIBERS_EVENTS_MAX;
	return events;
}

/* Sends one answer with what is new. Returns true when there is more. */
static bool subscriber_notify(struct subscriber *s)
{
	json_t *answer, *events;
	bool more;

	events = subscriber_events(s, &more);
	if (s->kind == SUBSCRIBER_EVENTS && !json_array_size(events)) {
		json_decref(events);
		return false;
	}
	answer = json_object();
	if (s->kind == SUBSCRIBER_WATCH)
		json_put(answer, "job", job_json(s->all->sv, false));
	json_put(answer, "events", events);
	varlink_notify(s->call, answer);
	return more;
}

/* Sends the events that are left and the last answer, and frees s. */
static void subscriber_finish(struct subscriber *s)
{
	json_t *answer = json_object(), *events = NULL;
	bool more = subscriber_wants_events(s);

	while (more) {
		events = subscriber_events(s, &more);
		if (more) {
			json_t *part = json_object();

			if (s->kind == SUBSCRIBER_WATCH)
				json_put(part, "job", job_json(s->all->sv, false));
			json_put(part, "events", events);
			varlink_notify(s->call, part);
		}
	}
	if (s->kind != SUBSCRIBER_EVENTS)
		json_put(answer, "job", job_json(s->all->sv, false));
	if (subscriber_wants_events(s))
		json_put(answer, "events", events);
	varlink_reply(s->call, answer);
	subscriber_free(s);
}

static bool subscriber_reached(const struct subscriber *s)
{
	if (s->kind == SUBSCRIBER_READY)
		return supervisor_ready(s->all->sv);
	return s->kind == SUBSCRIBER_RUNNING &&
	       supervisor_group(s->all->sv)->state == GROUP_RUNNING;
}

/* A slow reader has taken its answers. */
static void subscribers_drained(void *arg)
{
	subscribers_changed(arg);
}

static void subscribers_notify_all(struct subscribers *all)
{
	struct subscriber *s, *next;
	bool more = false;

	all->changed = false;
	for (s = TAILQ_FIRST(&all->list); s; s = next) {
		next = TAILQ_NEXT(s, link);
		if (subscriber_reached(s))
			subscriber_finish(s);
		else if (subscriber_wants_events(s) &&
			 !varlink_call_congested(s->call, subscribers_drained, all))
			more |= subscriber_notify(s);
	}
	if (more)
		subscribers_changed(all);
}

static void subscribers_deferred(void *arg)
{
	subscribers_notify(arg);
}

void subscribers_init(struct subscribers *all, struct supervisor *sv)
{
	*all = (struct subscribers){ .sv = sv };
	TAILQ_INIT(&all->list);
}

int subscribers_add(struct subscribers *all, struct varlink_call *call, enum subscriber_kind kind,
	int64_t since, int64_t timeout_ms, int64_t waited_ms)
{
	struct subscriber *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	*s = (struct subscriber){ .all = all, .call = call, .kind = kind, .since = since };
	/* elasticd's own stream is the oldest, so it gets changes before the others. */
	TAILQ_INSERT_TAIL(&all->list, s, link);
	if (timeout_ms >= 0) {
		if (loop_timer_new(supervisor_loop(all->sv), subscriber_timeout, s, &s->timer) <
			0) {
			subscriber_free(s);
			return -ENOMEM;
		}
		loop_timer_arm(s->timer, (uint64_t)timeout_ms);
		s->limit_ms = waited_ms + timeout_ms;
	}
	varlink_call_on_gone(call, subscriber_gone, s);
	if (subscriber_reached(s) || (supervisor_ended(all->sv) && !subscriber_wants_events(s)))
		subscriber_finish(s);
	else if (subscriber_wants_events(s) && subscriber_notify(s))
		subscribers_changed(all);
	return 0;
}

void subscribers_changed(struct subscribers *all)
{
	if (TAILQ_EMPTY(&all->list))
		return;
	all->changed = true;
	(void)!loop_defer(supervisor_loop(all->sv), subscribers_deferred, all);
}

void subscribers_notify(struct subscribers *all)
{
	struct subscriber *s;

	/* Answers sent by this function call it again. */
	if (!all->changed || all->notifying)
		return;
	all->notifying = true;
	subscribers_notify_all(all);
	TAILQ_FOREACH (s, &all->list, link)
		if (subscriber_wants_events(s))
			varlink_call_flush(s->call);
	all->notifying = false;
}

void subscribers_end(struct subscribers *all)
{
	struct subscriber *s;

	subscribers_changed(all);
	subscribers_notify(all);
	loop_cancel(supervisor_loop(all->sv), subscribers_deferred, all);
	while ((s = TAILQ_FIRST(&all->list)))
		subscriber_finish(s);
}

void subscribers_fini(struct subscribers *all)
{
	loop_cancel(supervisor_loop(all->sv), subscribers_deferred, all);
}
