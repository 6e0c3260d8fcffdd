/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files/file_system.h"
#include "agent/supervise/private.h"
#include "agent/supervise/state_file.h"
#include "agent/supervise/why.h"
#include "common/base/file.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/text/json.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/*
 * The files that outlive the agent. In the run's log directory: job.json (the specification) and
 * verdict.json. In the run's record, under elasticd: state.json (the job's state and its budgets)
 * and verdict.json. Each is replaced in one step. A full disk is logged once.
 *
 * Replacing a file can take a disk many milliseconds, and a restart must not wait for that, so
 * state.json is written a little later. Meanwhile events.jsonl has what happened, since each event
 * is appended at once; record_load() reads both.
 */

enum { RECORD_AGENTS = 1000000, RECORD_DELAY_MS = 50 };

struct record {
	struct state_file *state; /* NULL in the foreground */
	struct loop_timer *timer;
	bool failing;
};

static void record_wrote(struct supervisor *sv, const char *path, int r)
{
	if (r < 0 && !sv->record->failing)
		supervisor_report(sv, LOG_WARNING, "record-failed", -1, NULL, "%s: %s", path,
			safe_open_text(r));
	sv->record->failing = r < 0;
}

/* Writes doc to the run's log directory, whose file system may hang. */
static void record_put_log(struct supervisor *sv, const char *name, const json_t *doc)
{
	_cleanup_free_ char *text = json_dump_text(doc, NULL);
	const char *dir = logs_run_dir(sv->logs);
	_cleanup_free_ char *path = dir ? paths_join(dir, name) : NULL;

	if (path)
		record_wrote(
			sv, path, text ? log_fs_replace(path, text, strlen(text), 0640) : -ENOMEM);
}

static void record_write_state(void *arg)
{
	struct supervisor *sv = arg;
	_cleanup_json_ json_t *doc = json_object();
	json_t *replicas = json_array();
	_cleanup_free_ char *workers = why_workers_text(sv);
	int r;

	for (size_t i = 0; i < sv->spec->n_roles; i++)
		json_add(replicas, json_integer(sv->replicas[i]));
	json_put(doc, "job", job_json(sv, false));
	json_put_int(doc, "attempt", sv->attempt);
	json_put_int(doc, "agents", sv->agents);
	json_put(doc, "budget", restart_save(&sv->budget));
	json_put(doc, "worker_budgets", worker_list_save_budgets(sv));
	json_put(doc, "stopped_workers", worker_list_save_stopped(sv));
	json_put_int(doc, "seq", events_last_seq(sv->events));
	json_put(doc, "replicas", replicas);
	json_put(doc, "why", job_json_budget(sv));
	json_put(doc, "decisions", why_save(sv));
	if (workers && *workers)
		json_put_string(doc, "why_workers", workers);
	json_put_string(doc, "log_dir", logs_run_dir(sv->logs));
	r = state_file_write(sv->record->state, doc);
	record_wrote(sv, state_file_name(sv->record->state), r);
}

/* The names of an object's members, as an array. */
static json_t *record_names(const json_t *vars)
{
	json_t *names = json_array(), *value;
	const char *name;

	json_object_foreach ((json_t *)vars, name, value)
		json_add(names, json_string(name));
	return names;
}

/* The specification without the values of variables, since people pass logs on and a value may be a
 * secret. */
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

static void record_job(struct supervisor *sv)
{
	_cleanup_json_ json_t *doc = json_object();

	json_put(doc, "name", json_string(sv->spec->name));
	json_put(doc, "run", json_string(sv->opt.run));
	json_put_string(doc, "host", sv->host);
	json_put_string(doc, "user", sv->user);
	json_put_int(doc, "created_us", sv->created_us);
	json_put_string(doc, "record", sv->opt.state_dir);
	json_put(doc, "spec", record_spec(sv->spec));
	record_put_log(sv, "job.json", doc);
}

