/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/dispatch_group.h"

#include "agent/dispatch_private.h"
#include "agent/preempting.h"
#include "common/duration.h"
#include "common/log.h"
#include "common/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TASKS_OF_AN_AGENT INT64_C(1000000000)

enum { TELL_WINDOW_MS = 10000, TELL_MAX = 100 };

struct dispatch_worker {
	bool alive; /* as the machine was told */
	bool told;  /* ... its process was told of the loss */
};

struct dispatch_group {
	struct dispatch *d;
	struct dispatch_worker *workers; /* by slot */
	int n_workers;
	bool lost;  /* of this incarnation; told once */
	bool holds; /* what has failed waits for those who are told */
	bool saving;
	uint64_t tell_ms; /* the present window's beginning */
	unsigned told;	  /* events in it, those that were left out too */
	struct loop_timer *grace;
};

/* --- life ---------------------------------------------------------------------------------------
 */

void dispatch_group_options(const struct agent *a, struct queue_options *ret)
{
	const struct spec_queue *q = &a->spec->queue;

	*ret = (struct queue_options){
		.first_task = (int64_t)a->agents * TASKS_OF_AN_AGENT + 1,
		.max = (size_t)q->max,
		.results = (size_t)q->results,
		.bytes = (size_t)q->memory,
		.slots = q->slots,
		.cancel_grace_ms = (uint64_t)q->cancel_grace_ms,
		.recovery_timeout_ms = q->recovery_timeout_ms ? q->recovery_timeout_ms : -1,
		.blame_limit = (unsigned)q->blame_limit,
		.blame_window_ms = q->blame_window_ms,
		.deaths = (unsigned)q->deaths,
		.stall_ms = q->stall_ms,
		.call_timeout_ms = (uint64_t)q->call_timeout_ms,
		.answer_timeout_ms = (uint64_t)q->answer_timeout_ms,
		.pool = a->spec->mode == SPEC_MODE_POOL,
	};
}

static void on_grace(void *arg)
{
	struct dispatch_group *g = arg;
	struct agent *a = g->d->a;

	agent_settle(a);
	g->holds = false;
	agent_judge(a);
	agent_changed(a);
}

