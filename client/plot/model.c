/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the plot from events. Starts of workers come from three places: "started" has the ranks
 * of a group, "worker-started" one worker, and "worker-ended" has the exact times of both.
 */
#include "client/plot/plot.h"

#include "common/base/array.h"
#include "common/text/json.h"
#include "common/text/ranks.h"

#include <errno.h>
#include <string.h>

/* Differences of times, and sums with a step of the axis, must not overflow: year 38,500. */
#define MODEL_LATEST_US (INT64_C(1) << 60)

/* Makes room for one more member; evaluates to it, zeroed, or NULL with p->error set. */
#define GROW(p, items, n, room)                                                            \
	({                                                                                 \
		__auto_type grow_at_ =                                                     \
			model_grow(p, (void **)&(items), &(n), &(room), sizeof(*(items))); \
		(__typeof__(items))grow_at_;                                               \
	})

static void *model_grow(struct plot *p, void **items, size_t *n, size_t *room, size_t size)
{
	char *at;

	if (*n == *room) {
		size_t more = *room ? 2 * *room : 8;
		void *grown = reallocarray(*items, more, size);

		if (!grown) {
			p->error = -ENOMEM;
			return NULL;
		}
		*items = grown;
		*room = more;
	}
	at = (char *)*items + (*n)++ * size;
	memset(at, 0, size);
	return at;
}

static void model_text(struct plot *p, char **at, const char *text)
{
	char *copy = strdup(text ? text : "");

	if (!copy) {
		p->error = -ENOMEM;
		return;
	}
	free(*at);
	*at = copy;
}

/* The time at key, by the clock of the host that leads; def where there is none that can be drawn.
 */
static int64_t model_time(const struct plot *p, const json_t *object, const char *key, int64_t def)
{
	int64_t at = json_get_int(object, key, 0);

	if (at <= 0 || at > MODEL_LATEST_US)
		return def;
	if (p->n_sources)
		at += p->sources[p->n_sources - 1].offset_us;
	return at > 0 ? at : def;
}

static void marks_fini(struct plot_marks *marks)
{
	for (size_t i = 0; i < marks->n; i++)
		free(marks->items[i].text);
	free(marks->items);
}

static void worker_fini(struct plot_worker *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->starts[i].text);
	free(w->starts);
	free(w->waits);
	free(w->name);
	marks_fini(&w->marks);
}

static void source_fini(struct plot_source *s)
{
	free(s->host);
	free(s->by_rank);
}

static void barrier_fini(struct plot_barrier *b)
{
	for (size_t i = 0; i < b->n; i++)
		ranks_fini(&b->waiters[i].ranks);
	free(b->waiters);
	free(b->text);
}

void plot_fini(struct plot *p)
{
	for (size_t i = 0; i < p->n_workers; i++)
		worker_fini(&p->workers[i]);
	for (size_t i = 0; i < p->n_phases; i++)
		free(p->phases[i].text);
	for (size_t i = 0; i < p->n_hosts; i++) {
		free(p->hosts[i].name);
		free(p->hosts[i].stays);
		marks_fini(&p->hosts[i].marks);
	}
	for (size_t i = 0; i < p->n_sources; i++)
		source_fini(&p->sources[i]);
	for (size_t i = 0; i < p->n_barriers; i++)
		barrier_fini(&p->barriers[i]);
	marks_fini(&p->marks);
	free(p->workers);
	free(p->phases);
	free(p->hosts);
	free(p->barriers);
	free(p->sources);
	free(p->job);
	free(p->run);
	free(p->result);
	free(p->message);
	free(p->root.worker);
	free(p->root.text);
	*p = (struct plot){ 0 };
}

void plot_source(struct plot *p, const char *host)
{
	struct plot_source *s = GROW(p, p->sources, p->n_sources, p->room_sources);

	if (s && host)
		model_text(p, &s->host, host);
}

static struct plot_source *source_of(struct plot *p)
{
	if (!p->n_sources)
		plot_source(p, NULL);
	return p->n_sources ? &p->sources[p->n_sources - 1] : NULL;
}

static bool is_first(const struct plot *p)
{
	return p->n_sources == 1;
}

