/* SPDX-License-Identifier: Apache-2.0 */
/* What the work queue wants done to workers, and told to people. */
#include "agent/queue/group_hooks_private.h"
#include "agent/watchdog/watchdog.h"
#include "common/base/log.h"

#include <stdio.h>
#include <string.h>

enum { TELL_WINDOW_MS = 10000, TELL_MAX = 100 };

/* Tasks can be put back, and fail, thousands of times in a second: the disk is not to be full of
 * it. Whether this one is told. */
static bool may_tell(struct dispatch_group *g, const char *event)
{
	struct agent *a = g->d->a;
	uint64_t now = loop_now_ms();

	if (now - g->tell_ms >= TELL_WINDOW_MS) {
		if (g->told > TELL_MAX)
			events_add(a->events, event, a->attempt, -1, NULL,
				"%u more events of the work queue were left out",
				g->told - TELL_MAX);
		g->tell_ms = now;
		g->told = 0;
	}
	return ++g->told <= TELL_MAX;
}

static void tell(struct dispatch *d, const struct queue_do *todo)
{
	struct agent *a = d->a;
	const struct task *t = todo->worker < 0 ? NULL : worker_task(a->workers, todo->worker);
	char event[64];

	snprintf(event, sizeof(event), "queue-%s", todo->event);
	if (a->events && may_tell(d->group, event))
		events_add(a->events, event, a->attempt, t ? t->rank : -1, NULL, "%s", todo->text);
}

/* As if it had reported that as an error: the restart rules decide. */
static void fail_init(struct dispatch *d, const struct queue_do *todo)
{
	struct agent *a = d->a;
	struct task *t = worker_task(a->workers, todo->worker);
	char message[sizeof(todo->text) + 32];

	if (!t || !task_alive(t) || agent_in_stop(a) || a->ended)
		return;
	snprintf(message, sizeof(message), "roles[].init: %s", todo->text);
	agent_worker_error(a, t, NULL, message);
	agent_single_end(a, t, (uint64_t)a->spec->stop.timeout_ms, false);
	agent_changed(a);
}

/* It is started again by itself, whatever the scope: nobody is to blame, and no budget pays. */
static void kill_worker(struct dispatch *d, const struct queue_do *todo)
{
	struct agent *a = d->a;
	struct task *t = worker_task(a->workers, todo->worker);
	struct error err = { 0 };
	int rank, n;

	if (!t || !task_alive(t) || agent_in_stop(a) || a->ended)
		return;
	rank = t->rank;
	log_warning("%s: %s", agent_task_name(t), todo->text);
	/* Whoever ends it has said what comes then. */
	if (t->state == TASK_STOPPING || t->blame[0]) {
		agent_single_end(a, t, 0, false);
		return;
	}
	if (agent_stop_single(a, &rank, 1, 0, true, NULL, NULL, &n, &err) < 0)
		log_warning("it is not killed: %s", err.text);
}

static void on_saved(void *arg, char *const *dirs, size_t n)
{
	struct agent *a = arg;

	if (!a->beats || !a->dispatch) /* the agent is at its end */
		return;
	a->dispatch->group->saving = false;
	for (size_t i = 0; i < n; i++)
		if (dirs[i]) {
			events_add(a->events, "dumped", a->attempt, -1, NULL, "saved in %s%s",
				dirs[i], n > 1 ? ", and beside it" : "");
			break;
		}
}

/* The ranks of those that hold a task; n: room for them. */
static size_t busy_ranks(struct dispatch *d, int *ranks, size_t max)
{
	const struct agent *a = d->a;
	size_t n = 0;

	for (int i = 0; i < a->n_tasks && n < max; i++)
		if (task_alive(&a->tasks[i]) && queue_holds(d->q, a->tasks[i].slot))
			ranks[n++] = a->tasks[i].rank;
	return n;
}

static void save_stalled(struct dispatch *d, const struct queue_do *todo)
{
	enum { RANKS_MAX = 64 };
	struct agent *a = d->a;
	int64_t limit = a->spec->heartbeat.dump_timeout_ms;
	struct error err = { 0 };
	int ranks[RANKS_MAX];
	size_t n;

	log_warning("%s", todo->text);
	tell(d, todo);
	if (d->group->saving || limit <= 0 || !a->beats)
		return;
	n = busy_ranks(d, ranks, RANKS_MAX);
	if (n && beats_dump(a, ranks, n, todo->text, (uint64_t)limit, on_saved, a, &err) < 0)
		log_warning("what the workers do is not saved: %s", err.text);
	else
		d->group->saving = n > 0;
}

void dispatch_group_do(struct dispatch *d, const struct queue_do *todo)
{
	switch (todo->what) {
	case QUEUE_DO_CANCEL:
		worker_board_cancel(d->a->workers, todo->worker);
		break;
	case QUEUE_DO_KILL:
		tell(d, todo);
		kill_worker(d, todo);
		break;
	case QUEUE_DO_TELL:
		tell(d, todo);
		if (!strcmp(todo->event, "init-failed"))
			fail_init(d, todo);
		break;
	case QUEUE_DO_STALL:
		save_stalled(d, todo);
		break;
	case QUEUE_DO_NOTHING:
	case QUEUE_DO_RECORD:
	case QUEUE_DO_DUMP:
	case QUEUE_DO_ANEW:
		break;
	}
}
