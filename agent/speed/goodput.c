/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/speed/goodput.h"

#include "common/base/array.h"
#include "common/text/json.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { GOODPUT_WORKERS_MAX = 16384, GOODPUT_CLOCKS = 8 };

/* id, member of io.elasticd.Manager.Goodput. WORKING is first. */
#define GOODPUT_PARTS(X)           \
	X(WORKING, "working_ms")   \
	X(WAITING, "waiting_ms")   \
	X(STARTING, "starting_ms") \
	X(STOPPING, "stopping_ms") \
	X(SAVING, "saving_ms")     \
	X(HANGING, "hanging_ms")   \
	X(REPEATED, "repeated_ms") \
	X(UNKNOWN, "unknown_ms")

enum goodput_part {
#define GOODPUT_ID(id, name) GOODPUT_##id,
	GOODPUT_PARTS(GOODPUT_ID)
#undef GOODPUT_ID
		GOODPUT_N_PARTS
};

/* The figures of one worker over the run. */
struct goodput_worker {
	uint64_t seen, stepped; /* number of the last attempt in which it ran; made steps */
	int64_t begun_us;	/* its first process in that attempt */
	int64_t ended_us, step_ended_us; /* of its last process; of the last that made steps */
	/* Work that counts: the steps from first to last, made in time_us. */
	int64_t first, last, time_us;
	bool numbered;
};

/* The time that workers lose in an attempt, as sums over n of them. */
struct goodput_loss {
	int n;
	int64_t start_us, repeat_us;
};

/* From the time from_us of the run on, the clock was ahead_us ahead of it. */
struct goodput_clock {
	int64_t from_us, ahead_us;
};

struct goodput {
	enum goodput_part part; /* present one; GOODPUT_N_PARTS: before the first, and at the end */
	int64_t begun_us, since_us, last_us; /* first event; begin of the part; newest event */
	int64_t parts[GOODPUT_N_PARTS];
	bool stepped;	     /* some worker has made a step in this run */
	int64_t stepless_us; /* work of attempts before that, in which none made one */

	bool open;		    /* an attempt is under way: */
	uint64_t attempt;	    /* its number, from 1 */
	int64_t ran_us;		    /* work in it so far, without that of the present part */
	int64_t running_us, cut_us; /* when the group ran; when it did not any more; 0: not yet */
	struct goodput_loss by_steps, by_starts;

	struct goodput_worker *workers;
	size_t n_workers;

	struct goodput_clock clocks[GOODPUT_CLOCKS]; /* by their times, if it was ever set */
	size_t n_clocks;
};

struct goodput *goodput_new(void)
{
	struct goodput *g = calloc(1, sizeof(*g));

	if (g)
		g->part = GOODPUT_N_PARTS;
	return g;
}

struct goodput *goodput_free(struct goodput *g)
{
	if (g)
		free(g->workers);
	free(g);
	return NULL;
}

/* --- the clock --- */

/* The time of the run when the clock, as it is set now, shows us. */
static int64_t goodput_run_time(const struct goodput *g, int64_t us)
{
	return g->n_clocks ? us - g->clocks[g->n_clocks - 1].ahead_us : us;
}

/* The same for a time that was read earlier, maybe under an earlier setting of the clock: takes the
 * first setting in whose time it lies. */
static int64_t goodput_run_time_then(const struct goodput *g, int64_t us)
{
	int64_t t = us, from = g->begun_us;

	for (size_t i = 0; i < g->n_clocks && (t < from || t > g->clocks[i].from_us); i++) {
		t = us - g->clocks[i].ahead_us;
		from = g->clocks[i].from_us;
	}
	return t;
}

static void goodput_clock_set(struct goodput *g, int64_t by_us, int64_t us)
{
	int64_t ahead = (g->n_clocks ? g->clocks[g->n_clocks - 1].ahead_us : 0) + by_us;

	if (g->n_clocks == GOODPUT_CLOCKS)
		g->n_clocks--;
	g->clocks[g->n_clocks++] =
		(struct goodput_clock){ .from_us = us - ahead, .ahead_us = ahead };
}

