/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/prefix.h"
#include "agent/sharing/service.h"
#include "agent/watchdog/dump_method.h"
#include "agent/watchdog/private.h"
#include "common/base/log.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/*
 * One timer for all workers, armed only while something is checked. A check samples the board and
 * the other signs of each running worker and asks heartbeat.h. A failed worker is declared failed
 * at once, since the first failure counts as the cause, but it is saved before it is ended
 * (on_hang.c), together with the rest of the group: the worker that stands still is seldom the one
 * at fault. While a dump runs nothing is checked: its debuggers stop workers, and other workers may
 * wait for those.
 */

static void beat_stop(struct beat *b)
{
	if (!b->on)
		return;
	b->on = false;
	progress_fini(&b->progress);
}

static struct beat *beats_at(struct beats *bs, int slot)
{
	size_t n = (size_t)slot + 1;
	struct beat **bigger;

	if (n > bs->n) {
		bigger = reallocarray(bs->items, n, sizeof(*bigger));
		if (!bigger)
			return NULL;
		memset(bigger + bs->n, 0, (n - bs->n) * sizeof(*bigger));
		bs->items = bigger;
		bs->n = n;
	}
	if (!bs->items[slot])
		bs->items[slot] = calloc(1, sizeof(struct beat));
	return bs->items[slot];
}

struct beat *beats_find(const struct beats *bs, const struct task *t)
{
	return t->slot >= 0 && (size_t)t->slot < bs->n ? bs->items[t->slot] : NULL;
}

/* The entry of a worker to check now, or NULL. */
static struct beat *beats_of(struct beats *bs, const struct task *t)
{
	struct beat *b = beats_find(bs, t);

	if (!b || !b->on || b->token != t->token || t->state != TASK_RUNNING || t->attached)
		return NULL;
	return b;
}

static void beat_sample(
	struct agent *a, const struct task *t, struct beat *b, struct heartbeat_sample *ret)
{
	const struct board_slot *slot = workers_slot(a, t);

	progress_look(&b->progress);
	*ret = (struct heartbeat_sample){
		.expected = t->token,
		.log_bytes = b->progress.log_changes,
		.log_matches = b->progress.matches,
		.file_changes = b->progress.file_changes,
	};
	if (!slot)
		return;
	ret->token = atomic_load_explicit(&slot->token, memory_order_acquire);
	ret->beats = atomic_load_explicit(&slot->beats, memory_order_relaxed);
	ret->steps = atomic_load_explicit(&slot->steps, memory_order_relaxed);
}

static bool beat_failed(enum heartbeat_what what)
{
	return what == HEARTBEAT_LOST || what == HEARTBEAT_STALE || what == HEARTBEAT_STUCK;
}

static const char *beat_event(enum heartbeat_what what)
{
	switch (what) {
	case HEARTBEAT_MISSED:
		return "heartbeat-missed";
	case HEARTBEAT_BACK:
		return "heartbeat-back";
	case HEARTBEAT_STUCK:
		return "no-progress";
	default:
		return "heartbeat-lost";
	}
}

static void beat_tell(struct agent *a, const struct task *t, const struct heartbeat_verdict *v)
{
	if (v->what == HEARTBEAT_BACK)
		log_notice("%s: %s", task_called(t), v->text);
	else
		log_warning("%s: %s", task_called(t), v->text);
	events_add(a->events, beat_event(v->what), a->attempt, t->rank, NULL, "%s: %s",
		task_called(t), v->text);
}

static void beats_arm(struct beats *bs)
{
	struct agent *a = bs->a;
	uint64_t now = loop_now_ms(), next = UINT64_MAX;

	for (int i = 0; i < a->n_tasks; i++) {
		const struct beat *b = beats_of(bs, &a->tasks[i]);
		uint64_t at = b ? heartbeat_next(&b->heartbeat, now) : UINT64_MAX;

		next = at < next ? at : next;
	}
	if (next == UINT64_MAX)
		loop_timer_disarm(bs->timer);
	else
		loop_timer_arm(bs->timer, next > now ? next - now : 0);
}

void beats_hold(struct beats *bs)
{
	if (bs->holding++)
		return;
	for (size_t i = 0; i < bs->n; i++)
		if (bs->items[i] && bs->items[i]->on)
			heartbeat_hold(&bs->items[i]->heartbeat, loop_now_ms());
	beats_arm(bs);
}

void beats_let_go(struct beats *bs)
{
	if (--bs->holding)
		return;
	for (size_t i = 0; i < bs->n; i++)
		if (bs->items[i] && bs->items[i]->on)
			heartbeat_let_go(&bs->items[i]->heartbeat, loop_now_ms());
	beats_arm(bs);
}

static void beats_look(void *arg)
{
	struct beats *bs = arg;
	struct agent *a = bs->a;
	bool failed = false;

	for (int i = 0; i < a->n_tasks; i++) {
		struct task *t = &a->tasks[i];
		struct beat *b = beats_of(bs, t);
		struct heartbeat_sample sample;
		struct heartbeat_verdict v;

		if (!b)
			continue;
		beat_sample(a, t, b, &sample);
		v = heartbeat_look(&b->heartbeat, &sample, loop_now_ms());
		if (v.what == HEARTBEAT_FINE)
			continue;
		beat_tell(a, t, &v);
		if (!beat_failed(v.what))
			continue;
		snprintf(b->why, sizeof(b->why), "%s", v.text);
		b->failing = failed = true;
		b->found = ++bs->found;
		/* A failure that restarts this worker alone is no cause for the group. */
		if (a->spec->heartbeat.on_failure != SPEC_HEARTBEAT_REPORT &&
			!spec_scope_task(a->spec, t->role))
			agent_task_failing(a, t, v.text);
	}
	if (failed)
		beats_save(bs);
	beats_arm(bs);
}