/* Where the rank of the source is noted; NULL without memory. */
static size_t *rank_at(struct plot *p, struct plot_source *s, int rank)
{
	size_t n = s->n_by_rank ? s->n_by_rank : 64;
	size_t *grown;

	while (n <= (size_t)rank)
		n *= 2;
	if (n > s->n_by_rank) {
		grown = array_grow(s->by_rank, s->n_by_rank, n, sizeof(*grown));
		if (!grown) {
			p->error = -ENOMEM;
			return NULL;
		}
		s->by_rank = grown;
		s->n_by_rank = n;
	}
	return &s->by_rank[rank];
}

/* The worker of the present source; NULL for a rank that no worker has, and without memory. */
static struct plot_worker *worker_of(struct plot *p, int rank)
{
	size_t *at = rank >= 0 && rank <= RANKS_MAX ? rank_at(p, source_of(p), rank) : NULL;
	struct plot_worker *w;

	if (!at)
		return NULL;
	if (*at)
		return &p->workers[*at - 1];
	w = GROW(p, p->workers, p->n_workers, p->room_workers);
	if (!w)
		return NULL;
	w->source = (int)p->n_sources - 1;
	w->rank = rank;
	*at = p->n_workers;
	return w;
}

void plot_name(struct plot *p, int rank, const char *role, int index)
{
	struct plot_worker *w = source_of(p) ? worker_of(p, rank) : NULL;
	char name[128];

	snprintf(name, sizeof(name), "%.100s:%d", role, index);
	if (w && (!w->name || strcmp(w->name, name) != 0))
		model_text(p, &w->name, name);
}

static void mark_add(struct plot *p, struct plot_marks *marks, enum plot_kind kind, int64_t at,
	int attempt, const char *text)
{
	struct plot_mark *m = GROW(p, marks->items, marks->n, marks->room);

	if (!m)
		return;
	*m = (struct plot_mark){ .kind = kind, .at = at, .attempt = attempt };
	model_text(p, &m->text, text);
}

/* --- starts --- */

static struct plot_start *start_open(const struct plot_worker *w)
{
	struct plot_start *s = w->n ? &w->starts[w->n - 1] : NULL;

	return s && !s->to ? s : NULL;
}

/* Ends a start that no event has ended. */
static void start_close(const struct plot_source *src, struct plot_worker *w, int64_t to)
{
	struct plot_start *s = start_open(w);
	int64_t stopping = w->stopping > src->stopping ? w->stopping : src->stopping;

	if (!s)
		return;
	s->to = to > s->from ? to : s->from;
	s->running = src->running && src->running < s->to ? src->running : s->to;
	if (s->running < s->from)
		s->running = s->from;
	s->stopping = stopping > s->running && stopping < s->to ? stopping : s->to;
	w->stopping = 0;
}

static void start_begin(struct plot *p, struct plot_worker *w, int attempt, int64_t from)
{
	struct plot_start *s = start_open(w);

	if (!s)
		s = GROW(p, w->starts, w->n, w->room);
	if (!s)
		return;
	s->attempt = attempt;
	s->from = from;
}

static void model_started(struct plot *p, const json_t *event, int64_t at, int attempt)
{
	const char *text = json_get_string(json_get_object(event, "data"), "ranks", NULL);
	struct plot_source *src = source_of(p);
	struct ranks ranks = { 0 };

	if (!text || ranks_parse(&ranks, text, NULL, NULL) < 0)
		return;
	for (int r = ranks_next(&ranks, -1); r >= 0; r = ranks_next(&ranks, r)) {
		struct plot_worker *w = worker_of(p, r);

		if (w && !start_open(w))
			start_begin(p, w, attempt, src->starting ? src->starting : at);
	}
	ranks_fini(&ranks);
}

static enum plot_end model_end(const json_t *worker)
{
	const json_t *exit = json_get_object(worker, "exit");

	if (!strcmp(json_get_string(worker, "state", ""), "stopped"))
		return PLOT_STOPPED;
	return json_get_int(exit, "code", -1) == 0 ? PLOT_SUCCEEDED : PLOT_FAILED;
}

/* "worker-started", "worker-restarted", "worker-ended". */
static void model_worker(struct plot *p, const json_t *event, int64_t at, int attempt, bool ended)
{
	const json_t *data = json_get_object(event, "data");
	int rank = (int)json_get_int(data, "rank", -1);
	struct plot_worker *w = worker_of(p, rank);
	struct plot_start *s;

	if (!w)
		return;
	plot_name(p, rank, json_get_string(data, "role", "?"), (int)json_get_int(data, "index", 0));
	start_begin(p, w, attempt, model_time(p, data, "started_us", at));
	s = start_open(w);
	if (!s || !ended)
		return;
	start_close(source_of(p), w, model_time(p, data, "ended_us", at));
	s->end = model_end(data);
	model_text(p, &s->text, json_get_string(event, "text", ""));
}