/* --- one worker --- */

static struct goodput_worker *goodput_worker(struct goodput *g, int i)
{
	struct goodput_worker *bigger;
	size_t n = (size_t)i + 1;

	if (i < 0 || i >= GOODPUT_WORKERS_MAX)
		return NULL;
	if (n > g->n_workers) {
		bigger = array_grow(g->workers, g->n_workers, n, sizeof(*bigger));
		if (!bigger)
			return NULL;
		g->workers = bigger;
		g->n_workers = n;
	}
	return &g->workers[i];
}

/* w makes step first again: takes that step and all later ones from its work. Returns the time that
 * they took. */
static int64_t goodput_take_repeated(struct goodput_worker *w, int64_t first)
{
	double all = (double)w->last - (double)w->first + 1,
	       kept = (double)first - (double)w->first;
	int64_t lost;

	if (!w->numbered || first > w->last)
		return 0;
	if (kept <= 0) {
		w->numbered = false;
		return w->time_us;
	}
	lost = w->time_us - (int64_t)((double)w->time_us * kept / all);
	w->time_us -= lost;
	w->last = first - 1;
	return lost;
}

/* True when numbers grow with the steps: then they say which steps were made. */
static bool goodput_numbers_grow(const struct goodput_life *l)
{
	return l->first >= 0 && l->last >= l->first &&
	       (uint64_t)(l->last - l->first) >= l->steps - 1;
}

/* The work of a process from its first step on. */
static void goodput_add_steps(struct goodput_worker *w, const struct goodput_life *l,
	int64_t end_us, struct goodput_loss *loss)
{
	int64_t time = end_us > l->first_us ? end_us - l->first_us : 0;

	if (!goodput_numbers_grow(l)) {
		w->numbered = false;
		return;
	}
	loss->repeat_us += goodput_take_repeated(w, l->first);
	w->first = w->numbered ? w->first : l->first;
	w->time_us = (w->numbered ? w->time_us : 0) + time;
	w->last = l->last;
	w->numbered = true;
}

/* Adds the time from since_us, when a worker could have worked, to its begin. */
static void goodput_add_late_start(
	struct goodput_loss *loss, bool again, int64_t since_us, int64_t begin_us)
{
	loss->n += !again;
	if (since_us && begin_us > since_us)
		loss->start_us += begin_us - since_us;
}

static void goodput_add_life(struct goodput *g, const struct goodput_life *given)
{
	struct goodput_worker *w = g->open ? goodput_worker(g, given->worker) : NULL;
	struct goodput_life l = *given;
	int64_t end;
	bool again, stepped;

	l.started_us = goodput_run_time_then(g, l.started_us);
	l.first_us = l.first_us ? goodput_run_time_then(g, l.first_us) : 0;
	l.ended_us = goodput_run_time(g, l.ended_us);
	end = g->cut_us && g->cut_us < l.ended_us ? g->cut_us : l.ended_us;
	if (!w)
		return;
	again = w->seen == g->attempt;
	stepped = w->stepped == g->attempt;
	goodput_add_late_start(&g->by_starts, again, again ? w->ended_us : 0, l.started_us);
	if (!again)
		w->begun_us = l.started_us > g->running_us ? l.started_us : g->running_us;
	w->seen = g->attempt;
	w->ended_us = l.ended_us;
	if (!l.steps || !l.first_us)
		return;
	if (l.first_us < l.started_us) /* workers may write there as they like */
		l.first_us = l.started_us;
	if (l.first_us > end)
		l.first_us = end;
	goodput_add_late_start(
		&g->by_steps, stepped, stepped ? w->step_ended_us : w->begun_us, l.first_us);
	goodput_add_steps(w, &l, end, &g->by_steps);
	w->stepped = g->attempt;
	w->step_ended_us = l.ended_us;
}

/* --- the group --- */

static void goodput_enter(struct goodput *g, enum goodput_part part, int64_t us)
{
	us = us > g->since_us ? us : g->since_us;
	if (g->part == GOODPUT_WORKING)
		g->ran_us += us - g->since_us;
	else if (g->part < GOODPUT_N_PARTS)
		g->parts[g->part] += us - g->since_us;
	g->part = part;
	g->since_us = us;
}

