/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/watchdog/private.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <string.h>

enum { DUMP_TAIL_LINES = 100, DUMP_STREAMS = 2 };

/* The ends of both streams as a NULL-ended array; the array is owned, its texts are json's. */
static const char **dump_tail(struct agent *a, const struct task *t, json_t **ret_json)
{
	json_t *all = json_array();
	const char **lines;
	size_t n;

	for (int std = 0; std < DUMP_STREAMS && all; std++) {
		json_t *tail = logs_tail(a->logs, t->local_rank, std, DUMP_TAIL_LINES);

		if (json_array_size(tail))
			json_array_append_new(all, json_string(std ? "== stderr" : "== stdout"));
		if (tail)
			json_array_extend(all, tail);
		json_decref(tail);
	}
	n = json_array_size(all);
	lines = calloc(n + 1, sizeof(*lines));
	for (size_t i = 0; lines && i < n; i++) {
		lines[i] = json_string_value(json_array_get(all, i));
		if (!lines[i])
			lines[i] = "";
	}
	*ret_json = all;
	return lines;
}

struct dump_list {
	struct hang_task *tasks;
	char **names;
	json_t **tails;
	size_t n;
};

static void dump_list_fini(struct dump_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free((void *)l->tasks[i].tail);
		json_decref(l->tails[i]);
		free(l->names[i]);
	}
	free(l->tasks);
	free(l->names);
	free(l->tails);
}

static int dump_list_add(
	struct agent *a, struct dump_list *l, const struct task *t, const char *why)
{
	size_t i = l->n;

	if (asprintf(&l->names[i], "%s:%d", t->role->name, t->index) < 0)
		return -ENOMEM;
	l->tasks[i] = (struct hang_task){
		.pid = t->pid,
		.rank = t->rank,
		.name = l->names[i],
		.dir = logs_task_dir(a->logs, t->local_rank),
		.why = why,
		.tail = dump_tail(a, t, &l->tails[i]),
	};
	l->n++;
	return 0;
}

/* One dump, whether watchdog or operator asked for it. */
struct beats_dump {
	struct agent *a;
	hang_done_fn fn;
	void *arg;
};

static void beats_dumped(void *arg, char *const *dirs, size_t n)
{
	_cleanup_free_ struct beats_dump *d = arg;

	if (d->a->beats) /* false: the agent ends */
		beats_let_go(d->a->beats);
	d->fn(d->arg, dirs, n);
}

int beats_dump(struct agent *a, const int *ranks, size_t n, const char *why, uint64_t timeout_ms,
	hang_done_fn fn, void *arg, struct error *err)
{
	_cleanup_(dump_list_fini) struct dump_list l = {
		.tasks = calloc(n + 1, sizeof(*l.tasks)),
		.names = calloc(n + 1, sizeof(*l.names)),
		.tails = calloc(n + 1, sizeof(*l.tails)),
	};
	_cleanup_free_ struct beats_dump *d = calloc(1, sizeof(*d));
	int r;

	if (!d || !l.tasks || !l.names || !l.tails)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < a->n_tasks; k++)
			if (a->tasks[k].rank == ranks[i] && task_alive(&a->tasks[k]) &&
				dump_list_add(a, &l, &a->tasks[k], why) < 0)
				return error_set(err, -ENOMEM, "out of memory");
	if (!l.n)
		return error_set(err, -ENOENT, "none of these workers runs");
	*d = (struct beats_dump){ .a = a, .fn = fn, .arg = arg };
	r = hang_dump(a->beats->dumps, l.tasks, l.n, timeout_ms, beats_dumped, d, err);
	if (r < 0)
		return r;
	TAKE_PTR(d);
	beats_hold(a->beats);
	return 0;
}

static struct beat *beat_failing(struct beats *bs, const struct task *t)
{
	struct beat *b = beats_find(bs, t);

	return b && b->failing && b->token == t->token ? b : NULL;
}

/* Takes the failed worker that was found first; NULL: none. */
static struct task *beats_next_failing(struct beats *bs)
{
	struct agent *a = bs->a;
	struct beat *first = NULL;
	struct task *ret = NULL;

	for (int i = 0; i < a->n_tasks; i++) {
		struct beat *b = beat_failing(bs, &a->tasks[i]);

		if (!b || (first && first->found < b->found))
			continue;
		first = b;
		ret = &a->tasks[i];
	}
	if (first)
		first->failing = false;
	return ret;
}

/* The failed workers are saved, or could not be: ends them. */
static void beats_act(struct beats *bs)
{
	struct agent *a = bs->a;
	struct task *t;

	/* Ending one may change the others, and the array they are in. */
	while ((t = beats_next_failing(bs))) {
		if (a->spec->heartbeat.on_failure == SPEC_HEARTBEAT_REPORT)
			continue;
		agent_task_failing(a, t, beats_find(bs, t)->why);
		agent_task_end_failing(a, t);
	}
}

static void beats_saved(void *arg, char *const *dirs, size_t n)
{
	struct beats *bs = arg;
	struct agent *a = bs->a;

	if (!a->beats) /* the agent ends */
		return;
	for (size_t i = 0; i < n; i++)
		if (dirs[i]) {
			log_notice("saved the hanging worker in %s%s", dirs[i],
				n > 1 ? ", others beside it" : "");
			events_add(a->events, "dumped", a->attempt, -1, NULL, "saved in %s%s",
				dirs[i], n > 1 ? ", others beside it" : "");
			break;
		}
	beats_act(bs);
}

/* The ranks to save: failed workers first, then the others that run. */
static size_t beats_ranks(struct beats *bs, int *ranks)
{
	struct agent *a = bs->a;
	size_t n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < a->n_tasks && n < BEATS_DUMP_TASKS; i++) {
			const struct task *t = &a->tasks[i];

			if (task_alive(t) && (beat_failing(bs, t) == NULL) == (pass == 1))
				ranks[n++] = t->rank;
		}
	return n;
}

void beats_save(struct beats *bs)
{
	struct agent *a = bs->a;
	int64_t limit = a->spec->heartbeat.dump_timeout_ms;
	struct error err = { 0 };
	uint64_t first = UINT64_MAX;
	int ranks[BEATS_DUMP_TASKS];
	char why[300] = "";
	size_t n;

	for (int i = 0; i < a->n_tasks; i++) {
		struct beat *b = beat_failing(bs, &a->tasks[i]);

		if (!b || b->found > first)
			continue;
		first = b->found;
		snprintf(why, sizeof(why), "%s:%d: %s", a->tasks[i].role->name, a->tasks[i].index,
			b->why);
	}
	n = beats_ranks(bs, ranks);
	if (limit <= 0) {
		beats_act(bs);
		return;
	}
	if (beats_dump(a, ranks, n, why, (uint64_t)limit, beats_saved, bs, &err) < 0) {
		log_warning("cannot save the hanging workers: %s", err.text);
		beats_act(bs);
	}
}