int record_new(struct supervisor *sv, struct error *err)
{
	sv->record = calloc(1, sizeof(*sv->record));
	if (!sv->record)
		return error_set(err, -ENOMEM, "out of memory");
	if (sv->opt.state_dir && !(sv->record->state = state_file_new(sv->opt.state_dir)))
		return error_set(err, -ENOMEM, "out of memory");
	if (loop_timer_new(sv->loop, record_write_state, sv, &sv->record->timer) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	record_job(sv);
	/* Before the first worker: this file shows elasticd that the run has begun. */
	record_flush(sv);
	return 0;
}

void record_free(struct supervisor *sv)
{
	if (!sv->record)
		return;
	loop_timer_free(sv->record->timer);
	state_file_free(sv->record->state);
	free(sv->record);
	sv->record = NULL;
}

static void record_load_replicas(struct supervisor *sv, const json_t *list)
{
	if (json_array_size(list) != sv->spec->n_roles)
		return;
	for (size_t i = 0; i < sv->spec->n_roles; i++) {
		json_int_t n = json_integer_value(json_array_get(list, i));

		if (n > 0 && n <= 4096)
			sv->replicas[i] = (int)n;
	}
}

struct record_replay {
	struct supervisor *sv;
	int64_t snapshot; /* number of the last event that state.json includes */
	int64_t last;	  /* number of the last event */
	int lost;	  /* number of "agent-lost" events */
};

static void record_replay(void *arg, const json_t *event)
{
	struct record_replay *p = arg;
	struct supervisor *sv = p->sv;
	const json_t *data = json_get_object(event, "data");
	int64_t attempt = json_get_int(event, "attempt", -1);

	p->last = json_get_int(event, "seq", 0);
	recover_note(sv, event);
	p->lost += !strcmp(json_get_string(event, "event", ""), "agent-lost");
	if (p->last <= p->snapshot)
		return;
	why_replay(sv, event);
	if (attempt > sv->attempt && attempt < INT_MAX)
		sv->attempt = (int)attempt;
	if (!strcmp(json_get_string(event, "event", ""), "restart"))
		restart_replay(&sv->budget, json_get_string(data, "cause", ""),
			json_get_bool(data, "counted", true), loop_now_ms());
	else if (!strcmp(json_get_string(event, "event", ""), "worker-restart"))
		worker_list_replay_budgets(sv, event);
}

/* How many agents this run had before this one, by state.json. */
static int record_agents(const json_t *doc)
{
	int64_t n = json_get_int(doc, "agents", 0);

	return n >= 0 && n < RECORD_AGENTS ? (int)n + 1 : 1;
}

static void record_load_state(struct supervisor *sv, const json_t *doc)
{
	const json_t *job = json_get_object(doc, "job");

	sv->attempt = (int)json_get_int(doc, "attempt", -1);
	sv->agents = record_agents(doc);
	sv->created_us = json_get_int(job, "created_us", sv->created_us);
	sv->started_us = json_get_int(job, "started_us", 0);
	record_load_replicas(sv, json_get_array(doc, "replicas"));
	worker_list_load_budgets(sv, json_get_object(doc, "worker_budgets"));
	worker_list_load_stopped(sv, json_get_array(doc, "stopped_workers"));
	why_load(sv, json_get_array(doc, "decisions"));
	if (restart_load(&sv->budget, json_get_object(doc, "budget"), loop_now_ms()) < 0)
		log_warning("%s/state.json: budget: not usable; counting restarts from 0",
			sv->opt.state_dir);
}

int record_load(struct supervisor *sv, int64_t *ret_seq, struct error *err)
{
	const char *dir = sv->opt.state_dir;
	_cleanup_free_ char *events = dir ? paths_join(dir, "events.jsonl") : NULL;
	_cleanup_json_ json_t *doc = NULL;
	struct record_replay replay = { .sv = sv };
	int r;

	*ret_seq = 0;
	if (!dir)
		return 0;
	if (!events)
		return error_set(err, -ENOMEM, "out of memory");
	r = state_file_read(dir, &doc, err);
	if (r < 0 && r != -ENOENT)
		log_warning("%s; using the events instead", err->text);
	if (!r) {
		record_load_state(sv, doc);
		replay.snapshot = json_get_int(doc, "seq", 0);
	}
	/* Events are appended before the state is replaced, so the file has the last number, unless
	 * a full disk kept events from it. */
	events_each(events, record_replay, &replay);
	/* The state may not have been readable. */
	if (sv->agents <= replay.lost)
		sv->agents = replay.lost + 1;
	*ret_seq = replay.last > replay.snapshot ? replay.last : replay.snapshot;
	return 0;
}

void record_changed(struct supervisor *sv)
{
	if (sv->record && sv->record->state && !loop_timer_armed(sv->record->timer))
		loop_timer_arm(sv->record->timer, RECORD_DELAY_MS);
}

void record_settled(struct supervisor *sv)
{
	if (sv->record && sv->record->state)
		loop_timer_arm(sv->record->timer, 0);
}

void record_flush(struct supervisor *sv)
{
	if (!sv->record || !sv->record->state)
		return;
	loop_timer_disarm(sv->record->timer);
	record_write_state(sv);
}

void record_verdict(struct supervisor *sv)
{
	_cleanup_json_ json_t *doc = job_json_verdict(sv);
	_cleanup_free_ char *path = NULL, *text = NULL;

	record_flush(sv);
	record_put_log(sv, "verdict.json", doc);
	if (!sv->opt.state_dir)
		return;
	path = paths_join(sv->opt.state_dir, "verdict.json");
	text = json_dump_text(doc, NULL);
	if (path)
		record_wrote(sv, path,
			text ? file_write_atomic(path, text, strlen(text), 0640, true) : -ENOMEM);
	state_file_done(sv->record->state);
}
