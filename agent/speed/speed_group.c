/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/speed_group.h"

#include "agent/speed/batch.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP_LOOKS = 4 * BATCH_LOOKS }; /* that wait for other hosts; later ones replace them */

struct group_look {
	uint64_t number, count;
	int64_t last;
};

/* The worker of one rank. */
struct group_pace {
	bool alive, rests;
	size_t role;
	uint64_t n; /* looks that came; the newest are kept */
	struct group_look looks[GROUP_LOOKS];
	struct pace pace;
};

struct speed_group {
	struct speed_group_options opt;
	struct group_pace *workers; /* by rank */
	int n_workers;
	uint64_t next;		 /* the look that is compared next; 0: none came yet */
	bool *apart;		 /* by role: its workers do not wait for each other */
	struct pace_worker *all; /* room for a comparison */
};

struct speed_group *speed_group_new(const struct speed_group_options *opt)
{
	struct speed_group *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->opt = *opt;
	g->apart = calloc(opt->n_roles, sizeof(*g->apart));
	return g->apart ? g : speed_group_free(g);
}

struct speed_group *speed_group_free(struct speed_group *g)
{
	if (!g)
		return NULL;
	free(g->workers);
	free(g->apart);
	free(g->all);
	free(g);
	return NULL;
}

int speed_group_begin(struct speed_group *g, int n_workers)
{
	free(g->workers);
	free(g->all);
	g->workers = calloc((size_t)n_workers + 1, sizeof(*g->workers));
	g->all = calloc((size_t)n_workers + 1, sizeof(*g->all));
	g->n_workers = g->workers && g->all ? n_workers : 0;
	g->next = 0;
	memset(g->apart, 0, g->opt.n_roles * sizeof(*g->apart));
	return g->n_workers == n_workers ? 0 : -ENOMEM;
}

static struct group_pace *group_worker(struct speed_group *g, int rank)
{
	return rank >= 0 && rank < g->n_workers ? &g->workers[rank] : NULL;
}

void speed_group_started(struct speed_group *g, int rank, size_t role)
{
	struct group_pace *w = group_worker(g, rank);

	if (w)
		*w = (struct group_pace){ .alive = true, .rests = true, .role = role };
}

void speed_group_ended(struct speed_group *g, int rank)
{
	struct group_pace *w = group_worker(g, rank);

	if (!w)
		return;
	w->alive = false;
	if (w->pace.straggler.slow)
		g->opt.news(g->opt.arg, rank, true, w->pace.straggler.percent,
			"was slower than the others to its end");
	w->pace.straggler.slow = false;
}

void speed_group_over(struct speed_group *g)
{
	for (int rank = 0; rank < g->n_workers; rank++)
		speed_group_ended(g, rank);
}

/* --- messages of hosts --- */

static struct group_look *group_newest(struct group_pace *w)
{
	return w->n ? &w->looks[(w->n - 1) % GROUP_LOOKS] : NULL;
}

/* Where w was at the look of that number; NULL: not known. */
static const struct group_look *group_look_at(const struct group_pace *w, uint64_t number)
{
	for (uint64_t i = 1; i <= w->n && i <= GROUP_LOOKS; i++) {
		const struct group_look *look = &w->looks[(w->n - i) % GROUP_LOOKS];

		if (look->number <= number)
			return look->count ? look : NULL;
	}
	return NULL;
}

/* True when list has n integers, none below least. */
static bool group_is_list_of(const json_t *list, int n, int64_t least)
{
	const json_t *value;
	size_t i;

	json_array_foreach (list, i, value)
		if (!json_is_integer(value) || json_integer_value(value) < least)
			return false;
	return json_array_size(list) == (size_t)n;
}

static int group_check(const json_t *looks, int n, struct error *err)
{
	int64_t before = 0;
	const json_t *look;
	size_t i;

	if (json_array_size(looks) > BATCH_LOOKS)
		return error_field(err, -EPROTO, "looks", "expected at most %d", BATCH_LOOKS);
	json_array_foreach (looks, i, look) {
		int64_t number = json_get_int(look, "number", 0);

		if (number <= before || number > INT64_MAX / 2)
			return error_field(err, -EPROTO, "number", "expected looks in their order");
		if (!group_is_list_of(json_get_array(look, "steps"), n, INT64_MIN) ||
			!group_is_list_of(json_get_array(look, "counts"), n, 0))
			return error_field(
				err, -EPROTO, "steps", "expected those of %d workers", n);
		before = number;
	}
	return 0;
}

