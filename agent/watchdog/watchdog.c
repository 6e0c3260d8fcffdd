/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/logs/prefix.h"
#include "agent/sharing/service.h"
#include "agent/watchdog/dump_method.h"
#include "agent/watchdog/private.h"
#include "common/base/array.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

/*
 * One timer for all workers, armed only while something is checked. A check samples the board and
 * the other signs of each running worker and asks heartbeat.h. A failed worker is declared failed
 * at once, since the first failure counts as the cause, but it is dumped before it is ended
 * (on_hang.c), together with the rest of the group: the worker that stands still is seldom the one
 * at fault. While a dump runs nothing is checked: its debuggers stop workers, and other workers may
 * wait for those.
 */

static void watch_stop(struct worker_watch *watch)
{
	if (!watch->on)
		return;
	watch->on = false;
	progress_fini(&watch->progress);
}

/* The entry for a slot, made where there is none; NULL without memory. */
static struct worker_watch *watchdog_add(struct watchdog *wd, int slot)
{
	size_t n = (size_t)slot + 1;
	struct worker_watch **bigger;

	if (n > wd->n) {
		bigger = array_grow(wd->watches, wd->n, n, sizeof(*bigger));
		if (!bigger)
			return NULL;
		wd->watches = bigger;
		wd->n = n;
	}
	if (!wd->watches[slot])
		wd->watches[slot] = calloc(1, sizeof(struct worker_watch));
	return wd->watches[slot];
}

struct worker_watch *watchdog_find(const struct watchdog *wd, const struct worker *w)
{
	return w->slot >= 0 && (size_t)w->slot < wd->n ? wd->watches[w->slot] : NULL;
}

/* The entry of a worker to check now, or NULL. */
static struct worker_watch *watchdog_checked(struct watchdog *wd, const struct worker *w)
{
	struct worker_watch *watch = watchdog_find(wd, w);

	if (!watch || !watch->on || watch->token != w->token || w->state != WORKER_RUNNING ||
		w->attached)
		return NULL;
	return watch;
}

static void watch_sample(struct supervisor *sv, const struct worker *w, struct worker_watch *watch,
	struct heartbeat_sample *ret)
{
	const struct board_slot *slot = sharing_board_slot(sv, w);

	progress_check(&watch->progress);
	*ret = (struct heartbeat_sample){
		.expected = w->token,
		.log_bytes = watch->progress.log_changes,
		.log_matches = watch->progress.matches,
		.file_changes = watch->progress.file_changes,
	};
	if (!slot)
		return;
	ret->token = atomic_load_explicit(&slot->token, memory_order_acquire);
	ret->beats = atomic_load_explicit(&slot->beats, memory_order_relaxed);
	ret->steps = atomic_load_explicit(&slot->steps, memory_order_relaxed);
}

static bool watch_failed(enum heartbeat_finding finding)
{
	return finding == HEARTBEAT_LOST || finding == HEARTBEAT_STALE ||
	       finding == HEARTBEAT_STUCK;
}

