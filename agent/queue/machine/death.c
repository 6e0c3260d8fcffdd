// SPDX-License-Identifier: Apache-2.0
/*
 * Tasks with which workers die. A dying process first closes its connections; its end is known
 * later. So its tasks are put back when the connection closes, and remembered in case the process
 * turns out to be dead. They are forgotten when the worker proves to be alive. Messages from before
 * its end may still arrive, so only a new connection or an answer to a later lease is proof.
 */
#include "agent/queue/machine/private.h"
#include "common/base/array.h"

bool queue_deaths_reached(const struct queues *q, const struct queue_task *t)
{
	return q->opt.deaths && t->deaths >= q->opt.deaths;
}

void queue_died_with(const struct queue_worker *k, struct queue_task *t)
{
	struct queue_extra *x;

	t->deaths = t->deaths < 1023 ? (t->deaths + 1) & 1023 : 1023;
	x = queue_task_extra(t);
	if (x && x->n_dead < QUEUE_DEAD_MAX)
		x->dead[x->n_dead++] = (uint16_t)k->number;
}

struct queue_err *queue_deaths_err(const struct queues *q, const struct queue_task *t)
{
	char text[512], buf[32];
	size_t at = 0;

	for (int i = 0; t->extra && i < t->extra->n_dead && at < sizeof(text); i++)
		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? ", " : "",
			queue_worker_text(q, t->extra->dead[i], buf, sizeof(buf)));
	return queue_err_printf(STATUS_ABORTED, t->worker, (int64_t)t->id,
		"%u workers died with it (queue.deaths): %s", (unsigned)t->deaths,
		at ? text : "their names are not known");
}

void queue_event_put_back(
	struct queues *q, const struct queue_worker *k, int64_t task, const char *why)
{
	char buf[32];

	queue_event_add(q, QUEUE_ORDER_EVENT, "put-back", k->number, "task %lld is put back: %s %s",
		(long long)task, queue_worker_text(q, k->number, buf, sizeof(buf)), why);
}

static bool is_dropped(const struct queue_worker *k, int64_t task)
{
	for (size_t i = 0; i < k->n_dropped; i++)
		if (k->dropped[i] == task)
			return true;
	return false;
}

/* Without room the first entries stay: those are tasks that it had, later ones were given to a
 * worker that may have been dead. */
static bool has_room(const struct queues *q, struct queue_worker *k)
{
	return !(q->opt.slots > 0 && k->n_dropped >= (size_t)q->opt.slots) &&
	       array_reserve((void **)&k->dropped, &k->cap_dropped, k->n_dropped + 1,
		       sizeof(*k->dropped)) == 0;
}

void queue_dropped(struct queues *q, const struct queue_lease *l)
{
	struct queue_worker *k = l->worker;

	if (!l->task || l->cancelled || !l->seen)
		return;
	k->drop_lease = q->next_lease;
	if (!is_dropped(k, (int64_t)l->task->id) && has_room(q, k))
		k->dropped[k->n_dropped++] = (int64_t)l->task->id;
}

static void died_after_drop(struct queues *q, const struct queue_worker *k, int64_t task,
	const char *why, uint64_t now_ms)
{
	struct queue_task *t = queue_task_find(q, task);
	const struct queue_lease *l = t && t->state == QUEUE_RUNNING ? t->lease : NULL;

	if (!t || queue_task_is_over(t) || (l && l->cancelled))
		return;
	queue_died_with(k, t);
	if (!l && queue_deaths_reached(q, t)) {
		queue_task_fail(q, t, queue_deaths_err(q, t), now_ms);
		return;
	}
	queue_note(q, QUEUE_REC_TRY, task, NULL);
	queue_event_put_back(q, k, task, why);
}

void queue_drops_end(
	struct queues *q, struct queue_worker *k, const char *why, bool on_purpose, uint64_t now_ms)
{
	size_t n = k->n_dropped;

	k->n_dropped = 0;
	for (size_t i = 0; i < n; i++) {
		const struct queue_task *t = queue_task_find(q, k->dropped[i]);

		/* A task that the worker got again counts once, by its lease. */
		if (t && t->state == QUEUE_RUNNING && t->lease->worker == k)
			continue;
		if (on_purpose)
			queue_event_put_back(q, k, k->dropped[i], why);
		else
			died_after_drop(q, k, k->dropped[i], why, now_ms);
	}
}

void queue_worker_lives(struct queues *q, int worker)
{
	struct queue_worker *k = queue_worker_find(q, worker);

	if (k)
		k->n_dropped = 0;
}
