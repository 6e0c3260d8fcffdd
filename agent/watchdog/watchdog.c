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

static struct beat *watchdog_at(struct watchdog *bs, int slot)
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

struct beat *watchdog_find(const struct watchdog *bs, const struct worker *w)
{
	return w->slot >= 0 && (size_t)w->slot < bs->n ? bs->items[w->slot] : NULL;
}

/* The entry of a worker to check now, or NULL. */
static struct beat *watchdog_beat_of(struct watchdog *bs, const struct worker *w)
{
	struct beat *b = watchdog_find(bs, w);

	if (!b || !b->on || b->token != w->token || w->state != WORKER_RUNNING || w->attached)
		return NULL;
	return b;
}

static void beat_sample(
	struct supervisor *sv, const struct worker *w, struct beat *b, struct heartbeat_sample *ret)
{
	const struct board_slot *slot = sharing_board_slot(sv, w);

	progress_look(&b->progress);
	*ret = (struct heartbeat_sample){
		.expected = w->token,
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

static void beat_tell(
	struct supervisor *sv, const struct worker *w, const struct heartbeat_verdict *v)
{
	if (v->what == HEARTBEAT_BACK)
		log_notice("%s: %s", worker_called(w), v->text);
	else
		log_warning("%s: %s", worker_called(w), v->text);
	events_add(supervisor_events(sv), beat_event(v->what), supervisor_attempt(sv), w->rank,
		NULL, "%s: %s", worker_called(w), v->text);
}

static void watchdog_arm(struct watchdog *bs)
{
	struct supervisor *sv = bs->sv;
	uint64_t now = loop_now_ms(), next = UINT64_MAX;

	for (int i = 0; i < supervisor_n_workers(sv); i++) {
		const struct beat *b = watchdog_beat_of(bs, supervisor_worker(sv, i));
		uint64_t at = b ? heartbeat_next(&b->heartbeat, now) : UINT64_MAX;

		next = at < next ? at : next;
	}
	if (next == UINT64_MAX)
		loop_timer_disarm(bs->timer);
	else
		loop_timer_arm(bs->timer, next > now ? next - now : 0);
}

void watchdog_hold(struct watchdog *bs)
{
	if (bs->holding++)
		return;
	for (size_t i = 0; i < bs->n; i++)
		if (bs->items[i] && bs->items[i]->on)
			heartbeat_hold(&bs->items[i]->heartbeat, loop_now_ms());
	watchdog_arm(bs);
}

void watchdog_let_go(struct watchdog *bs)
{
	if (--bs->holding)
		return;
	for (size_t i = 0; i < bs->n; i++)
		if (bs->items[i] && bs->items[i]->on)
			heartbeat_let_go(&bs->items[i]->heartbeat, loop_now_ms());
	watchdog_arm(bs);
}

static void watchdog_look(void *arg)
{
	struct watchdog *bs = arg;
	struct supervisor *sv = bs->sv;
	bool failed = false;

	for (int i = 0; i < supervisor_n_workers(sv); i++) {
		struct worker *w = supervisor_worker(sv, i);
		struct beat *b = watchdog_beat_of(bs, w);
		struct heartbeat_sample sample;
		struct heartbeat_verdict v;

		if (!b)
			continue;
		beat_sample(sv, w, b, &sample);
		v = heartbeat_look(&b->heartbeat, &sample, loop_now_ms());
		if (v.what == HEARTBEAT_FINE)
			continue;
		beat_tell(sv, w, &v);
		if (!beat_failed(v.what))
			continue;
		snprintf(b->why, sizeof(b->why), "%s", v.text);
		b->failing = failed = true;
		b->found = ++bs->found;
		/* A failure that restarts this worker alone is no cause for the group. */
		if (supervisor_spec(sv)->heartbeat.on_failure != SPEC_HEARTBEAT_REPORT &&
			!spec_scope_worker(supervisor_spec(sv), w->role))
			supervisor_worker_failing(sv, w, v.text);
	}
	if (failed)
		watchdog_save(bs);
	watchdog_arm(bs);
}

/* Sets up the checks that the specification asks for and w can show. */
static int beat_watch(struct supervisor *sv, const struct worker *w, struct beat *b)
{
	const struct spec_heartbeat *spec = &supervisor_spec(sv)->heartbeat;
	const char *logs[2] = { logs_worker_path(supervisor_logs(sv), w->local_rank, 0),
		logs_worker_path(supervisor_logs(sv), w->local_rank, 1) };
	struct prefix_vars vars = { .role = w->role->name,
		.host = supervisor_host(sv),
		.index = w->index,
		.rank = w->rank,
		.local_rank = w->local_rank };
	const char *cwd = w->role->cwd ? w->role->cwd : supervisor_spec(sv)->cwd;
	_cleanup_free_ char *name = NULL, *path = NULL;

	b->spec = *spec;
	if (!logs[0] && !logs[1] &&
		(spec->log_timeout_ms != SPEC_UNSET ||
			spec->log_pattern_timeout_ms != SPEC_UNSET)) {
		b->spec.log_timeout_ms = b->spec.log_pattern_timeout_ms = SPEC_UNSET;
		log_warning("%s has no log files: heartbeat.log_timeout and "
			    "log_pattern_timeout have no effect",
			worker_called(w));
		events_add(supervisor_events(sv), "log-not-watched", supervisor_attempt(sv),
			w->rank, NULL,
			"%s has no log files: heartbeat.log_timeout and log_pattern_timeout "
			"have no effect",
			worker_called(w));
	}
	if (spec->progress_file) {
		name = prefix_expand(spec->progress_file, &vars);
		if (!name || asprintf(&path, "%s%s%s", *name != '/' && cwd ? cwd : "",
				     *name != '/' && cwd ? "/" : "", name) < 0)
			return -ENOMEM;
	}
	return progress_init(&b->progress, logs, path,
		watchdog_of(sv)->has_pattern ? &watchdog_of(sv)->pattern : NULL, w->start == 0);
}

static void watchdog_worker_started(struct supervisor *sv, struct worker *w)
{
	struct watchdog *bs = watchdog_of(sv);
	struct beat *b;

	if (!bs || !heartbeat_wanted(&supervisor_spec(sv)->heartbeat) || w->slot < 0 || w->attached)
		return;
	b = watchdog_at(bs, w->slot);
	if (!b) {
		log_error("%s: out of memory: its heartbeat is not watched", worker_called(w));
		return;
	}
	beat_stop(b);
	*b = (struct beat){ .token = w->token };
	if (beat_watch(sv, w, b) < 0) {
		log_error("%s: out of memory: its heartbeat is not watched", worker_called(w));
		return;
	}
	b->on = true;
	heartbeat_start(&b->heartbeat, &b->spec, loop_now_ms());
	if (bs->holding)
		heartbeat_hold(&b->heartbeat, loop_now_ms());
	/* All workers of an attempt start in one turn. */
	if (loop_defer(supervisor_loop(sv), watchdog_started, bs) < 0)
		watchdog_arm(bs);
}

void watchdog_started(void *arg)
{
	watchdog_arm(arg);
}

static void watchdog_worker_ended(struct supervisor *sv, struct worker *w)
{
	struct beat *b = watchdog_of(sv) ? watchdog_find(watchdog_of(sv), w) : NULL;

	if (b)
		beat_stop(b);
}

static int watchdog_new(struct supervisor *sv, struct error *err)
{
	struct watchdog *bs = calloc(1, sizeof(*bs));
	const char *pattern = supervisor_spec(sv)->heartbeat.log_pattern;

	if (!bs)
		return error_set(err, -ENOMEM, "out of memory");
	feature_set_state(sv, &watchdog_feature, bs);
	bs->sv = sv;
	if (loop_timer_new(supervisor_loop(sv), watchdog_look, bs, &bs->timer) < 0 ||
		hang_dumps_new(supervisor_loop(sv), &bs->dumps) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (pattern && regcomp(&bs->pattern, pattern, REG_EXTENDED | REG_NOSUB))
		return error_field(err, -EINVAL, "heartbeat.log_pattern",
			"expected an extended regular expression, got \"%s\"", pattern);
	bs->has_pattern = pattern != NULL;
	return 0;
}

struct watchdog *watchdog_of(const struct supervisor *sv)
{
	return feature_state(sv, &watchdog_feature);
}

static void watchdog_free(struct supervisor *sv)
{
	struct watchdog *bs = watchdog_of(sv);

	if (!bs)
		return;
	feature_set_state(sv, &watchdog_feature, NULL);
	loop_cancel(supervisor_loop(sv), watchdog_started, bs);
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

static bool watchdog_child_exited(struct supervisor *sv, const siginfo_t *si)
{
	return watchdog_of(sv) &&
	       hang_child_exited(watchdog_of(sv)->dumps, si->si_pid, si->si_status);
}

static size_t watchdog_helpers(struct supervisor *sv, pid_t *pids, size_t max)
{
	return watchdog_of(sv) ? hang_helpers(watchdog_of(sv)->dumps, pids, max) : 0;
}

static const struct varlink_method manager_methods[] = {
	{ "Dump", dump_method },
	{ NULL, NULL },
};

const struct feature watchdog_feature = {
	.name = "watchdog",
	.init = watchdog_new,
	.fini = watchdog_free,
	.manager_methods = manager_methods,
	.worker_started = watchdog_worker_started,
	.worker_exited = watchdog_worker_ended,
	.child_exited = watchdog_child_exited,
	.helper_pids = watchdog_helpers,
};