/* Moves us of the time in *from to another part, but no more than there is. */
static void goodput_move(struct goodput *g, int64_t *from, enum goodput_part to, int64_t us)
{
	us = us < *from ? us : *from;
	*from -= us;
	g->parts[to] += us;
}

static void goodput_close(struct goodput *g, bool lost)
{
	const struct goodput_loss *loss = g->by_steps.n ? &g->by_steps : &g->by_starts;
	int n = loss->n ? loss->n : 1;

	if (!g->open)
		return;
	g->open = false;
	g->stepped |= g->by_steps.n > 0;
	if (lost)
		goodput_move(g, &g->ran_us, GOODPUT_UNKNOWN, g->ran_us);
	goodput_move(g, &g->ran_us, GOODPUT_STARTING, loss->start_us / n);
	if (g->by_steps.n)
		g->parts[GOODPUT_WORKING] += g->ran_us;
	else
		g->stepless_us += g->ran_us;
	goodput_move(g, &g->parts[GOODPUT_WORKING], GOODPUT_REPEATED, loss->repeat_us / n);
	g->ran_us = 0;
}

static void goodput_open(struct goodput *g)
{
	goodput_close(g, false);
	g->open = true;
	g->attempt++;
	g->ran_us = g->running_us = g->cut_us = 0;
	g->by_steps = g->by_starts = (struct goodput_loss){ 0 };
}

/* From us on, but not before the present part began, the group does not work. */
static void goodput_cut(struct goodput *g, enum goodput_part part, int64_t us)
{
	goodput_enter(g, part, us);
	if (g->open && !g->cut_us)
		g->cut_us = g->since_us;
}

static void goodput_enter_state(struct goodput *g, const char *to, int64_t us)
{
	if (!strcmp(to, "starting")) {
		goodput_enter(g, GOODPUT_STARTING, us);
		goodput_open(g);
	} else if (!strcmp(to, "running")) {
		if (!g->open)
			goodput_open(g);
		goodput_enter(g, GOODPUT_WORKING, us);
		g->running_us = g->running_us ? g->running_us : us;
	} else if (!strcmp(to, "stopping")) {
		goodput_cut(g, GOODPUT_STOPPING, us);
	} else {
		bool goes_on = !strcmp(to, "pending") || !strcmp(to, "rendezvous") ||
			       !strcmp(to, "backoff");

		goodput_enter(g, goes_on ? GOODPUT_WAITING : GOODPUT_N_PARTS, us);
		goodput_close(g, false);
	}
}

/* The agent was lost, at an unknown time since its last event. */
static void goodput_agent_lost(struct goodput *g, int64_t us)
{
	if (!g->open)
		return;
	goodput_enter(g, GOODPUT_UNKNOWN, g->last_us);
	goodput_enter(g, GOODPUT_WAITING, us);
	goodput_close(g, true);
}

/* Events that change the part of a group that works, and which part follows. */
static const struct {
	const char *event;
	enum goodput_part from, to;
} goodput_changes[] = {
	{ "agreed", GOODPUT_WORKING, GOODPUT_SAVING },
	{ "countdown", GOODPUT_SAVING, GOODPUT_WORKING },
	{ "heartbeat-back", GOODPUT_HANGING, GOODPUT_WORKING },
	{ "suspended", GOODPUT_WORKING, GOODPUT_WAITING },
	{ "resumed", GOODPUT_WAITING, GOODPUT_WORKING },
};

static void goodput_change(struct goodput *g, const char *name, const json_t *data, int64_t us)
{
	bool hangs = !strcmp(name, "heartbeat-lost") || !strcmp(name, "no-progress");
	int64_t silent = json_get_int(data, "silent_ms", -1);

	if (!g->open)
		return;
	if (hangs && silent >= 0 && g->part == GOODPUT_WORKING)
		goodput_cut(g, GOODPUT_HANGING, us - silent * 1000);
	for (size_t i = 0; i < sizeof(goodput_changes) / sizeof(goodput_changes[0]); i++) {
		if (strcmp(name, goodput_changes[i].event) != 0 ||
			g->part != goodput_changes[i].from)
			continue;
		goodput_enter(g, goodput_changes[i].to, us);
		if (g->part == GOODPUT_WORKING)
			g->cut_us = 0;
		return;
	}
}

