/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure_list.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "common/base/proc.h"
#include "common/text/duration.h"
#include "common/text/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

json_t *json_text(const char *text)
{
	return text ? json_string_lossy(text, strlen(text)) : NULL;
}

json_t *agent_verdict_json(const struct agent *a)
{
	json_t *j;

	if (!a->end.result)
		return NULL;
	j = json_object();
	json_put(j, "result", json_string(a->end.result));
	json_put(j, "exit_status", json_integer(a->end.exit_status));
	json_put(j, "message", json_text(a->end.message));
	if (a->end.root_cause)
		json_put(j, "root_cause", json_incref(a->end.root_cause));
	FEATURES_CALL(a, describe_verdict, a, j);
	return j;
}

struct view_usage {
	struct proc_stat *procs;
	size_t n;
};

/* Memory and CPU of a worker and of all that is below it. */
static void view_live(
	const struct agent *a, const struct task *t, const struct view_usage *u, json_t *j)
{
	_cleanup_free_ struct proc_stat *mine = NULL;
	_cleanup_free_ char *line = logs_last_line(a->logs, t->local_rank);
	struct proc_stat self;
	uint64_t rss, cpu;
	size_t n;

	if (line)
		json_put(j, "last_line", json_text(line));
	if (!task_alive(t) || proc_stat_read(t->pid, &self) < 0)
		return;
	rss = self.rss_bytes;
	cpu = self.cpu_ms;
	mine = malloc((u->n + 1) * sizeof(*mine));
	if (!mine)
		return;
	memcpy(mine, u->procs, u->n * sizeof(*mine));
	n = proc_keep_descendants(mine, u->n, t->pid);
	for (size_t i = 0; i < n; i++) {
		rss += mine[i].rss_bytes;
		cpu += mine[i].cpu_ms;
	}
	json_put(j, "rss_bytes", json_integer((json_int_t)rss));
	json_put(j, "cpu_ms", json_integer((json_int_t)cpu));
}

/* It is started again by itself, and has a budget of its own once it has failed. */
static bool view_is_alone(const struct agent *a, const struct task *t)
{
	return t->role && spec_scope_task(a->spec, t->role);
}

static json_t *view_tasks(const struct agent *a, bool live)
{
	json_t *list = json_array();
	struct view_usage usage = { 0 };

	if (live && !proc_stat_all(&usage.procs, &usage.n))
		usage.n = proc_keep_descendants(usage.procs, usage.n, getpid());
	for (int i = 0; i < a->n_tasks; i++) {
		json_t *j = task_json(&a->tasks[i]);

		json_put(j, "restarts",
			json_integer(a->tasks[i].restarts + (a->attempt < 0 ? 0 : a->attempt)));
		if (view_is_alone(a, &a->tasks[i]))
			json_put(j, "max_restarts",
				json_integer(spec_restart_of(a->spec, a->tasks[i].role)->max));
		if (live || a->ended) /* the last line of a run stays with its record */
			view_live(a, &a->tasks[i], &usage, j);
		FEATURES_CALL(a, describe_worker, a, &a->tasks[i], j, live || a->ended);
		json_array_append_new(list, j);
	}
	free(usage.procs);
	return list;
}

static void view_times(const struct agent *a, json_t *j)
{
	json_put(j, "created_us", json_integer(a->created_us));
	if (a->started_us)
		json_put(j, "started_us", json_integer(a->started_us));
	if (a->ended_us)
		json_put(j, "ended_us", json_integer(a->ended_us));
	if (a->next_try_us)
		json_put(j, "next_try_us", json_integer(a->next_try_us));
}

