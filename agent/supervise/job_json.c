/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure_list.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "common/base/paths.h"
#include "common/base/proc.h"
#include "common/text/duration.h"
#include "common/text/json.h"
#include "common/text/ranks.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

json_t *job_json_verdict(const struct supervisor *sv)
{
	json_t *j;

	if (!sv->end.result)
		return NULL;
	j = json_object();
	json_put(j, "result", json_string(sv->end.result));
	json_put_int(j, "exit_status", sv->end.exit_status);
	json_put_string(j, "message", sv->end.message);
	if (sv->end.root_cause)
		json_put(j, "root_cause", json_incref(sv->end.root_cause));
	FEATURES_CALL(sv, describe_verdict, sv, j);
	return j;
}

/* Memory and CPU of a worker and of all that is below it. */
static void job_json_live(const struct supervisor *sv, const struct worker *w, json_t *j)
{
	_cleanup_free_ struct proc_stat *below = NULL;
	_cleanup_free_ char *line = logs_last_line(sv->logs, w->local_rank);
	struct proc_stat self;
	uint64_t rss, cpu;
	size_t n = 0;

	json_put_string(j, "last_line", line);
	if (!worker_alive(w) || proc_stat_read(w->pid, &self) < 0 ||
		proc_stat_below(w->pid, &below, &n) < 0)
		return;
	rss = self.rss_bytes;
	cpu = self.cpu_ms;
	for (size_t i = 0; i < n; i++) {
		rss += below[i].rss_bytes;
		cpu += below[i].cpu_ms;
	}
	json_put_int(j, "rss_bytes", (int64_t)rss);
	json_put_int(j, "cpu_ms", (int64_t)cpu);
}

/* only: NULL for all. */
static json_t *job_json_workers(const struct supervisor *sv, bool live, const struct ranks *only)
{
	json_t *list = json_array();

	for (int i = 0; i < sv->n_workers; i++) {
		json_t *j;

		if (only && !ranks_contains(only, sv->workers[i].rank))
			continue;
		j = worker_json(&sv->workers[i]);
		json_put_int(j, "restarts",
			sv->workers[i].restarts + (sv->attempt < 0 ? 0 : sv->attempt));
		if (spec_scope_worker(sv->spec, sv->workers[i].role))
			json_put_int(j, "max_restarts",
				spec_restart_of(sv->spec, sv->workers[i].role)->max);
		if (live || sv->ended) /* the record of an ended run keeps each last line */
			job_json_live(sv, &sv->workers[i], j);
		FEATURES_CALL(sv, describe_worker, sv, &sv->workers[i], j, live || sv->ended);
		json_array_append_new(list, j);
	}
	return list;
}

static void job_json_times(const struct supervisor *sv, json_t *j)
{
	json_put_int(j, "created_us", sv->created_us);
	if (sv->started_us)
		json_put_int(j, "started_us", sv->started_us);
	if (sv->ended_us)
		json_put_int(j, "ended_us", sv->ended_us);
	if (sv->next_try_us)
		json_put_int(j, "next_try_us", sv->next_try_us);
}

static json_t *job_json_causes(const int by_cause[RESTART_N_CAUSES])
{
	json_t *causes = json_object();

	for (int i = 0; i < RESTART_N_CAUSES; i++)
		if (by_cause[i])
			json_put_int(causes, restart_cause_name(i), by_cause[i]);
	return causes;
}

static void job_json_usage(const struct supervisor *sv, json_t *j)
{
	int64_t memory, cpu;

	cgroup_usage(sv->cgroup, &memory, &cpu);
	if (memory >= 0)
		json_put_int(j, "memory_bytes", memory);
	if (cpu >= 0)
		json_put_int(j, "cpu_ms", cpu);
}

static json_t *job_json_of(const struct supervisor *sv, bool live, const struct ranks *only)
{
	_cleanup_free_ char *command = spec_command_line(sv->spec);
	json_t *j = json_object();

	json_put(j, "name", json_string(sv->spec->name));
	json_put(j, "run", json_string(sv->opt.run));
	json_put(j, "state", json_string(group_state_name(sv->group.state)));
	if (sv->reason[0])
		json_put_string(j, "reason", sv->reason);
	if (sv->end.result)
		json_put(j, "verdict", job_json_verdict(sv));
	else
		json_put(j, "ready", json_boolean(supervisor_ready(sv)));
	json_put_string(j, "user", sv->user);
	json_put_int(j, "uid", getuid());
	job_json_times(sv, j);
	json_put_int(j, "attempt", sv->attempt < 0 ? 0 : sv->attempt);
	json_put_int(j, "restarts", sv->budget.used);
	json_put_int(j, "max_restarts", sv->spec->restart.max);
	json_put(j, "restarts_by_cause", job_json_causes(sv->budget.by_cause));
	json_put_int(j, "agent_pid", getpid());
	json_put_string(j, "command", command ? command : "?");
	json_put_string(j, "cwd", sv->spec->cwd);
	json_put_string(j, "origin", sv->spec->origin);
	json_put_string(j, "log_dir", logs_run_dir(sv->logs));
	json_put_string(j, "note", logs_loss_note(sv->logs));
	if (sv->log_bytes)
		json_put_int(j, "log_bytes", sv->log_bytes);
	if (live)
		job_json_usage(sv, j);
	FEATURES_CALL(sv, describe_job, sv, j, live || sv->ended);
	json_put(j, "workers", job_json_workers(sv, live, only));
	return j;
}