/* Sets up the checks that the specification asks for and t can show. */
static int beat_watch(struct agent *a, const struct task *t, struct beat *b)
{
	const struct spec_heartbeat *spec = &a->spec->heartbeat;
	const char *logs[2] = { logs_task_path(a->logs, t->local_rank, 0),
		logs_task_path(a->logs, t->local_rank, 1) };
	struct prefix_vars vars = { .role = t->role->name,
		.host = a->host,
		.index = t->index,
		.rank = t->rank,
		.local_rank = t->local_rank };
	const char *cwd = t->role->cwd ? t->role->cwd : a->spec->cwd;
	_cleanup_free_ char *name = NULL, *path = NULL;

	b->spec = *spec;
	if (!logs[0] && !logs[1] &&
		(spec->log_timeout_ms != SPEC_UNSET ||
			spec->log_pattern_timeout_ms != SPEC_UNSET)) {
		b->spec.log_timeout_ms = b->spec.log_pattern_timeout_ms = SPEC_UNSET;
		log_warning("%s has no log files: heartbeat.log_timeout and "
			    "log_pattern_timeout have no effect",
			task_called(t));
		events_add(a->events, "log-not-watched", a->attempt, t->rank, NULL,
			"%s has no log files: heartbeat.log_timeout and log_pattern_timeout "
			"have no effect",
			task_called(t));
	}
	if (spec->progress_file) {
		name = prefix_expand(spec->progress_file, &vars);
		if (!name || asprintf(&path, "%s%s%s", *name != '/' && cwd ? cwd : "",
				     *name != '/' && cwd ? "/" : "", name) < 0)
			return -ENOMEM;
	}
	return progress_init(&b->progress, logs, path,
		a->beats->has_pattern ? &a->beats->pattern : NULL, t->incarnation == 0);
}

static void beats_task_started(struct agent *a, struct task *t)
{
	struct beats *bs = a->beats;
	struct beat *b;

	if (!bs || !heartbeat_wanted(&a->spec->heartbeat) || t->slot < 0 || t->attached)
		return;
	b = beats_at(bs, t->slot);
	if (!b) {
		log_error("%s: out of memory: its heartbeat is not watched", task_called(t));
		return;
	}
	beat_stop(b);
	*b = (struct beat){ .token = t->token };
	if (beat_watch(a, t, b) < 0) {
		log_error("%s: out of memory: its heartbeat is not watched", task_called(t));
		return;
	}
	b->on = true;
	heartbeat_start(&b->heartbeat, &b->spec, loop_now_ms());
	if (bs->holding)
		heartbeat_hold(&b->heartbeat, loop_now_ms());
	/* All workers of an attempt start in one turn. */
	if (loop_defer(a->loop, beats_started, bs) < 0)
		beats_arm(bs);
}

void beats_started(void *arg)
{
	beats_arm(arg);
}

static void beats_task_ended(struct agent *a, struct task *t)
{
	struct beat *b = a->beats ? beats_find(a->beats, t) : NULL;

	if (b)
		beat_stop(b);
}

static int beats_new(struct agent *a, struct error *err)
{
	struct beats *bs = calloc(1, sizeof(*bs));
	const char *pattern = a->spec->heartbeat.log_pattern;

	if (!bs)
		return error_set(err, -ENOMEM, "out of memory");
	a->beats = bs;
	bs->a = a;
	if (loop_timer_new(a->loop, beats_look, bs, &bs->timer) < 0 ||
		hang_dumps_new(a->loop, &bs->dumps) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (pattern && regcomp(&bs->pattern, pattern, REG_EXTENDED | REG_NOSUB))
		return error_field(err, -EINVAL, "heartbeat.log_pattern",
			"expected an extended regular expression, got \"%s\"", pattern);
	bs->has_pattern = pattern != NULL;
	return 0;
}

static void beats_free(struct agent *a)
{
	struct beats *bs = a->beats;

	if (!bs)
		return;
	a->beats = NULL;
	loop_cancel(a->loop, beats_started, bs);
	bs->dumps = hang_dumps_free(bs->dumps);
	for (size_t i = 0; i < bs->n; i++) {
		if (bs->items[i])
			beat_stop(bs->items[i]);
		free(bs->items[i]);
	}
	free(bs->items);
	if (bs->has_pattern)
		regfree(&bs->pattern);
	loop_timer_free(bs->timer);
	free(bs);
}

/* --- the feature --- */

static bool beats_child_exited(struct agent *a, const siginfo_t *si)
{
	return a->beats && hang_child_exited(a->beats->dumps, si->si_pid, si->si_status);
}

static size_t beats_helpers(struct agent *a, pid_t *pids, size_t max)
{
	return a->beats ? hang_helpers(a->beats->dumps, pids, max) : 0;
}

static const struct varlink_method manager_methods[] = {
	{ "Dump", dump_method },
	{ NULL, NULL },
};

const struct feature watchdog_feature = {
	.name = "watchdog",
	.init = beats_new,
	.fini = beats_free,
	.manager_methods = manager_methods,
	.worker_started = beats_task_started,
	.worker_exited = beats_task_ended,
	.child_exited = beats_child_exited,
	.helper_pids = beats_helpers,
};
