/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/archived_run.h"

#include "agent/api/logs_method.h"
#include "agent/policy/failure_list.h"
#include "agent/supervise/event_log.h"
#include "agent/supervise/state_file.h"
#include "agent/supervise/why.h"
#include "common/base/log.h"
#include "common/base/project.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"
#include "common/varlink/manager_idl.h"
#include "common/varlink/manager_ranges.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
	ARCHIVED_RUN_STATE_MAX = 16 << 20,
	ARCHIVED_RUN_EVENTS_MAX = 1000,
	ARCHIVED_RUN_RESULTS_MAX = 64 << 20
};

struct archived_run {
	struct loop *loop;
	struct varlink_server *server;
	json_t *state;	 /* state.json, or NULL */
	bool began;	 /* state.json exists, but may be damaged */
	json_t *verdict; /* verdict.json, or NULL */
	char *events;	 /* path of events.jsonl */
	char *results;	 /* path of results.json */
	struct log_calls log_calls;
};

/* A run without a state never had an agent that began; its verdict says why. */
static int archived_run_no_logs(struct varlink_call *call, const struct archived_run *s)
{
	struct error err = { 0 };

	if (s->began)
		error_set(&err, -ENOENT, "cannot find the logs: the run's state cannot be read");
	else
		error_set(&err, -ENOENT, "the run has no logs: %s",
			json_get_string(s->verdict, "message", "no worker was started"));
	return varlink_error(call, "Internal", manager_internal(err.text, -ENOENT));
}

static int archived_run_logs(struct varlink_call *call, json_t *p, void *arg)
{
	struct archived_run *s = arg;
	const json_t *workers = json_get_array(json_get_object(s->state, "job"), "workers");

	if (!s->state)
		return archived_run_no_logs(call, s);
	return log_call_start(&s->log_calls, s->loop, call, p,
		json_get_string(s->state, "log_dir", NULL), (int)json_array_size(workers), true);
}

static int archived_run_errors(struct varlink_call *call, json_t *p, void *arg)
{
	struct archived_run *s = arg;
	int64_t attempt = json_get_int(p, "attempt", -1);
	json_t *answer, *failures;

	if (attempt > json_get_int(s->state, "attempt", 0))
		return varlink_error(call, "NotFound", manager_no_attempt(attempt));
	answer = json_object();
	failures = events_failures_all(s->events, (int)attempt);
	failure_list_put_first(failures, json_get_object(s->verdict, "root_cause"));
	json_put(answer, "failures", failures);
	return varlink_reply(call, answer);
}

static int archived_run_events(struct varlink_call *call, json_t *p, void *arg)
{
	struct archived_run *s = arg;
	json_t *answer = json_object();

	json_put(answer, "events",
		events_read_file(s->events, json_get_int(p, "since", 0), ARCHIVED_RUN_EVENTS_MAX));
	return varlink_reply(call, answer);
}

static int archived_run_status(struct varlink_call *call, json_t *p, void *arg)
{
	struct archived_run *s = arg;
	json_t *answer = json_object();

	json_put(answer, "job", json_incref(json_object_get(s->state, "job")));
	return varlink_reply(call, answer);
}

/* The budget of a run whose state cannot be read. */
static json_t *archived_run_no_budget(void)
{
	return json_pack("{s:i, s:i, s:i, s:i, s:{}, s:i}", "used", 0, "max", 0, "left", 0, "free",
		0, "by_cause", "backoff_ms", 0);
}

static int archived_run_why(struct varlink_call *call, json_t *p, void *arg)
{
	struct archived_run *s = arg;
	json_t *why = json_get_object(s->state, "why");
	_cleanup_free_ char *text = why_saved_text(s->state, s->verdict);
	json_t *answer = json_object();

	json_put(answer, "budget", why ? json_incref(why) : archived_run_no_budget());
	json_put_string(answer, "text", text ? text : "");
	return varlink_reply(call, answer);
}

/* A run that never had workers, or lost its agent, has no results. */
static int archived_run_results(struct varlink_call *call, json_t *p, void *arg)
{
	struct archived_run *s = arg;
	_cleanup_json_ json_t *saved = NULL;
	json_t *answer = json_object(), *results;
	struct error err = { 0 };
	int r = json_read_file(s->results, ARCHIVED_RUN_RESULTS_MAX, &saved, &err);

	if (r < 0 && r != -ENOENT) {
		json_decref(answer);
		return varlink_error(call, "Internal", manager_internal(err.text, r));
	}
	results = json_get_array(saved, "results");
	json_put(answer, "results", results ? json_incref(results) : json_array());
	return varlink_reply(call, answer);
}

static const struct varlink_method archived_run_methods[] = {
	{ "Status", archived_run_status },
	{ "Logs", archived_run_logs },
	{ "Errors", archived_run_errors },
	{ "Events", archived_run_events },
	{ "Why", archived_run_why },
	{ "Results", archived_run_results },
	{ NULL, NULL },
};

static void archived_run_over(void *arg)
{
	struct archived_run *s = arg;

	loop_quit(s->loop, 0);
}

static int archived_run_open(
	struct archived_run *s, const char *dir, int conn_fd, struct error *err)
{
	_cleanup_free_ char *verdict = NULL;
	struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = manager_idl,
		.ranges = manager_ranges,
		.methods = archived_run_methods,
		.idle = archived_run_over,
		.arg = s,
	};
	int r;

	if (asprintf(&verdict, "%s/verdict.json", dir) < 0 ||
		asprintf(&s->events, "%s/events.jsonl", dir) < 0 ||
		asprintf(&s->results, "%s/results.json", dir) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	r = state_file_read(dir, &s->state, err);
	s->began = r != -ENOENT;
	if (r < 0)
		log_warning("%s", err->text); /* its logs and counts are not known */
	r = json_read_file(verdict, ARCHIVED_RUN_STATE_MAX, &s->verdict, NULL);
	if (r < 0 && r != -ENOENT)
		log_warning("%s: %s", verdict, strerror(-r));
	r = loop_new(&s->loop);
	if (r < 0)
		return error_set(err, r, "cannot make an event loop: %s", strerror(-r));
	r = varlink_server_new(s->loop, &opt, &s->server, err);
	return r < 0 ? r : varlink_server_add_connection(s->server, conn_fd, err);
}

int archived_run_serve(const char *record_dir, int conn_fd)
{
	struct archived_run s = { 0 };
	struct error err = { 0 };
	int r = archived_run_open(&s, record_dir, conn_fd, &err);

	if (!r)
		r = loop_run(s.loop);
	else
		log_error("%s", err.text);
	varlink_server_free(s.server);
	loop_free(s.loop);
	json_decref(s.state);
	json_decref(s.verdict);
	free(s.events);
	free(s.results);
	return r < 0 ? 125 : r;
}