/* Adds worker i of a host's look to w. A number beyond most is from a clock that was set ahead:
 * then the head does not know where w is. */
static void group_add_look(struct group_pace *w, const json_t *look, size_t i, uint64_t most)
{
	const json_t *last = json_array_get(json_get_array(look, "steps"), i);
	const json_t *count = json_array_get(json_get_array(look, "counts"), i);
	uint64_t number = (uint64_t)json_get_int(look, "number", 0);

	if (number > most)
		w->n = 0;
	if (!w->alive || number > most)
		return;
	if (w->n && number <= group_newest(w)->number) /* the clock was set back */
		w->n = 0;
	w->n++;
	*group_newest(w) = (struct group_look){ .number = number,
		.count = (uint64_t)json_integer_value(count),
		.last = json_integer_value(last) };
}

/* --- comparisons --- */

static void group_compare_role(struct speed_group *g, size_t role, uint64_t number, bool on_notice)
{
	uint64_t window_ms = g->opt.window_ms;
	int64_t behind;
	char text[128];
	size_t n = 0;

	for (int i = 0; i < g->n_workers; i++) {
		struct group_pace *w = &g->workers[i];
		const struct group_look *look =
			w->alive && w->role == role ? group_look_at(w, number) : NULL;

		if (look)
			g->all[n++] = (struct pace_worker){
				.pace = &w->pace, .of = w, .count = look->count, .last = look->last
			};
	}
	pace_add_looks(g->all, n, pace_moment_us(number, window_ms) / 1000);
	behind = pace_behind(g->all, n);
	/* A host under load reads the steps late, and its workers then seem to be ahead. */
	g->apart[role] = g->apart[role] || behind < 0 || behind > 1;
	n = on_notice ? 0 : pace_known(g->all, n, window_ms);
	pace_compare(g->all, n, !g->apart[role], g->opt.limit, window_ms);
	for (size_t i = 0; i < n; i++) {
		const struct pace_worker *p = &g->all[i];

		if (!p->slow && !p->over)
			continue;
		pace_text(p->pace, window_ms, text, sizeof(text));
		g->opt.news(g->opt.arg, (int)((const struct group_pace *)p->of - g->workers),
			p->over, p->pace->straggler.percent,
			p->over ? "is not slower than the others any more" : text);
	}
}

/* *ret_until: the first look that a host which does not rest has not sent yet. *ret_newest: the
 * newest that any host has sent. */
static void group_received(struct speed_group *g, uint64_t *ret_until, uint64_t *ret_newest)
{
	*ret_until = UINT64_MAX;
	*ret_newest = 0;
	for (int i = 0; i < g->n_workers; i++) {
		struct group_pace *w = &g->workers[i];
		uint64_t newest;

		if (!w->alive || !w->n)
			continue;
		newest = group_newest(w)->number;
		if (newest > *ret_newest)
			*ret_newest = newest;
		if (!w->rests && newest + 1 < *ret_until)
			*ret_until = newest + 1;
	}
}

static void group_compare(struct speed_group *g, bool on_notice)
{
	uint64_t until, newest;

	group_received(g, &until, &newest);
	if (!newest)
		return;
	if (!g->next || g->next > newest + STEP_WINDOW_LOOKS)
		g->next = newest;
	if (g->next + STEP_WINDOW_LOOKS < newest)
		g->next = newest - STEP_WINDOW_LOOKS;
	for (; g->next < until && g->next < newest; g->next++)
		for (size_t role = 0; role < g->opt.n_roles; role++)
			group_compare_role(g, role, g->next, on_notice);
}

int speed_group_receive(struct speed_group *g, int first_rank, int n, const json_t *steps,
	uint64_t now_us, bool on_notice, struct error *err)
{
	const json_t *looks = json_get_array(steps, "looks"), *look;
	/* A host whose clock was set ahead sends looks with numbers beyond this. */
	uint64_t window_ms = g->opt.window_ms,
		 most = pace_next(now_us, window_ms) + STEP_WINDOW_SHARE;
	int r = group_check(looks, n, err);
	size_t i;

	if (r < 0)
		return r;
	for (int k = 0; k < n; k++) {
		struct group_pace *w = group_worker(g, first_rank + k);

		if (!w)
			continue;
		json_array_foreach (looks, i, look)
			group_add_look(w, look, (size_t)k, most);
		w->rests = json_get_bool(steps, "rests", false);
	}
	group_compare(g, on_notice);
	return 0;
}