int dispatch_group_new(struct dispatch *d, struct error *err)
{
	struct dispatch_group *g = calloc(1, sizeof(*g));

	d->group = g;
	if (!g || loop_timer_new(d->a->loop, on_grace, g, &g->grace) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	g->d = d;
	return 0;
}

void dispatch_group_free(struct dispatch *d)
{
	struct dispatch_group *g = d->group;

	if (!g)
		return;
	d->group = NULL;
	loop_timer_free(g->grace);
	free(g->workers);
	free(g);
}

static struct dispatch_group *group_of(const struct agent *a)
{
	return a->dispatch ? a->dispatch->group : NULL;
}

/* NULL without memory, or for a task that has no part in what workers share. */
static struct dispatch_worker *worker_grow(struct dispatch_group *g, const struct task *t)
{
	struct agent *a = g->d->a;
	struct dispatch_worker *grown;

	if (!a->workers || !worker_has_slot(a->workers, t))
		return NULL;
	if (t->slot >= g->n_workers) {
		grown = reallocarray(g->workers, (size_t)t->slot + 1, sizeof(*grown));
		if (!grown)
			return NULL;
		memset(grown + g->n_workers, 0,
			(size_t)(t->slot + 1 - g->n_workers) * sizeof(*grown));
		g->workers = grown;
		g->n_workers = t->slot + 1;
	}
	return &g->workers[t->slot];
}

static struct dispatch_worker *worker_of_task(struct dispatch_group *g, const struct task *t)
{
	return t->slot >= 0 && t->slot < g->n_workers ? &g->workers[t->slot] : NULL;
}

/* --- tasks --------------------------------------------------------------------------------------
 */

/* How t has ended, as what follows its name in a sentence. */
static void how_gone(const struct task *t, char *text, size_t size)
{
	char name[SIGNALS_TEXT_MAX];

	if (t->blame[0])
		snprintf(text, size, "was ended by the agent: %s", t->blame);
	else if (!t->exit.ended)
		snprintf(text, size, "is gone");
	else if (t->exit.error)
		snprintf(text, size, "was not started: %s", t->exit.text);
	else if (t->exit.signal)
		snprintf(text, size, "was killed by %s%s", signals_name(t->exit.signal, name),
			t->exit.note);
	else
		snprintf(text, size, "exited with code %d", t->exit.code);
}

void dispatch_task_started(struct agent *a, struct task *t)
{
	struct dispatch_group *g = group_of(a);
	const char *init = t->role->init;
	struct queue_bytes bytes = { init, init ? strlen(init) : 0, "" };
	struct dispatch_worker *w = g ? worker_grow(g, t) : NULL;

	if (!w)
		return;
	if (queue_worker_name(g->d->q, t->slot, agent_task_name(t)) < 0 ||
		queue_worker_started(g->d->q, t->slot, t->incarnation, init ? &bytes : NULL,
			spec_serves(a->spec, t->role), loop_now_ms()) < 0) {
		log_error("%s gets no tasks: out of memory", agent_task_name(t));
		return;
	}
	w->alive = true;
	w->told = false;
	if (a->group.state == GROUP_RUNNING)
		dispatch_running(a);
	dispatch_run_soon(g->d);
}

/* Whether another process is to come, as far as is known before its end is judged. */
static bool comes_again(const struct agent *a, const struct task *t)
{
	if (a->ended || (a->in_stop && a->group.goal != GOAL_RETRY))
		return false;
	if (a->in_stop)
		return true;
	if (a->leader_over || preempting_is_up(a) || t->spent)
		return false;
	return t->state == TASK_WAITING || t->state == TASK_FAILED;
}

static void worker_gone(
	struct dispatch_group *g, int slot, const char *why, bool on_purpose, bool again)
{
	g->workers[slot].alive = false;
	queue_worker_gone(g->d->q, slot, why, on_purpose, again, loop_now_ms());
	dispatch_run_soon(g->d);
}

void dispatch_task_ended(struct agent *a, struct task *t)
{
	struct dispatch_group *g = group_of(a);
	struct dispatch_worker *w = g ? worker_of_task(g, t) : NULL;
	/* One that a person starts again waits for that by now. */
	bool asked = t->on_purpose || t->state == TASK_WAITING || t->state == TASK_STOPPED;
	char why[400];

	if (!w || !w->alive)
		return;
	how_gone(t, why, sizeof(why));
	worker_gone(
		g, t->slot, why, asked || (t->stop_us && !task_complaint(t)), comes_again(a, t));
}

void dispatch_task_over(struct agent *a, struct task *t)
{
	struct dispatch_group *g = group_of(a);
	char why[400];

	if (!g || !worker_of_task(g, t))
		return;
	how_gone(t, why, sizeof(why));
	worker_gone(g, t->slot, why, true, false);
}

/* --- the group ----------------------------------------------------------------------------------
 */

/* Whether the slot's task is in this incarnation. */
static bool is_wanted(struct agent *a, int slot)
{
	const struct task *t = worker_task(a->workers, slot);

	return t && !t->on_purpose;
}

void dispatch_begin(struct agent *a)
{
	struct dispatch_group *g = group_of(a);

	if (!g)
		return;
	g->lost = g->holds = false;
	loop_timer_disarm(g->grace);
	for (int i = 0; i < g->n_workers; i++)
		if (g->workers[i].alive || !is_wanted(a, i))
			worker_gone(g, i, "is given up", true, is_wanted(a, i));
	dispatch_waits_go(g->d);
	queue_unfail(g->d->q, loop_now_ms());
	queue_go(g->d->q);
	dispatch_run_soon(g->d);
}

/* Those that a call counts on all have a process. */
static bool is_whole(struct agent *a, struct dispatch_group *g)
{
	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];
		const struct dispatch_worker *w = worker_of_task(g, t);

		if (spec_serves(a->spec, t->role) && !t->on_purpose && (!w || !w->alive))
			return false;
	}
	return true;
}

