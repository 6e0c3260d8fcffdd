/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/failure.h"
#include "agent/policy/failure_list.h"
#include "agent/policy/verdict.h"
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "agent/supervise/why.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/*
 * The failures of an attempt: told by events, as they become known and before what follows from
 * them; kept for Errors; and which of them is the root cause, once all have ended.
 */

enum {
	OUTCOME_TAIL_LINES = 20,
	OUTCOME_ATTEMPTS_KEPT = 4, /* in memory; all are in events.jsonl */
	OUTCOME_DETAILED = 64,	   /* of thousands that fail together, the first ones tell enough */
};

int outcome_status(const struct agent *a, const struct task *t)
{
	int status = features_exit_status(a, t);

	return status < 0 ? task_failed_status(t) : status;
}

static json_t *outcome_failure_json(struct agent *a, struct failure *f, bool detailed)
{
	enum { STDERR_INDEX = 1 }; /* of the two streams, not a bit of STD_BOTH */
	int lines = f->collateral ? 3 : OUTCOME_TAIL_LINES;
	char message[256];
	json_t *j;

	f->status = outcome_status(a, f->task);
	if (detailed)
		return failure_json(f, a->host, a->attempt,
			logs_tail(a->logs, f->task->local_rank, STDERR_INDEX, lines));
	failure_message(f, message, sizeof(message));
	j = failure_json(f, a->host, a->attempt, NULL);
	json_object_del(j, "traceback");
	json_put(j, "message", json_text(message));
	return j;
}

static void outcome_tell(struct agent *a, struct failure *f, json_t *j)
{
	const struct task *t = f->task;

	if (t->told)
		return;
	f->task->told = t->exit.ended;
	events_add(a->events, "task-failed", a->attempt, t->rank, json_incref(j), "%s%s: %s",
		task_called(t), f->collateral ? " (collateral)" : "",
		json_get_string(j, "message", ""));
	if (f->problem && t->error_file) {
		log_warning("%s: %s", t->error_file, f->problem);
		events_add(a->events, "error-file", a->attempt, t->rank, NULL, "%s: %s",
			t->error_file, f->problem);
	}
}

void outcome_tell_known(struct agent *a, struct failures *f)
{
	for (size_t i = 0; i < f->n; i++) {
		_cleanup_json_ json_t *j = NULL;

		if (f->items[i].collateral || !f->items[i].task->exit.ended)
			continue;
		j = outcome_failure_json(a, &f->items[i], i < OUTCOME_DETAILED);
		outcome_tell(a, &f->items[i], j);
	}
}

static void outcome_keep(struct agent *a, json_t *list)
{
	char key[16];

	if (json_array_size(list)) {
		snprintf(key, sizeof(key), "%d", a->attempt);
		json_put(a->failures, key, json_incref(list));
	}
	/* One goes for each that may come, whether it has come or not. */
	snprintf(key, sizeof(key), "%d", a->attempt - OUTCOME_ATTEMPTS_KEPT);
	json_object_del(a->failures, key);
}

static void outcome_copy_error(struct agent *a, const struct failure *root)
{
	const char *path = a->opt.error_file;
	const struct task_exit *x = &root->task->exit;
	int r;

	if (!path || !*path || !root->has_file)
		return;
	if (access(path, F_OK) == 0)
		log_warning("%s is there already and is replaced", path);
	r = errorfile_copy(&root->file, path, x->signal ? -x->signal : x->code);
	if (r < 0)
		log_warning(
			"cannot copy the root cause's error file to %s: %s", path, strerror(-r));
}

static void outcome_one(struct agent *a, struct failure *f, json_t *j)
{
	if (!f->collateral && f->task->state == TASK_STOPPED)
		task_set_state(f->task, TASK_FAILED, f->task->exit.text);
	if (f->collateral)
		snprintf(f->task->reason, sizeof(f->task->reason), "collateral: %.140s",
			f->task->exit.text);
	outcome_tell(a, f, j);
}

/* Whether what ended because it was asked to is to be told of: not where nothing else failed. */
static bool outcome_tells_collateral(const struct agent *a)
{
	switch (a->group.goal) {
	case GOAL_STOP:
	case GOAL_SUCCEED:
	case GOAL_PREEMPT:
		return false;
	case GOAL_RETRY:
		return !a->decision.restart || a->decision.counted;
	default:
		return true;
	}
}

/* The failures of the attempt as Failure objects, the root cause first. They stand in the order of
 * f->items, of which the last may be left out. Owned. */