static void model_agent_lost(struct plot *p, int64_t at)
{
	int source = (int)p->n_sources - 1;

	for (size_t i = 0; i < p->n_workers; i++) {
		struct plot_worker *w = &p->workers[i];
		struct plot_start *s = w->source == source ? start_open(w) : NULL;

		if (!s)
			continue;
		start_close(source_of(p), w, at);
		s->end = PLOT_LOST;
		model_text(p, &s->text, "was lost with its agent");
	}
}

/* --- the group --- */

static const char *phase_name(const char *state)
{
	static const char *const names[] = { "pending", "rendezvous", "starting", "running",
		"stopping", "backoff" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(state, names[i]))
			return names[i];
	return NULL; /* the run is over */
}

static void model_state(struct plot *p, const json_t *event, int64_t at, int attempt)
{
	const char *to = json_get_string(json_get_object(event, "data"), "to", "");
	struct plot_source *src = source_of(p);
	struct plot_phase *phase;

	if (!strcmp(to, "starting")) {
		src->starting = at;
		src->running = src->stopping = 0;
		/* Other events may carry the number of an attempt that never comes. */
		if (attempt >= p->attempts)
			p->attempts = attempt + 1;
	} else if (!strcmp(to, "running"))
		src->running = at;
	else if (!strcmp(to, "stopping"))
		src->stopping = at;
	if (!is_first(p))
		return;
	if (p->n_phases && !p->phases[p->n_phases - 1].to)
		p->phases[p->n_phases - 1].to = at;
	if (!phase_name(to))
		return;
	phase = GROW(p, p->phases, p->n_phases, p->room_phases);
	if (!phase)
		return;
	*phase = (struct plot_phase){ .attempt = attempt, .state = phase_name(to), .from = at };
	model_text(p, &phase->text, json_get_string(event, "text", ""));
}

static void model_verdict(struct plot *p, const json_t *event)
{
	const json_t *data = json_get_object(event, "data");
	const json_t *root = json_get_object(data, "root_cause");
	char name[128];

	if (!data)
		return;
	model_text(p, &p->result, json_get_string(data, "result", "?"));
	model_text(p, &p->message, json_get_string(data, "message", ""));
	p->exit_status = (int)json_get_int(data, "exit_status", 0);
	if (!root)
		return;
	p->root.attempt = (int)json_get_int(root, "attempt", 0);
	p->root.rank = (int)json_get_int(root, "rank", -1);
	p->root.at = model_time(p, root, "time_us", 0);
	snprintf(name, sizeof(name), "%.100s:%d", json_get_string(root, "role", "?"),
		(int)json_get_int(root, "index", 0));
	model_text(p, &p->root.worker, name);
	model_text(p, &p->root.text, json_get_string(root, "message", ""));
}

static struct plot_host *host_of(struct plot *p, const char *name)
{
	struct plot_host *h;

	for (size_t i = 0; i < p->n_hosts; i++)
		if (!strcmp(p->hosts[i].name, name))
			return &p->hosts[i];
	h = GROW(p, p->hosts, p->n_hosts, p->room_hosts);
	if (h)
		model_text(p, &h->name, name);
	if (h && !h->name)
		p->n_hosts--;
	return h && h->name ? h : NULL;
}

static void model_host(struct plot *p, const json_t *event, int64_t at)
{
	const char *name = json_get_string(event, "event", "");
	const char *host = json_get_string(json_get_object(event, "data"), "host", "?");
	struct plot_host *h = host_of(p, host);
	struct plot_stay *last = h && h->n ? &h->stays[h->n - 1] : NULL;

	if (!h)
		return;
	mark_add(p, &h->marks, plot_kind_of(name), at, (int)json_get_int(event, "attempt", -1),
		json_get_string(event, "text", ""));
	if (!strcmp(name, "host-left") && last && !last->to)
		last->to = at;
	if (!strcmp(name, "host-joined") && (!last || last->to)) {
		last = GROW(p, h->stays, h->n, h->room);
		if (last)
			last->from = at;
	}
}

/* --- barriers --- */

