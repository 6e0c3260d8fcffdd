/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure.h"
#include "agent/policy/failure_list.h"
#include "agent/policy/verdict.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"
#include "agent/supervise/why.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * The failures of an attempt. Reports each by an event before the event of the decision about it,
 * keeps them for Errors, and finds the root cause when all workers have ended.
 */

enum {
	RUN_FAILURES_TAIL_LINES = 20,
	RUN_FAILURES_ATTEMPTS_KEPT = 4, /* in memory; all are in events.jsonl */
	RUN_FAILURES_DETAILED = 64,	/* with traceback and stderr; others have less */
};

int run_failures_status(const struct supervisor *sv, const struct worker *w)
{
	int status = features_exit_status(sv, w);

	return status < 0 ? worker_failed_status(w) : status;
}

static json_t *run_failures_json(struct supervisor *sv, struct failure *f, bool detailed)
{
	enum { STDERR_INDEX = 1 }; /* of the two streams, not a bit of STD_BOTH */
	int lines = f->collateral ? 3 : RUN_FAILURES_TAIL_LINES;
	char message[256];
	json_t *j;

	f->status = run_failures_status(sv, f->worker);
	if (detailed)
		return failure_json(f, sv->host, sv->attempt,
			logs_tail(sv->logs, f->worker->local_rank, STDERR_INDEX, lines));
	failure_message(f, message, sizeof(message));
	j = failure_json(f, sv->host, sv->attempt, NULL);
	json_object_del(j, "traceback");
	json_put_string(j, "message", message);
	return j;
}

static void run_failures_report(struct supervisor *sv, struct failure *f, json_t *j)
{
	const struct worker *w = f->worker;

	if (w->failure_reported)
		return;
	f->worker->failure_reported = w->exit.ended;
	supervisor_event(sv, "worker-failed", w->rank, json_incref(j), "%s%s: %s", worker_name(w),
		f->collateral ? " (collateral)" : "", json_get_string(j, "message", ""));
	if (f->problem && w->error_file)
		supervisor_report(sv, LOG_WARNING, "error-file", w->rank, NULL, "%s: %s",
			w->error_file, f->problem);
}

void run_failures_report_known(struct supervisor *sv, struct failures *f)
{
	for (size_t i = 0; i < f->n; i++) {
		_cleanup_json_ json_t *j = NULL;

		if (f->items[i].collateral || !f->items[i].worker->exit.ended)
			continue;
		j = run_failures_json(sv, &f->items[i], i < RUN_FAILURES_DETAILED);
		run_failures_report(sv, &f->items[i], j);
	}
}

static const char *run_failures_key(int attempt, char key[static 16])
{
	snprintf(key, 16, "%d", attempt);
	return key;
}

json_t *run_failures_kept(const struct supervisor *sv, int attempt)
{
	char key[16];

	return json_object_get(sv->failures, run_failures_key(attempt, key));
}

/* The same list, made where there is none. Borrowed. */
static json_t *run_failures_list_of(struct supervisor *sv, int attempt)
{
	json_t *list = run_failures_kept(sv, attempt);
	char key[16];

	if (list)
		return list;
	list = json_array();
	json_put(sv->failures, run_failures_key(attempt, key), list);
	return list;
}

/* Forgets the attempt that is too old. */
static void run_failures_forget(struct supervisor *sv)
{
	char key[16];

	json_object_del(
		sv->failures, run_failures_key(sv->attempt - RUN_FAILURES_ATTEMPTS_KEPT, key));
}

static void run_failures_copy_error(struct supervisor *sv, const struct failure *root)
{
	const char *path = sv->opt.error_file;
	const struct worker_exit *x = &root->worker->exit;
	int r;

	if (!path || !*path || !root->has_file)
		return;
	if (access(path, F_OK) == 0)
		log_warning("%s is there already and is replaced", path);
	r = error_file_copy(&root->file, path, x->signal ? -x->signal : x->code);
	if (r < 0)
		log_warning(
			"cannot copy the root cause's error file to %s: %s", path, strerror(-r));
}

