/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "agent/dispatch_group.h"
#include "agent/preempting.h"
#include "agent/workers.h"
#include "common/duration.h"
#include "common/json.h"
#include "common/proc.h"

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
	if (!strcmp(a->end.result, "preempted"))
		json_put(j, "preemption", preempting_json(a));
	return j;
}

struct view_usage {
	struct proc_stat *procs;
	size_t n;
};

/* What it says of its own progress. */
static void view_step(const struct agent *a, const struct task *t, json_t *j)
{
	const struct board_slot *slot = workers_slot(a, t);
	int64_t step;

	if (!slot || !task_alive(t) ||
		atomic_load_explicit(&slot->token, memory_order_acquire) != t->token)
		return;
	step = atomic_load_explicit(&slot->step, memory_order_relaxed);
	if (step >= 0)
		json_put(j, "step", json_integer(step));
}

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
	view_step(a, t, j);
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

static bool view_any_alone(const struct agent *a)
{
	for (int i = 0; i < a->n_tasks; i++)
		if (view_is_alone(a, &a->tasks[i]))
			return true;
	return false;
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
		(void)!preempting_task_json(a, &a->tasks[i], j);
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
	json_t *j = json_object(), *preemption = preempting_json(a), *queue = dispatch_json(a);

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
	if (preemption)
		json_put(j, "preemption", preemption);
	if (queue)
		json_put(j, "queue", queue);
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

static void view_why_counts(const struct agent *a, FILE *f)
{
	char window[DURATION_TEXT_MAX];
	const struct spec_restart *p = &a->spec->restart;
	int left = restart_left(p, &a->budget, loop_now_ms());
	bool alone = view_any_alone(a), none = alone && p->max == 0 && !a->budget.used;

	if (alone)
		fputs("the group: ", f);
	if (none)
		fputs("no restarts allowed", f);
	else if (p->max != SPEC_UNSET)
		fprintf(f, "%d of %d restarts used", a->budget.used, p->max);
	else
		fprintf(f, "%d restarts used, no limit over the job's life", a->budget.used);
	if (p->window_ms != SPEC_UNSET)
		fprintf(f, "; %d of %d within the last %s",
			restart_window_used(p, &a->budget, loop_now_ms()), p->window_max,
			duration_format(p->window_ms, window));
	if (left >= 0 && !none)
		fprintf(f, "; %d left", left);
	fprintf(f, "; %d not counted\n", a->budget.free);
	for (int i = 0; i < RESTART_N_CAUSES; i++)
		if (a->budget.by_cause[i])
			fprintf(f, "  %d by %s\n", a->budget.by_cause[i], restart_cause_name(i));
}

/* Of tasks that are started again alone, each has a budget of its own. */
static void view_why_task(const struct task *t, const struct spec_restart *p, FILE *f)
{
	int left = restart_left(p, t->budget, loop_now_ms());

	fprintf(f, "  %s: %d", agent_task_name(t), t->budget->used);
	if (p->max != SPEC_UNSET)
		fprintf(f, " of %d", p->max);
	fprintf(f, " restarts used");
	if (left >= 0)
		fprintf(f, "; %d left", left);
	fprintf(f, "; %d not counted", t->budget->free);
	for (int i = 0; i < RESTART_N_CAUSES; i++)
		if (t->budget->by_cause[i])
			fprintf(f, "; %d by %s", t->budget->by_cause[i], restart_cause_name(i));
	if (t->next_start_us) {
		int64_t wait_us = t->next_start_us - (int64_t)loop_real_us();

		fprintf(f, "; next start in %.1f s", wait_us > 0 ? (double)wait_us / 1e6 : 0.0);
	}
	fputc('\n', f);
}

static void view_why_tasks(const struct agent *a, FILE *f)
{
	bool any = false;

	for (int i = 0; i < a->n_tasks; i++) {
		const struct task *t = &a->tasks[i];

		if (!t->budget)
			continue;
		if (!any)
			fprintf(f, "tasks by themselves:\n");
		any = true;
		view_why_task(t, spec_restart_of(a->spec, t->role), f);
	}
	if (!any && view_any_alone(a))
		fprintf(f, "tasks by themselves: no restarts used\n");
}

char *agent_why_tasks_text(const struct agent *a)
{
	char *text = NULL;
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	view_why_tasks(a, f);
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

char *agent_why_text(const struct agent *a)
{
	_cleanup_free_ char *notice = preempting_why_text(a);
	char *text = NULL, queue[640];
	size_t size;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	fprintf(f, "%s%s%s\n", group_state_name(a->group.state), a->reason[0] ? ": " : "",
		a->reason);
	view_why_counts(a, f);
	if (notice)
		fputs(notice, f);
	view_why_tasks(a, f);
	dispatch_text(a, queue, sizeof(queue));
	if (queue[0])
		fprintf(f, "%s\n", queue);
	if (a->next_try_us) {
		int64_t wait_us = a->next_try_us - (int64_t)loop_real_us();

		fprintf(f, "next try in %.1f s\n", wait_us > 0 ? (double)wait_us / 1e6 : 0.0);
	}
	if (fclose(f)) {
		free(text);
		return NULL;
	}
	return text;
}

json_t *agent_failures_json(const struct agent *a, int attempt)
{
	char key[16];
	json_t *list = NULL;

	for (int i = attempt >= 0 ? attempt : a->attempt; i >= 0 && !list; i--) {
		snprintf(key, sizeof(key), "%d", i);
		list = json_object_get(a->failures, key);
		if (attempt >= 0)
			break;
	}
	return list ? json_incref(list) : json_array();
}