static void goodput_worker_ended(struct goodput *g, const json_t *data)
{
	const struct goodput_life l = {
		.worker = (int)json_get_int(data, "local_rank", -1),
		.started_us = json_get_int(data, "started_us", 0),
		.ended_us = json_get_int(data, "ended_us", 0),
		.steps = (uint64_t)json_get_int(data, "steps", 0),
		.first = json_get_int(data, "first_step", -1),
		.last = json_get_int(data, "step", -1),
		.first_us = json_get_int(data, "first_step_us", 0),
	};

	goodput_add_life(g, &l);
}

void goodput_event(struct goodput *g, const json_t *event)
{
	const char *name = json_get_string(event, "event", "");
	const json_t *data = json_get_object(event, "data");
	int64_t us = json_get_int(event, "time_us", 0);

	if (!strcmp(name, "clock-set"))
		goodput_clock_set(g, json_get_int(data, "by_us", 0), us);
	us = goodput_run_time(g, us);
	if (!g->begun_us) {
		g->begun_us = g->since_us = us;
		g->part = GOODPUT_WAITING;
	}
	if (!strcmp(name, "agent-lost"))
		goodput_agent_lost(g, us);
	else if (!strcmp(name, "state"))
		goodput_enter_state(g, json_get_string(data, "to", ""), us);
	else if (!strcmp(name, "worker-ended"))
		goodput_worker_ended(g, data);
	else
		goodput_change(g, name, data, us);
	g->last_us = us > g->last_us ? us : g->last_us;
}

/* --- figures --- */

/* The microseconds in each part; their sum is the time from the first event to now_us, or to the
 * end of the run. */
static void goodput_parts(const struct goodput *g, const struct goodput_life *lives, size_t n,
	int64_t now_us, int64_t ret_us[GOODPUT_N_PARTS])
{
	struct goodput copy = *g;

	copy.workers = NULL;
	copy.n_workers = 0;
	if (n && g->n_workers) {
		copy.workers = calloc(g->n_workers, sizeof(*g->workers));
		if (copy.workers) {
			memcpy(copy.workers, g->workers, g->n_workers * sizeof(*g->workers));
			copy.n_workers = g->n_workers;
		}
	}
	for (size_t i = 0; i < n; i++)
		goodput_add_life(&copy, &lives[i]);
	goodput_enter(&copy, copy.part, goodput_run_time(g, now_us));
	goodput_close(&copy, false);
	memcpy(ret_us, copy.parts, sizeof(copy.parts));
	ret_us[copy.stepped ? GOODPUT_STARTING : GOODPUT_WORKING] += copy.stepless_us;
	free(copy.workers);
}

json_t *goodput_json(
	const struct goodput *g, const struct goodput_life *lives, size_t n, int64_t now_us)
{
#define GOODPUT_NAME(id, name) [GOODPUT_##id] = name,
	static const char *const names[] = { GOODPUT_PARTS(GOODPUT_NAME) };
#undef GOODPUT_NAME
	int64_t us[GOODPUT_N_PARTS], total = 0;
	json_t *j;

	if (!g->begun_us)
		return NULL;
	goodput_parts(g, lives, n, now_us, us);
	for (int i = 0; i < GOODPUT_N_PARTS; i++)
		total += us[i] / 1000;
	j = json_object();
	/* In tenths of a percent, and 100 only where nothing is lost. */
	json_put(j, "percent", json_real(total ? (double)(us[0] / 1000 * 1000 / total) / 10 : 0));
	json_put_int(j, "total_ms", total);
	for (int i = 0; i < GOODPUT_N_PARTS; i++)
		json_put_int(j, names[i], us[i] / 1000);
	return j;
}
