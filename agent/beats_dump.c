/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/beats_private.h"
#include "common/json.h"
#include "common/log.h"

#include <errno.h>
#include <string.h>

enum { DUMP_TAIL_LINES = 100, DUMP_STREAMS = 2 };

/* The tails of both streams as a NULL-ended array; the array is owned, its texts are json's. */
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

int beats_dump(struct agent *a, const int *ranks, size_t n, const char *why, uint64_t timeout_ms,
	hang_done_fn fn, void *arg, struct error *err)
{
	_cleanup_(dump_list_fini) struct dump_list l = {
		.tasks = calloc(n + 1, sizeof(*l.tasks)),
		.names = calloc(n + 1, sizeof(*l.names)),
		.tails = calloc(n + 1, sizeof(*l.tails)),
	};

	if (!l.tasks || !l.names || !l.tails)
		return error_set(err, -ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < a->n_tasks; k++)
			if (a->tasks[k].rank == ranks[i] && task_alive(&a->tasks[k]) &&
				dump_list_add(a, &l, &a->tasks[k], why) < 0)
				return error_set(err, -ENOMEM, "out of memory");
	if (!l.n)
		return error_set(err, -ENOENT, "none of these workers runs");
	return hang_dump(a->hang, l.tasks, l.n, timeout_ms, fn, arg, err);
}

static struct beat *beat_failing(struct beats *bs, const struct task *t)
{
	struct beat *b = beats_find(bs, t);

	return b && b->failing && b->token == t->token ? b : NULL;
}

/* The next that has failed and is saved, or could not be; it is not found again. */
static struct task *beats_next_saved(struct beats *bs, char *ret_why, size_t size)
{
	struct agent *a = bs->a;

	for (int i = 0; i < a->n_tasks; i++) {
		struct beat *b = beat_failing(bs, &a->tasks[i]);

		if (!b || !b->saved)
			continue;
		b->failing = b->saved = false;
		snprintf(ret_why, size, "%s", b->why);
		return &a->tasks[i];
	}
	return NULL;
}

/* What is saved, or could not be, has failed now. More may have come to it meanwhile. */
static void beats_act(struct beats *bs)
{
	struct agent *a = bs->a;
	char why[sizeof(((struct beat *)0)->why)];
	bool more = false;
	struct task *t;

	bs->saving = false;
	/* Declaring one failed may change the others, and the array that they are in. */
	while ((t = beats_next_saved(bs, why, sizeof(why))))
		if (a->spec->heartbeat.on_failure != SPEC_HEARTBEAT_REPORT)
			agent_task_failing(a, t, why);
	for (int i = 0; i < a->n_tasks; i++) {
		struct beat *b = beats_find(bs, &a->tasks[i]);

		if (b)
			b->saved = false;
		more |= beat_failing(bs, &a->tasks[i]) != NULL;
	}
	if (more)
		beats_save(bs);
}

static void beats_saved(void *arg, char *const *dirs, size_t n)
{
	struct beats *bs = arg;
	struct agent *a = bs->a;

	if (!a->beats) /* the agent is at its end */
		return;
	for (size_t i = 0; i < n; i++)
		if (dirs[i]) {
			log_notice("what hangs is saved in %s%s", dirs[i],
				n > 1 ? ", and beside it" : "");
			events_add(a->events, "dumped", a->attempt, -1, NULL, "saved in %s%s",
				dirs[i], n > 1 ? ", and beside it" : "");
			break;
		}
	beats_act(bs);
}

/* The ranks to save: what has failed first, then the others that run. Of one that fails while they
 * are saved, this is what there is. */
static size_t beats_ranks(struct beats *bs, int *ranks)
{
	struct agent *a = bs->a;
	size_t n = 0;

	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < a->n_tasks && n < BEATS_DUMP_TASKS; i++) {
			const struct task *t = &a->tasks[i];
			struct beat *b = beats_find(bs, t);

			if (!task_alive(t) || (beat_failing(bs, t) == NULL) != (pass == 1))
				continue;
			ranks[n++] = t->rank;
			if (b)
				b->saved = true;
		}
	return n;
}

void beats_save(struct beats *bs)
{
	struct agent *a = bs->a;
	int64_t limit = a->spec->heartbeat.dump_timeout_ms;
	struct error err = { 0 };
	const char *why = "";
	int ranks[BEATS_DUMP_TASKS];
	char text[300];
	size_t n;

	if (bs->saving)
		return;
	for (int i = a->n_tasks - 1; i >= 0; i--) {
		struct beat *b = beat_failing(bs, &a->tasks[i]);

		if (!b)
			continue;
		b->saved = true;
		snprintf(text, sizeof(text), "%s:%d: %s", a->tasks[i].role->name, a->tasks[i].index,
			b->why);
		why = text;
	}
	bs->saving = true;
	n = beats_ranks(bs, ranks);
	if (limit <= 0) {
		beats_act(bs);
		return;
	}
	if (beats_dump(a, ranks, n, why, (uint64_t)limit, beats_saved, bs, &err) < 0) {
		log_warning("what hangs is not saved: %s", err.text);
		beats_act(bs);
	}
}