json_t *job_json(const struct supervisor *sv, bool live)
{
	return job_json_of(sv, live, NULL);
}

int job_json_asked(const struct supervisor *sv, const json_t *p, json_t **ret, struct error *err)
{
	_cleanup_(ranks_fini) struct ranks only = { 0 };
	const char *text = json_get_string(p, "ranks", NULL);
	int r = text ? ranks_parse(&only, text, "ranks", err) : 0;

	if (r == 0)
		*ret = job_json_of(sv, json_get_bool(p, "live", false), text ? &only : NULL);
	return r;
}

json_t *job_json_budget(const struct supervisor *sv)
{
	const struct spec_restart *p = &sv->spec->restart;
	json_t *j = json_object(), *causes = json_object(), *counted = json_object();
	json_t *limits = json_object();

	for (int i = 0; i < RESTART_N_CAUSES; i++) {
		int max = restart_max_of(p, i);

		if (sv->budget.by_cause[i] || max >= 0)
			json_put_int(causes, restart_cause_name(i), sv->budget.by_cause[i]);
		if (sv->budget.counted_by_cause[i] || max >= 0)
			json_put_int(
				counted, restart_cause_name(i), sv->budget.counted_by_cause[i]);
		if (max >= 0)
			json_put_int(limits, restart_cause_name(i), max);
	}
	json_put_int(j, "used", sv->budget.used);
	json_put_int(j, "max", p->max);
	json_put_int(j, "left", restart_left(p, &sv->budget, loop_now_ms()));
	if (p->window_ms != SPEC_UNSET) {
		json_put_int(j, "window_ms", p->window_ms);
		json_put_int(j, "window_used", restart_window_used(p, &sv->budget, loop_now_ms()));
		json_put_int(j, "window_max", p->window_max);
	}
	json_put_int(j, "free", sv->budget.free);
	json_put(j, "by_cause", causes);
	json_put(j, "counted_by_cause", counted);
	json_put(j, "max_by_cause", limits);
	json_put_int(j, "backoff_ms", p->backoff_ms);
	if (sv->next_try_us)
		json_put_int(j, "next_try_us", sv->next_try_us);
	return j;
}

/* Whether the present attempt has not ended, so that its failures are not all reported. */
static bool job_json_attempt_active(const struct supervisor *sv)
{
	return sv->group.state == GROUP_STARTING || sv->group.state == GROUP_RUNNING ||
	       sv->group.state == GROUP_STOPPING;
}

/* The known failures of the present attempt, followed by those after which workers were started
 * again. */
static json_t *job_json_known(struct supervisor *sv)
{
	json_t *list = supervisor_known_failures(sv);

	json_array_extend(list, run_failures_kept(sv, sv->attempt));
	return list;
}

/* From the record: failures that are no longer in memory, or that an earlier agent reported. */
static json_t *job_json_old_failures(const struct supervisor *sv, int attempt)
{
	const char *dir = sv->opt.state_dir;
	_cleanup_free_ char *path = dir ? paths_join(dir, "events.jsonl") : NULL;

	return path ? events_failures_all(path, attempt) : json_array();
}

json_t *job_json_failures(struct supervisor *sv, int attempt)
{
	json_t *list = NULL;

	if (job_json_attempt_active(sv) && (attempt < 0 || attempt == sv->attempt)) {
		list = job_json_known(sv);
		if (attempt >= 0 || json_array_size(list))
			return list;
		json_decref(list);
		list = NULL;
	}
	if (attempt >= 0)
		list = run_failures_kept(sv, attempt);
	for (int i = sv->attempt; attempt < 0 && i >= 0 && !list; i--)
		list = run_failures_kept(sv, i);
	if (!list)
		return job_json_old_failures(sv, attempt);
	if (sv->end.result)
		failure_list_put_first(list, sv->end.root_cause);
	return json_incref(list);
}