static void model_barrier(struct plot *p, const json_t *event, int64_t at)
{
	const json_t *waits = json_get_array(json_get_object(event, "data"), "waits"), *wait;
	struct plot_barrier *b = GROW(p, p->barriers, p->n_barriers, p->room_barriers);
	size_t i;

	if (!b)
		return;
	b->to = at;
	b->waiters = calloc(json_array_size(waits) + 1, sizeof(*b->waiters));
	if (!b->waiters)
		p->error = -ENOMEM;
	model_text(p, &b->text, json_get_string(event, "text", ""));
	json_array_foreach (waits, i, wait) {
		int64_t from = model_time(p, wait, "since_us", 0);

		if (!b->waiters || !from || from >= at ||
			ranks_parse(&b->waiters[b->n].ranks, json_get_string(wait, "ranks", ""),
				NULL, NULL) < 0)
			continue;
		b->waiters[b->n++].from = from;
	}
}

/* Whether w ran at that time: in another attempt a worker of another host may have its rank. */
static bool worker_ran(const struct plot_worker *w, int64_t at)
{
	size_t low = 0, high = w->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (w->starts[mid].to < at)
			low = mid + 1;
		else
			high = mid;
	}
	return low < w->n && w->starts[low].from <= at;
}

static int wait_order(const void *a, const void *b)
{
	const struct plot_wait *x = a, *y = b;

	return (x->from > y->from) - (x->from < y->from);
}

/* Gives workers their waits; all starts have ended. */
static void model_waits(struct plot *p, size_t barrier)
{
	const struct plot_barrier *b = &p->barriers[barrier];

	for (size_t i = 0; i < p->n_workers; i++) {
		struct plot_worker *w = &p->workers[i];

		for (size_t k = 0; k < b->n; k++) {
			struct plot_wait *wait;

			if (!ranks_contains(&b->waiters[k].ranks, w->rank) ||
				!worker_ran(w, b->waiters[k].from))
				continue;
			wait = GROW(p, w->waits, w->n_waits, w->room_waits);
			if (wait)
				*wait = (struct plot_wait){ b->waiters[k].from, b->to, barrier };
		}
	}
}

/* --- clocks --- */

void plot_clock(struct plot *p, const json_t *event)
{
	int64_t offset = json_get_int(json_get_object(event, "data"), "offset_us", 0);
	struct plot_source *s = source_of(p);

	if (!s || !p->several)
		return;
	s->aligned = true;
	if (offset > -MODEL_LATEST_US && offset < MODEL_LATEST_US)
		s->offset_us = offset;
}

/* --- marks --- */

static void model_mark(struct plot *p, const json_t *event, int64_t at, int attempt)
{
	const char *name = json_get_string(event, "event", "");
	const json_t *data = json_get_object(event, "data");
	int rank = (int)json_get_int(event, "rank", -1);
	enum plot_kind kind = plot_kind_of(name);
	struct plot_worker *w = NULL;

	/* The bar of a worker that ended with the others says so. */
	if (kind == PLOT_NONE ||
		(!strcmp(name, "worker-failed") && json_get_bool(data, "collateral", false)))
		return;
	if (kind == PLOT_FAILURE)
		at = model_time(p, data, "time_us", at);
	if (strcmp(name, "worker-failed-elsewhere") != 0)
		w = worker_of(p, rank);
	if (w && (!strcmp(name, "worker-stopping") || !strcmp(name, "worker-failing")))
		w->stopping = at;
	mark_add(p, w ? &w->marks : &p->marks, kind, at, attempt,
		json_get_string(event, "text", ""));
}

void plot_add(struct plot *p, const json_t *event)
{
	const char *name = json_get_string(event, "event", NULL);
	int attempt = (int)json_get_int(event, "attempt", -1);
	int64_t at;

	if (!name || !source_of(p))
		return;
	if (!strcmp(name, "clock") && source_of(p)->aligned)
		plot_clock(p, event);
	at = model_time(p, event, "time_us", 0);
	if (!at)
		return;
	p->events++;
	if (!p->from || at < p->from)
		p->from = at;
	if (at > p->to)
		p->to = at;
	if (!p->run) {
		model_text(p, &p->job, json_get_string(event, "job", "?"));
		model_text(p, &p->run, json_get_string(event, "run", ""));
	}
	if (!strcmp(name, "state"))
		model_state(p, event, at, attempt);
	else if (!strcmp(name, "started"))
		model_started(p, event, at, attempt);
	else if (!strcmp(name, "worker-started") || !strcmp(name, "worker-restarted"))
		model_worker(p, event, at, attempt, false);
	else if (!strcmp(name, "worker-ended"))
		model_worker(p, event, at, attempt, true);
	else if (!strcmp(name, "ended") && (is_first(p) || !p->result))
		model_verdict(p, event);
	else if (!strcmp(name, "barrier"))
		model_barrier(p, event, at);
	else if (!strcmp(name, "agent-lost"))
		model_agent_lost(p, at);
	else if (!strcmp(name, "restart") || !strcmp(name, "worker-restart"))
		p->restarts++; /* of a group of several hosts only the agent that leads says it */
	if (!strncmp(name, "host-", 5))
		model_host(p, event, at);
	else
		model_mark(p, event, at, attempt);
}