json_t *agent_job_json(const struct agent *a, bool live)
{
	_cleanup_free_ char *command = spec_command_line(a->spec);
	json_t *j = json_object();

	json_put(j, "name", json_string(a->spec->name));
	json_put(j, "run", json_string(a->opt.run));
	json_put(j, "state", json_string(group_state_name(a->group.state)));
	if (a->reason[0])
		json_put(j, "reason", json_text(a->reason));
	if (a->end.result)
		json_put(j, "verdict", agent_verdict_json(a));
	json_put(j, "user", json_text(a->user));
	json_put(j, "uid", json_integer(getuid()));
	view_times(a, j);
	json_put(j, "attempt", json_integer(a->attempt < 0 ? 0 : a->attempt));
	json_put(j, "restarts", json_integer(a->budget.used));
	json_put(j, "max_restarts", json_integer(a->spec->restart.max));
	json_put(j, "agent_pid", json_integer(getpid()));
	json_put(j, "command", json_text(command ? command : "?"));
	if (a->spec->cwd)
		json_put(j, "cwd", json_text(a->spec->cwd));
	if (logs_run_dir(a->logs))
		json_put(j, "log_dir", json_text(logs_run_dir(a->logs)));
	if (a->log_bytes)
		json_put(j, "log_bytes", json_integer(a->log_bytes));
	FEATURES_CALL(a, describe_job, a, j);
	json_put(j, "tasks", view_tasks(a, live));
	return j;
}

json_t *agent_budget_json(const struct agent *a)
{
	const struct spec_restart *p = &a->spec->restart;
	json_t *j = json_object(), *causes = json_object();

	for (int i = 0; i < RESTART_N_CAUSES; i++)
		if (a->budget.by_cause[i])
			json_put(
				causes, restart_cause_name(i), json_integer(a->budget.by_cause[i]));
	json_put(j, "used", json_integer(a->budget.used));
	json_put(j, "max", json_integer(p->max));
	json_put(j, "left", json_integer(restart_left(p, &a->budget, loop_now_ms())));
	if (p->window_ms != SPEC_UNSET) {
		json_put(j, "window_ms", json_integer(p->window_ms));
		json_put(j, "window_used",
			json_integer(restart_window_used(p, &a->budget, loop_now_ms())));
		json_put(j, "window_max", json_integer(p->window_max));
	}
	json_put(j, "free", json_integer(a->budget.free));
	json_put(j, "by_cause", causes);
	json_put(j, "backoff_ms", json_integer(p->backoff_ms));
	if (a->next_try_us)
		json_put(j, "next_try_us", json_integer(a->next_try_us));
	return j;
}

/* Its end was not told yet. */
static bool view_goes_on(const struct agent *a)
{
	return a->group.state == GROUP_STARTING || a->group.state == GROUP_RUNNING ||
	       a->group.state == GROUP_STOPPING;
}

/* What is known of the present attempt, and what was made good before. */
static json_t *view_known(struct agent *a)
{
	json_t *list = outcome_known(a);
	char key[16];

	snprintf(key, sizeof(key), "%d", a->attempt);
	json_array_extend(list, json_object_get(a->failures, key));
	return list;
}

/* What the memory has no longer, or an agent before this one has seen. */
static json_t *view_old_failures(const struct agent *a, int attempt)
{
	_cleanup_free_ char *path = NULL;

	if (!a->opt.state_dir || asprintf(&path, "%s/events.jsonl", a->opt.state_dir) < 0) {
		path = NULL;
		return json_array();
	}
	return events_failures_all(path, attempt);
}

json_t *agent_failures_json(struct agent *a, int attempt)
{
	char key[16];
	json_t *list = NULL;

	if (view_goes_on(a) && (attempt < 0 || attempt == a->attempt)) {
		list = view_known(a);
		if (attempt >= 0 || json_array_size(list))
			return list;
		json_decref(list);
		list = NULL;
	}
	for (int i = attempt >= 0 ? attempt : a->attempt; i >= 0 && !list; i--) {
		snprintf(key, sizeof(key), "%d", i);
		list = json_object_get(a->failures, key);
		if (attempt >= 0)
			break;
	}
	if (!list)
		return view_old_failures(a, attempt);
	if (a->end.result)
		failure_list_put_first(list, a->end.root_cause);
	return json_incref(list);
}