/* The root cause of a group of several hosts as its worker's error.json had it. Owned, or NULL. */
static char *run_failures_error_text(const json_t *root)
{
	_cleanup_json_ json_t *file = json_object(), *message = json_object(),
			      *more = json_object();

	json_put_string(more, "py_callstack", json_get_string(root, "traceback", ""));
	json_put(more, "timestamp",
		json_sprintf("%lld", (long long)(json_get_int(root, "time_us", 0) / 1000000)));
	json_put_string(message, "message", json_get_string(root, "message", ""));
	json_put(message, "extraInfo", json_incref(more));
	json_put(file, "message", json_incref(message));
	return json_dumps(file, JSON_COMPACT);
}

void run_failures_copy_groups(struct supervisor *sv)
{
	const json_t *root = sv->end.root_cause, *exit = json_object_get(root, "exit");
	const char *path = sv->opt.error_file, *problem;
	int signo = (int)json_get_int(exit, "signal", 0), r;
	_cleanup_free_ char *text = NULL;
	struct error_file file = { 0 };

	if (!path || !*path || !json_get_string(root, "error_file", NULL) ||
		json_object_get(root, "error_file_problem"))
		return;
	text = run_failures_error_text(root);
	r = text ? error_file_parse(text, strlen(text), &file, &problem) : -ENOMEM;
	if (!r)
		r = error_file_copy(
			&file, path, signo ? -signo : (int)json_get_int(exit, "code", 0));
	if (r < 0)
		log_warning(
			"cannot write the root cause's error file to %s: %s", path, strerror(-r));
	error_file_fini(&file);
}

static void run_failures_conclude(struct supervisor *sv, struct failure *f, json_t *j)
{
	char reason[WORKER_REASON_MAX];

	snprintf(reason, sizeof(reason), "collateral: %.140s", f->worker->exit.text);
	if (!f->collateral && f->worker->state == WORKER_STOPPED)
		worker_set_state(f->worker, WORKER_FAILED, f->worker->exit.text);
	if (f->collateral)
		worker_set_reason(f->worker, reason);
	run_failures_report(sv, f, j);
}

/* Whether to report workers that the agent ended because another one failed. */
static bool run_failures_reports_collateral(const struct supervisor *sv)
{
	switch (sv->group.goal) {
	case GOAL_STOP:
	case GOAL_SUCCEED:
	case GOAL_PREEMPT:
		return false;
	case GOAL_RETRY:
		return !sv->decision.restart || sv->decision.counted;
	default:
		return true;
	}
}

/* The failures of the attempt as Failure objects, in the order of f->items; collateral ones, which
 * are the last, may be left out. Owned. */
static json_t *run_failures_list(struct supervisor *sv, struct failures *f)
{
	bool collateral = f->has_root && run_failures_reports_collateral(sv);
	json_t *list = json_array();

	for (size_t i = 0; i < f->n && (!f->items[i].collateral || collateral); i++)
		json_add(list, run_failures_json(sv, &f->items[i], i < RUN_FAILURES_DETAILED));
	return list;
}

/* The index in list of the root cause: after a time limit the failure that a program itself
 * reported; else that of the worker whose failure ended the group; else the first. */
static size_t run_failures_root(
	const struct supervisor *sv, const struct failures *f, const json_t *list)
{
	const json_t *last = sv->group.goal == GOAL_TIMEOUT ? failure_list_last(list) : NULL;

	for (size_t i = 0; i < json_array_size(list); i++)
		if (last ? json_array_get(list, i) == last
			 : f->items[i].worker->rank == sv->root_cause_rank)
			return i;
	return 0;
}

json_t *supervisor_known_failures(struct supervisor *sv)
{
	struct failures f = { 0 };
	json_t *list;

	if (failures_known(&f, sv->workers, sv->n_workers, (int64_t)loop_real_us()) < 0)
		return json_array();
	list = run_failures_list(sv, &f);
	if (json_array_size(list))
		failure_list_put_first(list, json_array_get(list, run_failures_root(sv, &f, list)));
	failures_fini(&f);
	return list;
}

/* Keeps list, followed by failures of this attempt after which the worker was started again. */
static void run_failures_keep(struct supervisor *sv, json_t *list)
{
	char key[16];

	json_array_extend(list, run_failures_kept(sv, sv->attempt));
	if (json_array_size(list))
		json_put(sv->failures, run_failures_key(sv->attempt, key), json_incref(list));
	run_failures_forget(sv);
}