void dispatch_running(struct agent *a)
{
	struct dispatch_group *g = group_of(a);

	if (!g || !is_whole(a, g))
		return;
	queue_whole(g->d->q, loop_now_ms());
	dispatch_run_soon(g->d);
}

/* What waits for the queue gets, and with which status. */
static enum status stop_text(const struct agent *a, char *text, size_t size)
{
	const char *colon = a->reason[0] ? ": " : "";

	switch (a->group.goal) {
	case GOAL_SUCCEED:
		snprintf(text, size, "the job is over%s%s", colon, a->reason);
		return STATUS_UNAVAILABLE;
	case GOAL_FAIL:
		snprintf(text, size, "the job has failed%s%s", colon, a->reason);
		return STATUS_UNAVAILABLE;
	case GOAL_NONE:
	case GOAL_RETRY:
	case GOAL_STOP:
	case GOAL_TIMEOUT:
	case GOAL_PREEMPT:
		break;
	}
	snprintf(text, size, "the group is being stopped%s%s", colon, a->reason);
	return STATUS_CANCELLED;
}

void dispatch_stopping(struct agent *a)
{
	struct dispatch_group *g = group_of(a);
	char text[800];
	enum status status;

	if (!g)
		return;
	g->holds = false;
	loop_timer_disarm(g->grace);
	status = stop_text(a, text, sizeof(text));
	/* Coordinators elsewhere go on with the next incarnation; tasks have to leave. */
	if (a->group.goal == GOAL_RETRY)
		dispatch_waits_stop(g->d, text);
	else
		queue_stop(g->d->q, status, text, false);
	dispatch_run_soon(g->d);
}

static void tell_left(struct agent *a, struct dispatch_group *g)
{
	struct queue_stats s;
	size_t n;

	queue_stats(g->d->q, NULL, &s);
	n = s.n[QUEUE_QUEUED] + s.n[QUEUE_RUNNING];
	if (!n)
		return;
	log_notice("%zu of the work queue's tasks were not over", n);
	events_add(a->events, "queue-left", a->attempt, -1,
		json_pack("{s:I, s:I}", "queued", (json_int_t)s.n[QUEUE_QUEUED], "running",
			(json_int_t)s.n[QUEUE_RUNNING]),
		"the job has ended with %zu of the work queue's tasks not over: %zu queued, %zu "
		"running",
		n, s.n[QUEUE_QUEUED], s.n[QUEUE_RUNNING]);
}

void dispatch_over(struct agent *a)
{
	struct dispatch_group *g = group_of(a);
	char text[800];

	if (!g)
		return;
	tell_left(a, g);
	snprintf(text, sizeof(text), "the job has ended: %s", a->end.message);
	queue_stop(g->d->q, STATUS_UNAVAILABLE, text, true);
	dispatch_run(g->d);
}

/* --- a loss that fails the queue ----------------------------------------------------------------
 */

int dispatch_exit_status(const struct agent *a, const struct task *t)
{
	bool ours = t->role->on_failure == SPEC_FAILURE_QUEUE && !t->exit.error;

	return ours && a->spec->queue.exit_code != SPEC_UNSET ? a->spec->queue.exit_code : -1;
}

void dispatch_lost(struct agent *a, const struct task *t)
{
	struct dispatch_group *g = group_of(a);
	char how[400], what[500], grace[DURATION_TEXT_MAX];
	struct queue_error e = { STATUS_UNAVAILABLE, what, "", t->slot, -1 };

	if (!g || g->lost)
		return;
	how_gone(t, how, sizeof(how));
	snprintf(what, sizeof(what), "%s %s", agent_task_name(t), how);
	g->lost = g->holds = true;
	for (int i = 0; i < g->n_workers; i++)
		g->workers[i].told = false;
	agent_set_reason(a, "%s", what);
	log_warning("%s: all of the work queue's tasks are cancelled", what);
	events_add(a->events, "queue-lost", a->attempt, t->rank, NULL,
		"%s: all of the work queue's tasks are cancelled; who submits them has %s to leave",
		what, duration_format(a->spec->queue.loss_grace_ms, grace));
	queue_fail_all(g->d->q, &e,
		a->spec->queue.exit_code == SPEC_UNSET ? -1 : a->spec->queue.exit_code,
		loop_now_ms());
	loop_timer_arm(g->grace, (uint64_t)a->spec->queue.loss_grace_ms);
	dispatch_run_soon(g->d);
}

