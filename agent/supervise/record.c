/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/file_system.h"
#include "agent/supervise/state_file.h"
#include "agent/supervise/supervisor.h"
#include "agent/supervise/why.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * What outlives the agent. In the run's log directory: job.json (what was asked), verdict.json. In
 * its record, under elasticd: state.json (the job as it stands, and the budget) and verdict.json.
 * All are replaced in one step. A disk that is full costs lines of the history only, and is said
 * once.
 *
 * Replacing a file can take a disk many milliseconds, which a restart must not pay: state.json is
 * a snapshot that follows a little later. What happened in between is in events.jsonl, which is
 * appended to at once; record_load() takes both.
 */

enum { RECORD_AGENTS = 1000000, RECORD_MAX = 16 << 20, RECORD_DELAY_MS = 50 };

struct record {
	struct state_file *state; /* NULL in the foreground */
	struct loop_timer *timer;
	bool failing;
};

static void record_wrote(struct agent *a, const char *path, int r)
{
	if (r < 0 && !a->record->failing)
		log_warning("%s: %s", path, safe_open_text(r));
	if (r < 0 && !a->record->failing && a->events)
		events_add(a->events, "record-failed", a->attempt, -1, NULL, "%s: %s", path,
			safe_open_text(r));
	a->record->failing = r < 0;
}

static void record_put(struct agent *a, const char *path, json_t *doc, bool sync)
{
	_cleanup_free_ char *text = doc ? json_dump_text(doc, NULL) : NULL;

	record_wrote(
		a, path, text ? file_write_atomic(path, text, strlen(text), 0640, sync) : -ENOMEM);
}

/* In the run's log directory, whose file system may hang. */
static void record_put_log(struct agent *a, const char *name, json_t *doc, mode_t mode)
{
	_cleanup_free_ char *text = doc ? json_dump_text(doc, NULL) : NULL;
	const char *dir = logs_run_dir(a->logs);
	_cleanup_free_ char *path = NULL;

	if (!dir || asprintf(&path, "%s/%s", dir, name) < 0) {
		path = NULL;
		return;
	}
	record_wrote(a, path, text ? log_fs_replace(path, text, strlen(text), mode) : -ENOMEM);
}

static void record_write_state(void *arg)
{
	struct agent *a = arg;
	_cleanup_json_ json_t *doc = json_object();
	json_t *replicas = json_array();
	_cleanup_free_ char *tasks = why_tasks_text(a);
	int r;

	for (size_t i = 0; i < a->spec->n_roles; i++)
		json_add(replicas, json_integer(a->replicas[i]));
	json_put(doc, "job", agent_job_json(a, false));
	json_put(doc, "attempt", json_integer(a->attempt));
	json_put(doc, "agents", json_integer(a->agents));
	json_put(doc, "budget", restart_save(&a->budget));
	json_put(doc, "task_budgets", agent_budgets_save(a));
	json_put(doc, "stopped_tasks", agent_stopped_save(a));
	json_put(doc, "seq", json_integer(events_last_seq(a->events)));
	json_put(doc, "replicas", replicas);
	json_put(doc, "why", agent_budget_json(a));
	json_put(doc, "decisions", why_save(a));
	if (tasks && *tasks)
		json_put(doc, "why_tasks", json_text(tasks));
	if (logs_run_dir(a->logs))
		json_put(doc, "log_dir", json_text(logs_run_dir(a->logs)));
	r = state_file_write(a->record->state, doc);
	record_wrote(a, state_file_name(a->record->state), r);
}

/* The names of an object's members in place of it. */
static json_t *record_names(const json_t *vars)
{
	json_t *names = json_array(), *value;
	const char *name;

	json_object_foreach ((json_t *)vars, name, value)
		json_add(names, json_string(name));
	return names;
}

/* The specification without what variables hold: logs are handed on, and secrets must not be. */
static json_t *record_spec(const struct spec *spec)
{
	json_t *doc = spec_to_json(spec), *role, *vars;
	size_t i, n;

	json_array_foreach (json_object_get(doc, "roles"), i, role) {
		json_t *each = json_object_get(role, "env_per_replica");

		if ((vars = json_object_get(role, "env")))
			json_put(role, "env", record_names(vars));
		json_array_foreach (each, n, vars)
			json_array_set_new(each, n, record_names(vars));
	}
	return doc;
}

static void record_job(struct agent *a)
{
	_cleanup_json_ json_t *doc = json_object();

	json_put(doc, "name", json_string(a->spec->name));
	json_put(doc, "run", json_string(a->opt.run));
	json_put(doc, "host", json_text(a->host));
	json_put(doc, "user", json_text(a->user));
	json_put(doc, "created_us", json_integer(a->created_us));
	if (a->opt.state_dir)
		json_put(doc, "record", json_text(a->opt.state_dir));
	json_put(doc, "spec", record_spec(a->spec));
	record_put_log(a, "job.json", doc, 0640);
}