static bool run_failures_has(const json_t *list, const json_t *failure)
{
	const json_t *f;
	size_t i;

	json_array_foreach (list, i, f)
		if (json_get_int(f, "rank", -1) == json_get_int(failure, "rank", -2) &&
			json_get_int(f, "pid", 0) == json_get_int(failure, "pid", 0))
			return true;
	return false;
}

void supervisor_group_failed(struct supervisor *sv, const json_t *failure)
{
	int attempt = (int)json_get_int(failure, "attempt", 0);
	_cleanup_json_ json_t *copy = json_deep_copy(failure);

	if (!copy || run_failures_has(run_failures_kept(sv, attempt), failure))
		return;
	events_add(sv->events, "worker-failed-elsewhere", attempt,
		(int)json_get_int(failure, "rank", -1), json_incref(copy), "%.100s:%d on %.64s: %s",
		json_get_string(failure, "role", ""), (int)json_get_int(failure, "index", 0),
		json_get_string(failure, "host", ""), json_get_string(failure, "message", ""));
	(void)!json_array_insert(run_failures_list_of(sv, attempt), 0, copy);
}

void run_failures_report_one(struct supervisor *sv, struct worker *w)
{
	_cleanup_json_ json_t *j = NULL;
	struct failures f = { 0 };

	if (failures_collect_one(&f, w) < 0)
		return;
	j = run_failures_json(sv, f.items, true);
	run_failures_report(sv, f.items, j);
	failures_fini(&f);
}

void run_failures_keep_restarted(struct supervisor *sv, struct worker *w)
{
	struct failures f = { 0 };
	json_t *list, *j;

	if (failures_collect_one(&f, w) < 0)
		return;
	j = run_failures_json(sv, f.items, true);
	json_put(j, "made_good", json_true());
	supervisor_event(sv, "worker-failed-once", w->rank, json_incref(j), "%s: %s",
		worker_name(w), json_get_string(j, "message", ""));
	failures_fini(&f);
	list = run_failures_list_of(sv, sv->attempt);
	run_failures_forget(sv);
	json_add(list, j);
	if (json_array_size(list) > RUN_FAILURES_DETAILED) /* it fails again and again */
		json_array_remove(list, 0);
}

/* The root cause may be another failure than the one for which the group was stopped: an earlier
 * one may become known only after that. Corrects the reason then. */
static void run_failures_cause_found(struct supervisor *sv)
{
	char text[sizeof(sv->reason)];

	if (!*sv->consequence || (sv->group.goal != GOAL_FAIL && sv->group.goal != GOAL_RETRY))
		return;
	verdict_text(sv->end.root_cause, sv->consequence, text, sizeof(text));
	if (!strcmp(text, sv->reason))
		return;
	supervisor_set_reason(sv, "%s", text);
	why_correct(sv, text);
	log_notice("the root cause is another one: %s", text);
	sv->reason_logged = true;
	supervisor_event(sv, "root-cause", -1, NULL, "%s", text);
}

void run_failures_attempt_over(struct supervisor *sv)
{
	struct failures f = { 0 };
	json_t *list;

	if (failures_known(&f, sv->workers, sv->n_workers, 0) < 0)
		log_error(
			"out of memory: the failures of attempt %d are not reported", sv->attempt);
	list = run_failures_list(sv, &f);
	if (json_array_size(list)) {
		size_t root = run_failures_root(sv, &f, list);

		json_decref(sv->end.root_cause);
		sv->end.root_cause = json_incref(json_array_get(list, root));
		if (sv->group.goal == GOAL_FAIL || sv->group.goal == GOAL_TIMEOUT)
			run_failures_copy_error(sv, &f.items[root]);
		run_failures_cause_found(sv);
		for (size_t i = 0; i < json_array_size(list); i++)
			run_failures_conclude(sv, &f.items[i], json_array_get(list, i));
		failure_list_put_first(list, sv->end.root_cause);
	}
	FEATURES_CALL(sv, attempt_over, sv, list);
	run_failures_keep(sv, list);
	json_decref(list);
	failures_fini(&f);
	sv->stop_signal = 0;
	request_settle(sv, true);
}