static const char *watch_event(enum heartbeat_finding finding)
{
	switch (finding) {
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

static void watch_report(
	struct supervisor *sv, const struct worker *w, const struct heartbeat_verdict *v)
{
	json_t *data = NULL;

	/* silent_ms counts as time in which the group stood still (agent/speed/goodput.c). A worker
	 * that restarts alone holds up no other. */
	if (watch_failed(v->finding) && !spec_scope_worker(supervisor_spec(sv), w->role))
		data = json_pack("{s:I}", "silent_ms", (json_int_t)v->silent_ms);
	supervisor_report(sv, v->finding == HEARTBEAT_BACK ? LOG_NOTICE : LOG_WARNING,
		watch_event(v->finding), w->rank, data, "%s: %s", worker_name(w), v->text);
}

static void watchdog_arm(struct watchdog *wd)
{
	struct supervisor *sv = wd->sv;
	uint64_t now = loop_now_ms(), next = UINT64_MAX;

	for (int i = 0; i < supervisor_n_workers(sv); i++) {
		const struct worker_watch *watch = watchdog_checked(wd, supervisor_worker(sv, i));
		uint64_t at = watch ? heartbeat_next(&watch->heartbeat, now) : UINT64_MAX;

		next = at < next ? at : next;
	}
	if (next == UINT64_MAX)
		loop_timer_disarm(wd->timer);
	else
		loop_timer_arm(wd->timer, next > now ? next - now : 0);
}

static void watchdog_arm_deferred(void *arg)
{
	watchdog_arm(arg);
}

void watchdog_pause(struct watchdog *wd)
{
	if (wd->pauses++)
		return;
	for (size_t i = 0; i < wd->n; i++)
		if (wd->watches[i] && wd->watches[i]->on)
			heartbeat_pause(&wd->watches[i]->heartbeat, loop_now_ms());
	watchdog_arm(wd);
}

void watchdog_resume(struct watchdog *wd)
{
	if (--wd->pauses)
		return;
	for (size_t i = 0; i < wd->n; i++)
		if (wd->watches[i] && wd->watches[i]->on)
			heartbeat_resume(&wd->watches[i]->heartbeat, loop_now_ms());
	watchdog_arm(wd);
}

static void watchdog_check(void *arg)
{
	struct watchdog *wd = arg;
	struct supervisor *sv = wd->sv;
	bool failed = false;

	for (int i = 0; i < supervisor_n_workers(sv); i++) {
		struct worker *w = supervisor_worker(sv, i);
		struct worker_watch *watch = watchdog_checked(wd, w);
		struct heartbeat_sample sample;
		struct heartbeat_verdict v;

		if (!watch)
			continue;
		watch_sample(sv, w, watch, &sample);
		v = heartbeat_check(&watch->heartbeat, &sample, loop_now_ms());
		if (v.finding == HEARTBEAT_FINE)
			continue;
		watch_report(sv, w, &v);
		if (!watch_failed(v.finding))
			continue;
		snprintf(watch->why, sizeof(watch->why), "%s", v.text);
		watch->failing = failed = true;
		watch->found = ++wd->found;
		/* A failure that restarts this worker alone is no cause for the group. */
		if (supervisor_spec(sv)->heartbeat.on_failure != SPEC_HEARTBEAT_REPORT &&
			!spec_scope_worker(supervisor_spec(sv), w->role))
			supervisor_worker_failing(sv, w, v.text);
	}
	if (failed)
		watchdog_dump_group(wd);
	watchdog_arm(wd);
}

static void watch_report_no_logs(struct supervisor *sv, const struct worker *w)
{
	supervisor_report(sv, LOG_WARNING, "log-not-watched", w->rank, NULL,
		"%s has no log files: heartbeat.log_timeout and log_pattern_timeout have no effect",
		worker_name(w));
}

/* Sets up the checks that the specification asks for and that are possible for w. */
static int watch_begin(struct supervisor *sv, const struct worker *w, struct worker_watch *watch)
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

	watch->spec = *spec;
	if (!logs[0] && !logs[1] &&
		(spec->log_timeout_ms != SPEC_UNSET ||
			spec->log_pattern_timeout_ms != SPEC_UNSET)) {
		watch->spec.log_timeout_ms = watch->spec.log_pattern_timeout_ms = SPEC_UNSET;
		watch_report_no_logs(sv, w);
	}
	if (spec->progress_file) {
		name = prefix_expand(spec->progress_file, &vars);
		if (!name || asprintf(&path, "%s%s%s", *name != '/' && cwd ? cwd : "",
				     *name != '/' && cwd ? "/" : "", name) < 0)
			return -ENOMEM;
	}
	return progress_init(&watch->progress, logs, path,
		watchdog_of(sv)->has_pattern ? &watchdog_of(sv)->pattern : NULL, w->start == 0);
}

static void watchdog_worker_started(struct supervisor *sv, struct worker *w)
{
	struct watchdog *wd = watchdog_of(sv);
	struct worker_watch *watch;

	if (!wd || !heartbeat_wanted(&supervisor_spec(sv)->heartbeat) || w->slot < 0 || w->attached)
		return;
	watch = watchdog_add(wd, w->slot);
	if (!watch) {
		log_error("%s: out of memory: its heartbeat is not watched", worker_name(w));
		return;
	}
	watch_stop(watch);
	*watch = (struct worker_watch){ .token = w->token };
	if (watch_begin(sv, w, watch) < 0) {
		log_error("%s: out of memory: its heartbeat is not watched", worker_name(w));
		return;
	}
	watch->on = true;
	heartbeat_start(&watch->heartbeat, &watch->spec, loop_now_ms());
	if (wd->pauses)
		heartbeat_pause(&watch->heartbeat, loop_now_ms());
	/* All workers of an attempt start in one turn. */
	if (loop_defer(supervisor_loop(sv), watchdog_arm_deferred, wd) < 0)
		watchdog_arm(wd);
}

static void watchdog_worker_ended(struct supervisor *sv, struct worker *w)
{
	struct worker_watch *watch = watchdog_of(sv) ? watchdog_find(watchdog_of(sv), w) : NULL;

	if (watch)
		watch_stop(watch);
}

static int watchdog_new(struct supervisor *sv, struct error *err)
{
	struct watchdog *wd = calloc(1, sizeof(*wd));
	const char *pattern = supervisor_spec(sv)->heartbeat.log_pattern;

	if (!wd)
		return error_set(err, -ENOMEM, "out of memory");
	feature_set_state(sv, &watchdog_feature, wd);
	wd->sv = sv;
	if (loop_timer_new(supervisor_loop(sv), watchdog_check, wd, &wd->timer) < 0 ||
		dumps_new(supervisor_loop(sv), &wd->dumps) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	if (pattern && regcomp(&wd->pattern, pattern, REG_EXTENDED | REG_NOSUB))
		return error_field(err, -EINVAL, "heartbeat.log_pattern",
			"expected an extended regular expression, got \"%s\"", pattern);
	wd->has_pattern = pattern != NULL;
	return 0;
}

struct watchdog *watchdog_of(const struct supervisor *sv)
{
	return feature_state(sv, &watchdog_feature);
}

static void watchdog_free(struct supervisor *sv)
{
	struct watchdog *wd = watchdog_of(sv);

	if (!wd)
		return;
	feature_set_state(sv, &watchdog_feature, NULL);
	loop_cancel(supervisor_loop(sv), watchdog_arm_deferred, wd);
	wd->dumps = dumps_free(wd->dumps);
	for (size_t i = 0; i < wd->n; i++) {
		if (wd->watches[i])
			watch_stop(wd->watches[i]);
		free(wd->watches[i]);
	}
	free(wd->watches);
	if (wd->has_pattern)
		regfree(&wd->pattern);
	loop_timer_free(wd->timer);
	free(wd);
}

/* An answer of other hosts about an earlier attempt may never come. */
static void watchdog_begin(struct supervisor *sv)
{
	if (watchdog_of(sv))
		watchdog_of(sv)->hosts_dumping = false;
}

/* --- the feature --- */

static bool watchdog_child_exited(struct supervisor *sv, const siginfo_t *si)
{
	return watchdog_of(sv) && dumps_child_exited(watchdog_of(sv)->dumps, si->si_pid);
}

static size_t watchdog_helpers(struct supervisor *sv, pid_t *pids, size_t max)
{
	return watchdog_of(sv) ? dumps_helper_pids(watchdog_of(sv)->dumps, pids, max) : 0;
}

static void watchdog_describe(const struct supervisor *sv, json_t *job, bool live)
{
	struct watchdog *wd = watchdog_of(sv);
	const struct worker_watch *watch;
	int silent = 0;

	if (!wd || supervisor_spec(sv)->heartbeat.period_ms == SPEC_UNSET || supervisor_ended(sv))
		return;
	for (int i = 0; i < supervisor_n_workers(sv); i++) {
		watch = watchdog_checked(wd, supervisor_worker(sv, i));
		silent += watch && watch->heartbeat.misses > 0;
	}
	json_put(job, "silent_workers", json_integer(silent));
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
	.attempt_begins = watchdog_begin,
	.worker_started = watchdog_worker_started,
	.worker_exited = watchdog_worker_ended,
	.hosts_dumped = watchdog_hosts_dumped,
	.hosts_dump = watchdog_hosts_dump,
	.child_exited = watchdog_child_exited,
	.helper_pids = watchdog_helpers,
	.describe_job = watchdog_describe,
};