/* --- the end --- */

static int mark_order(const void *a, const void *b)
{
	const struct plot_mark *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static int worker_order(const void *a, const void *b)
{
	const struct plot_worker *x = a, *y = b;

	return x->source != y->source ? x->source - y->source
				      : (x->rank > y->rank) - (x->rank < y->rank);
}

static void marks_sort(struct plot_marks *marks)
{
	if (marks->n)
		qsort(marks->items, marks->n, sizeof(*marks->items), mark_order);
}

/* Turns the mark of the failure that the verdict names into that of the root cause; adds one where
 * the events have none. */
static void model_root(struct plot *p)
{
	struct plot_worker *at = NULL;

	for (size_t i = 0; i < p->n_workers && p->root.worker; i++) {
		struct plot_worker *w = &p->workers[i];

		if (w->rank != p->root.rank)
			continue;
		at = w;
		for (size_t k = 0; k < w->marks.n; k++)
			if (w->marks.items[k].kind == PLOT_FAILURE &&
				w->marks.items[k].attempt == p->root.attempt) {
				w->marks.items[k].kind = PLOT_ROOT;
				p->root.at = w->marks.items[k].at;
				return;
			}
	}
	if (p->root.worker && p->root.at)
		mark_add(p, at ? &at->marks : &p->marks, PLOT_ROOT, p->root.at, p->root.attempt,
			p->root.text);
}

static void model_bounds(struct plot *p)
{
	for (size_t i = 0; i < p->n_workers; i++)
		for (size_t k = 0; k < p->workers[i].n; k++) {
			const struct plot_start *s = &p->workers[i].starts[k];

			if (s->from < p->from)
				p->from = s->from;
			if (s->to > p->to)
				p->to = s->to;
		}
}

/* Ends a start whose agent wrote nothing of its end, because its host was lost. */
static void model_host_lost(struct plot *p, struct plot_worker *w)
{
	const struct plot_source *src = &p->sources[w->source];
	struct plot_start *s = start_open(w);

	for (size_t i = 0; s && src->host && i < p->n_hosts; i++) {
		const struct plot_host *h = &p->hosts[i];

		if (strcmp(h->name, src->host) != 0 || !h->n || h->stays[h->n - 1].to <= s->from)
			continue;
		start_close(src, w, h->stays[h->n - 1].to);
		s->end = PLOT_LOST;
		model_text(p, &s->text, "was lost with its host");
	}
}

int plot_finish(struct plot *p, int64_t now_us)
{
	int64_t end = now_us > p->to && !p->result ? now_us : p->to;

	model_root(p);
	for (size_t i = 0; i < p->n_workers; i++) {
		struct plot_worker *w = &p->workers[i];

		model_host_lost(p, w);
		start_close(&p->sources[w->source], w, end);
		marks_sort(&w->marks);
	}
	for (size_t i = 0; i < p->n_barriers; i++)
		model_waits(p, i);
	/* The barriers are in the order of the sources. */
	for (size_t i = 0; i < p->n_workers; i++)
		if (p->workers[i].n_waits)
			qsort(p->workers[i].waits, p->workers[i].n_waits, sizeof(struct plot_wait),
				wait_order);
	if (p->n_workers)
		qsort(p->workers, p->n_workers, sizeof(*p->workers), worker_order);
	for (size_t i = 0; i < p->n_hosts; i++) {
		struct plot_host *h = &p->hosts[i];

		if (h->n && !h->stays[h->n - 1].to)
			h->stays[h->n - 1].to = end;
		marks_sort(&h->marks);
	}
	if (p->n_phases && !p->phases[p->n_phases - 1].to)
		p->phases[p->n_phases - 1].to = end;
	marks_sort(&p->marks);
	p->to = end;
	model_bounds(p);
	if (p->to <= p->from)
		p->to = p->from + 1;
	return p->error;
}
