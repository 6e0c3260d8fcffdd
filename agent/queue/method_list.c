/* SPDX-License-Identifier: Apache-2.0 */
/* List, Stats. */
#include "agent/queue/private.h"
#include "common/text/json.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_DEFAULT = 1000, LIST_SCAN_TASKS = 512 };

/* A bit for each state. */
static unsigned states_of(const json_t *list)
{
	const json_t *name;
	unsigned states = 0;
	size_t i;

	json_array_foreach (list, i, name)
		for (unsigned s = 0; s < QUEUE_N_STATES; s++)
			if (!strcmp(json_string_value(name), dispatch_state_name(s)))
				states |= 1u << s;
	return list ? states : ~0u;
}

/* A List under way. It checks some tasks in each turn of the loop, since there may be very many
 * tasks, of which it wants few. */
struct dispatch_listing {
	TAILQ_ENTRY(dispatch_listing) link;
	struct dispatch *d;
	struct varlink_call *call;
	char *queue; /* NULL: of all */
	unsigned states;
	int64_t limit, n, at; /* n: how many it has; at: the last task that it has checked */
	bool more, workers;
	struct json_writer text;
};

static void list_turn(void *arg);

static void listing_free(struct dispatch_listing *l)
{
	struct dispatch *d = l->d;

	TAILQ_REMOVE(&d->listings, l, link);
	if (TAILQ_EMPTY(&d->listings))
		loop_cancel(supervisor_loop(d->sv), list_turn, d);
	json_writer_fini(&l->text);
	free(l->queue);
	free(l);
}

static void listing_gone(void *arg)
{
	listing_free(arg);
}

static bool listing_wants(const struct dispatch_listing *l, const struct queue_outcome *o)
{
	return l->states & 1u << o->state && (!l->queue || !strcmp(o->queue, l->queue));
}

/* True at the end of the tasks, or when the answer is full. */
static bool listing_scan(struct dispatch_listing *l)
{
	struct queue_outcome o;

	for (int i = 0; i < LIST_SCAN_TASKS; i++) {
		if (!queue_after(l->d->q, NULL, l->at, &o))
			return true;
		l->at = o.task;
		if (!listing_wants(l, &o))
			continue;
		l->more = l->n == l->limit || l->text.len >= DISPATCH_ANSWER_BYTES;
		if (l->more)
			return true;
		if (l->n++)
			dispatch_put(&l->text, ",");
		dispatch_text_info(l->d, &l->text, &o);
	}
	return false;
}

static void listing_answer(struct dispatch_listing *l)
{
	if (l->more)
		dispatch_put(&l->text, "],\"more\":true}");
	else
		dispatch_put(&l->text, "],\"more\":false}");
	if (!l->workers || !sharing_too_much_unread(l->call))
		sharing_text_reply(l->call, &l->text);
	listing_free(l);
}

/* Serves the first List only, so that at most one has its answer in memory. */
static void list_turn(void *arg)
{
	struct dispatch *d = arg;
	struct dispatch_listing *l = TAILQ_FIRST(&d->listings);
	bool done = listing_scan(l);

	if (done)
		listing_answer(l);
	while ((l = TAILQ_FIRST(&d->listings)) &&
		loop_defer(supervisor_loop(d->sv), list_turn, d) < 0) {
		/* Without memory for another turn, all end in this one. */
		if (listing_scan(l))
			listing_answer(l);
	}
}

int dispatch_list(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	const char *queue = json_get_string(p, "queue", NULL);
	struct dispatch_listing *l;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)))
		return 0;
	l = malloc(sizeof(*l));
	if (!l)
		return dispatch_no_memory(call);
	*l = (struct dispatch_listing){
		.d = d,
		.call = call,
		.queue = queue ? strdup(queue) : NULL,
		.states = states_of(json_get_array(p, "states")),
		.limit = json_get_int(p, "limit", LIST_DEFAULT),
		.at = json_get_int(p, "after", -1),
		.workers = endpoint->workers,
	};
	if (queue && !l->queue) {
		free(l);
		return dispatch_no_memory(call);
	}
	dispatch_put(&l->text, "{\"tasks\":[");
	varlink_call_on_gone(call, listing_gone, l);
	TAILQ_INSERT_TAIL(&d->listings, l, link);
	if (TAILQ_FIRST(&d->listings) == l)
		list_turn(d);
	return 0;
}

int dispatch_stats(struct varlink_call *call, json_t *p, void *arg)
{
	struct dispatch_endpoint *endpoint = arg;
	struct dispatch *d = endpoint->d;
	struct queue_stats s;
	json_t *stats, *answer;

	if (!dispatch_is_job(d, call, json_get_string(p, "job", NULL)))
		return 0;
	queue_stats(d->q, json_get_string(p, "queue", NULL), &s);
	stats = json_object();
	for (unsigned i = 0; i < QUEUE_N_STATES; i++)
		json_put_int(stats, dispatch_state_name(i), (int64_t)s.n[i]);
	json_put_int(stats, "put_back", (int64_t)s.put_back);
	json_put_int(stats, "bytes", (int64_t)s.bytes);
	json_put_int(stats, "waiting", (int64_t)s.waiting);
	json_put_int(stats, "workers", (int64_t)s.workers);
	json_put_int(stats, "free", (int64_t)s.free);
	if (s.has_error)
		json_put(stats, "error", dispatch_error_json(d, &s.error));
	json_put(stats, "closed", json_boolean(s.closed));
	answer = json_object();
	json_put(answer, "stats", stats);
	return varlink_reply(call, answer);
}