void dispatch_group_told(struct dispatch *d, const struct varlink_call *call)
{
	const struct worker_peer *p = varlink_call_user(call); /* agent.sock has no such word */
	struct dispatch_group *g = d->group;

	if (g->holds && p && p->slot >= 0 && p->slot < g->n_workers)
		g->workers[p->slot].told = true;
}

/* Whether somebody still has to be waited for. */
static bool is_waited_for(struct agent *a, struct dispatch_group *g)
{
	bool any = false;

	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];
		const struct dispatch_worker *w = worker_of_task(g, t);

		any |= task_alive(t) && t->role->on_failure != SPEC_FAILURE_QUEUE;
		if (!task_alive(t) && ((w && w->told) || t->role->leader))
			return false;
	}
	return any;
}

bool dispatch_holds(struct agent *a)
{
	struct dispatch_group *g = group_of(a);

	if (!g || !g->holds)
		return false;
	if (is_waited_for(a, g) && !preempting_is_up(a))
		return true;
	g->holds = false;
	loop_timer_disarm(g->grace);
	return false;
}

/* --- what the machine wants ---------------------------------------------------------------------
 */

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

	if (!t || !task_alive(t) || a->in_stop || a->ended)
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

	if (!t || !task_alive(t) || a->in_stop || a->ended)
		return;
	rank = t->rank;
	log_warning("%s: %s", agent_task_name(t), todo->text);
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
	if (d->group->saving || limit <= 0 || !a->hang)
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
		break;
	}
}

void dispatch_group_settled(struct dispatch *d)
{
}

/* --- for people ---------------------------------------------------------------------------------
 */

static bool is_used(const struct agent *a, struct queue_stats *s)
{
	const struct dispatch_group *g = group_of(a);

	if (!g)
		return false;
	queue_stats(g->d->q, NULL, s);
	return s->over || s->waiting || s->has_error || s->n[QUEUE_QUEUED] || s->n[QUEUE_RUNNING];
}

json_t *dispatch_json(const struct agent *a)
{
	struct queue_stats s;
	json_t *j;

	if (!is_used(a, &s))
		return NULL;
	j = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "queued",
		(json_int_t)s.n[QUEUE_QUEUED], "running", (json_int_t)s.n[QUEUE_RUNNING],
		"succeeded", (json_int_t)s.n[QUEUE_SUCCEEDED], "failed",
		(json_int_t)s.n[QUEUE_FAILED], "cancelled", (json_int_t)s.n[QUEUE_CANCELLED],
		"over", (json_int_t)s.over, "put_back", (json_int_t)s.put_back, "workers",
		(json_int_t)s.workers);
	if (j && s.has_error)
		json_object_set_new(j, "error", json_text(s.error.message));
	return j;
}

void dispatch_text(const struct agent *a, char *text, size_t size)
{
	struct queue_stats s;

	text[0] = '\0';
	if (!is_used(a, &s))
		return;
	/* What a task says of its failure may have many lines. */
	snprintf(text, size, "queue: %zu queued, %zu running, %" PRIu64 " over, %zu workers%s%.*s",
		s.n[QUEUE_QUEUED], s.n[QUEUE_RUNNING], s.over, s.workers,
		s.has_error ? "; error: " : "",
		s.has_error ? (int)strcspn(s.error.message, "\n") : 0,
		s.has_error ? s.error.message : "");
}