static json_t *outcome_list(struct agent *a, struct failures *f)
{
	bool collateral = f->has_root && outcome_tells_collateral(a);
	json_t *list = json_array();

	for (size_t i = 0; i < f->n && (!f->items[i].collateral || collateral); i++)
		json_add(list, outcome_failure_json(a, &f->items[i], i < OUTCOME_DETAILED));
	return list;
}

/* Which failure of list is the root cause: that of the task whose own budget was spent; at a limit
 * of time what the program itself reported; else the first. */
static size_t outcome_root(const struct agent *a, const struct failures *f, const json_t *list)
{
	const json_t *last = a->group.goal == GOAL_TIMEOUT ? failure_list_last(list) : NULL;

	for (size_t i = 0; i < json_array_size(list); i++)
		if (last ? json_array_get(list, i) == last : f->items[i].task->rank == a->culprit)
			return i;
	return 0;
}

json_t *outcome_known(struct agent *a)
{
	struct failures f = { 0 };
	json_t *list;

	if (failures_known(&f, a->tasks, a->n_tasks, (int64_t)loop_real_us()) < 0)
		return json_array();
	list = outcome_list(a, &f);
	if (json_array_size(list))
		failure_list_put_first(list, json_array_get(list, outcome_root(a, &f, list)));
	failures_fini(&f);
	return list;
}

/* Failures that were made good come after those that ended the incarnation. */
static void outcome_keep_more(struct agent *a, json_t *list)
{
	char key[16];

	snprintf(key, sizeof(key), "%d", a->attempt);
	json_array_extend(list, json_object_get(a->failures, key));
	outcome_keep(a, list);
}

void outcome_tell_one(struct agent *a, struct task *t)
{
	_cleanup_json_ json_t *j = NULL;
	struct failures f = { 0 };

	if (failures_collect_one(&f, t) < 0)
		return;
	j = outcome_failure_json(a, f.items, true);
	outcome_tell(a, f.items, j);
	failures_fini(&f);
}

void outcome_keep_one(struct agent *a, struct task *t)
{
	json_t *list = NULL, *j;
	struct failures f = { 0 };
	char key[16];

	snprintf(key, sizeof(key), "%d", a->attempt);
	if (failures_collect_one(&f, t) < 0)
		return;
	j = outcome_failure_json(a, f.items, true);
	json_put(j, "made_good", json_true());
	events_add(a->events, "task-failed-once", a->attempt, t->rank, json_incref(j), "%s: %s",
		agent_task_name(t), json_get_string(j, "message", ""));
	failures_fini(&f);
	list = json_object_get(a->failures, key);
	if (!list) {
		list = json_array();
		json_array_append_new(list, j);
		outcome_keep(a, list);
		json_decref(list);
		return;
	}
	json_array_append_new(list, j);
	if (json_array_size(list) > OUTCOME_DETAILED) /* it fails again and again */
		json_array_remove(list, 0);
}

/* The failure that was first may have shown itself after another one had been answered. */
static void outcome_cause_found(struct agent *a)
{
	char text[sizeof(a->reason)];

	if (!*a->then || (a->group.goal != GOAL_FAIL && a->group.goal != GOAL_RETRY))
		return;
	verdict_text(a->end.root_cause, a->then, text, sizeof(text));
	if (!strcmp(text, a->reason))
		return;
	agent_set_reason(a, "%s", text);
	why_correct(a, text);
	log_notice("the root cause is another one: %s", text);
	a->said = true;
	events_add(a->events, "root-cause", a->attempt, -1, NULL, "%s", text);
}

void agent_incarnation_over(struct agent *a)
{
	struct failures f = { 0 };
	json_t *list;

	if (failures_collect(&f, a->tasks, a->n_tasks) < 0)
		log_error("out of memory: the failures of attempt %d are not reported", a->attempt);
	list = outcome_list(a, &f);
	if (json_array_size(list)) {
		size_t root = outcome_root(a, &f, list);

		json_decref(a->end.root_cause);
		a->end.root_cause = json_incref(json_array_get(list, root));
		if (a->group.goal == GOAL_FAIL || a->group.goal == GOAL_TIMEOUT)
			outcome_copy_error(a, &f.items[root]);
		outcome_cause_found(a);
		for (size_t i = 0; i < json_array_size(list); i++)
			outcome_one(a, &f.items[i], json_array_get(list, i));
		failure_list_put_first(list, a->end.root_cause);
	}
	outcome_keep_more(a, list);
	json_decref(list);
	failures_fini(&f);
	a->stop_signal = 0;
	agent_ask_settle(a, true);
}
