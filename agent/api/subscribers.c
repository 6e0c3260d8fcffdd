/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/subscribers.h"

#include "agent/supervise/supervisor.h"
#include "common/text/json.h"

#include <errno.h>

/* Per answer: an event can carry a traceback, and answers have a size limit. */
enum { LISTEN_EVENTS_MAX = 200 };

struct listener {
	TAILQ_ENTRY(listener) link;
	struct listeners *all;
	struct varlink_call *call;
	enum listener_kind kind;
	int64_t since;		  /* the last event that was sent */
	struct loop_timer *timer; /* of a call with a time limit */
	int64_t limit_ms;	  /* how long its caller waited in all */
};

static void listener_free(struct listener *l)
{
	TAILQ_REMOVE(&l->all->list, l, link);
	loop_timer_free(l->timer);
	free(l);
}

static void listener_gone(void *arg)
{
	listener_free(arg);
}

static void listener_timeout(void *arg)
{
	struct listener *l = arg;

	if (l->kind == LISTEN_KILL) {
		end_run_timeout_asked(l->all->sv, l->limit_ms, "a wait that ends the run");
		return;
	}
	varlink_error(l->call, "DeadlineExceeded",
		json_pack("{s:s}", "message", "the job did not reach this state in time"));
	listener_free(l);
}

static bool listener_wants_events(const struct listener *l)
{
	return l->kind == LISTEN_WATCH || l->kind == LISTEN_EVENTS;
}

/* The next events for l, owned. */
static json_t *listener_events(struct listener *l, bool *ret_more)
{
	json_t *events = events_since(supervisor_events(l->all->sv), l->since, LISTEN_EVENTS_MAX);
	size_t n = json_array_size(events);

	if (n)
		l->since = json_get_int(json_array_get(events, n - 1), "seq", l->since);
	*ret_more = n == LISTEN_EVENTS_MAX;
	return events;
}

/* Sends one answer with what is new. Returns true when there is more. */
static bool listener_notify(struct listener *l)
{
	json_t *answer, *events;
	bool more;

	events = listener_events(l, &more);
	if (l->kind == LISTEN_EVENTS && !json_array_size(events)) {
		json_decref(events);
		return false;
	}
	answer = json_object();
	if (l->kind == LISTEN_WATCH)
		json_put(answer, "job", job_json(l->all->sv, false));
	json_put(answer, "events", events);
	varlink_notify(l->call, answer);
	return more;
}

/* Sends the events that are left and the last answer, and frees l. */
static void listener_finish(struct listener *l)
{
	json_t *answer = json_object(), *events = NULL;
	bool more = listener_wants_events(l);

	while (more) {
		events = listener_events(l, &more);
		if (more) {
			json_t *part = json_object();

			if (l->kind == LISTEN_WATCH)
				json_put(part, "job", job_json(l->all->sv, false));
			json_put(part, "events", events);
			varlink_notify(l->call, part);
		}
	}
	if (l->kind != LISTEN_EVENTS)
		json_put(answer, "job", job_json(l->all->sv, false));
	if (listener_wants_events(l))
		json_put(answer, "events", events);
	varlink_reply(l->call, answer);
	listener_free(l);
}

static bool listener_reached(const struct listener *l)
{
	if (l->kind == LISTEN_READY)
		return supervisor_ready(l->all->sv);
	return l->kind == LISTEN_RUNNING && supervisor_group(l->all->sv)->state == GROUP_RUNNING;
}

/* A slow reader has taken its answers: send it the next. */
static void listen_drained(void *arg)
{
	listen_changed(arg);
}

static void listen_tell(struct listeners *all)
{
	struct listener *l, *next;
	bool more = false;

	all->changed = false;
	for (l = TAILQ_FIRST(&all->list); l; l = next) {
		next = TAILQ_NEXT(l, link);
		if (listener_reached(l))
			listener_finish(l);
		else if (listener_wants_events(l) &&
			 !varlink_call_congested(l->call, listen_drained, all))
			more |= listener_notify(l);
	}
	if (more)
		listen_changed(all);
}

static void listen_flush(void *arg)
{
	listen_ahead(arg);
}

void listen_init(struct listeners *all, struct supervisor *sv)
{
	*all = (struct listeners){ .sv = sv };
	TAILQ_INIT(&all->list);
}

int listen_start(struct listeners *all, struct varlink_call *call, enum listener_kind kind,
	int64_t since, int64_t timeout_ms, int64_t waited_ms)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	*l = (struct listener){ .all = all, .call = call, .kind = kind, .since = since };
	/* Oldest first. elasticd's own stream is the oldest, so it gets changes before other
	 * listeners. */
	TAILQ_INSERT_TAIL(&all->list, l, link);
	if (timeout_ms >= 0) {
		if (loop_timer_new(supervisor_loop(all->sv), listener_timeout, l, &l->timer) < 0) {
			listener_free(l);
			return -ENOMEM;
		}
		loop_timer_arm(l->timer, (uint64_t)timeout_ms);
		l->limit_ms = waited_ms + timeout_ms;
	}
	varlink_call_on_gone(call, listener_gone, l);
	if (listener_reached(l) || (supervisor_ended(all->sv) && !listener_wants_events(l)))
		listener_finish(l);
	else if (listener_wants_events(l) && listener_notify(l))
		listen_changed(all);
	return 0;
}

void listen_changed(struct listeners *all)
{
	if (TAILQ_EMPTY(&all->list))
		return;
	all->changed = true;
	(void)!loop_defer(supervisor_loop(all->sv), listen_flush, all);
}

void listen_ahead(struct listeners *all)
{
	struct listener *l;

	/* Answers sent by this function call it again. */
	if (!all->changed || all->telling)
		return;
	all->telling = true;
	listen_tell(all);
	TAILQ_FOREACH (l, &all->list, link)
		if (listener_wants_events(l))
			varlink_call_flush(l->call);
	all->telling = false;
}

void listen_end(struct listeners *all)
{
	struct listener *l;

	listen_changed(all);
	listen_ahead(all);
	loop_cancel(supervisor_loop(all->sv), listen_flush, all);
	while ((l = TAILQ_FIRST(&all->list)))
		listener_finish(l);
}

void listen_fini(struct listeners *all)
{
	loop_cancel(supervisor_loop(all->sv), listen_flush, all);
}