int record_new(struct agent *a, struct error *err)
{
	a->record = calloc(1, sizeof(*a->record));
	if (!a->record)
		return error_set(err, -ENOMEM, "out of memory");
	if (a->opt.state_dir && !(a->record->state = state_file_new(a->opt.state_dir)))
		return error_set(err, -ENOMEM, "out of memory");
	if (loop_timer_new(a->loop, record_write_state, a, &a->record->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	record_job(a);
	/* Before the first worker: who finds this file knows that the run was begun. */
	record_flush(a);
	return 0;
}

void record_free(struct agent *a)
{
	if (!a->record)
		return;
	loop_timer_free(a->record->timer);
	state_file_free(a->record->state);
	free(a->record);
	a->record = NULL;
}

static void record_load_replicas(struct agent *a, const json_t *list)
{
	if (json_array_size(list) != a->spec->n_roles)
		return;
	for (size_t i = 0; i < a->spec->n_roles; i++) {
		json_int_t n = json_integer_value(json_array_get(list, i));

		if (n > 0 && n <= 4096)
			a->replicas[i] = (int)n;
	}
}

struct record_replay {
	struct agent *a;
	int64_t snapshot; /* state.json tells of the events up to here */
	int64_t last;
	int lost; /* agents that the events tell of */
};

static void record_replay(void *arg, const json_t *event)
{
	struct record_replay *p = arg;
	struct agent *a = p->a;
	const json_t *data = json_get_object(event, "data");
	int64_t attempt = json_get_int(event, "attempt", -1);

	p->last = json_get_int(event, "seq", 0);
	agent_past_note(a, event);
	p->lost += !strcmp(json_get_string(event, "event", ""), "agent-lost");
	if (p->last <= p->snapshot)
		return;
	why_replay(a, event);
	if (attempt > a->attempt && attempt < INT_MAX)
		a->attempt = (int)attempt;
	if (!strcmp(json_get_string(event, "event", ""), "restart"))
		restart_replay(&a->budget, json_get_string(data, "cause", ""),
			json_get_bool(data, "counted", true), loop_now_ms());
	else if (!strcmp(json_get_string(event, "event", ""), "task-restart"))
		agent_budgets_replay(a, event);
}

/* How many agents this run had, with the one that is to follow. */
static int record_agents(const json_t *doc)
{
	int64_t n = json_get_int(doc, "agents", 0);

	return n >= 0 && n < RECORD_AGENTS ? (int)n + 1 : 1;
}

static void record_load_state(struct agent *a, const char *path, const json_t *doc)
{
	const json_t *job = json_get_object(doc, "job");

	a->attempt = (int)json_get_int(doc, "attempt", -1);
	a->agents = record_agents(doc);
	a->created_us = json_get_int(job, "created_us", a->created_us);
	a->started_us = json_get_int(job, "started_us", 0);
	record_load_replicas(a, json_get_array(doc, "replicas"));
	agent_budgets_load(a, json_get_object(doc, "task_budgets"));
	agent_stopped_load(a, json_get_array(doc, "stopped_tasks"));
	why_load(a, json_get_array(doc, "decisions"));
	if (restart_load(&a->budget, json_get_object(doc, "budget"), loop_now_ms()) < 0)
		log_warning("%s: budget: not usable; it begins anew", path);
}

int record_load(struct agent *a, int64_t *ret_seq, struct error *err)
{
	_cleanup_free_ char *path = NULL, *events = NULL;
	_cleanup_json_ json_t *doc = NULL;
	struct record_replay replay = { .a = a };
	int r;

	*ret_seq = 0;
	if (!a->opt.state_dir)
		return 0;
	if (asprintf(&path, "%s/state.json", a->opt.state_dir) < 0 ||
		asprintf(&events, "%s/events.jsonl", a->opt.state_dir) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = state_file_read(a->opt.state_dir, RECORD_MAX, &doc, err);
	if (r < 0 && r != -ENOENT)
		log_warning("%s; what the events tell is used instead", err->text);
	if (!r) {
		record_load_state(a, path, doc);
		replay.snapshot = json_get_int(doc, "seq", 0);
	}
	/* Events are appended before the state is replaced: the file knows the last number, but for
	 * those that a full disk kept from it. */
	events_each(events, record_replay, &replay);
	/* Where the state could not be read. */
	if (a->agents <= replay.lost)
		a->agents = replay.lost + 1;
	*ret_seq = replay.last > replay.snapshot ? replay.last : replay.snapshot;
	return 0;
}

void record_changed(struct agent *a)
{
	if (a->record && a->record->state && !loop_timer_armed(a->record->timer))
		loop_timer_arm(a->record->timer, RECORD_DELAY_MS);
}

void record_settled(struct agent *a)
{
	if (a->record && a->record->state)
		loop_timer_arm(a->record->timer, 0);
}

void record_flush(struct agent *a)
{
	if (!a->record || !a->record->state)
		return;
	loop_timer_disarm(a->record->timer);
	record_write_state(a);
}

void record_verdict(struct agent *a)
{
	_cleanup_json_ json_t *doc = agent_verdict_json(a);
	_cleanup_free_ char *path = NULL;

	record_flush(a);
	record_put_log(a, "verdict.json", doc, 0640);
	if (!a->opt.state_dir)
		return;
	if (asprintf(&path, "%s/verdict.json", a->opt.state_dir) < 0)
		path = NULL;
	else
		record_put(a, path, doc, true);
	state_file_done(a->record->state);
}
