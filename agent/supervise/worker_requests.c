/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/feature.h"
#include "agent/supervise/supervisor.h"
#include "common/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * What people ask of single tasks. A task that a person stopped stays so, over restarts of the
 * group and the loss of its agent too, until a person starts it, or asks for a restart of all.
 */

struct ask_wait {
	LIST_ENTRY(ask_wait) link;
	loop_fn done;
	void *arg;
	size_t n;
	int ranks[];
};

static void ask_settle_deferred(void *arg)
{
	agent_ask_settle(arg, false);
}

/* One that is to be started again is at rest for a moment only: it is not asked twice. */
static bool ask_over(const struct agent *a, struct ask_wait *w)
{
	size_t left = 0;

	for (size_t i = 0; i < w->n; i++)
		if (!agent_single_at_rest(&a->tasks[w->ranks[i]]))
			w->ranks[left++] = w->ranks[i];
	w->n = left;
	return left == 0;
}

void agent_ask_settle(struct agent *a, bool all)
{
	struct ask_wait *w, *next;

	for (w = LIST_FIRST(&a->waits); w; w = next) {
		next = LIST_NEXT(w, link);
		if (!all && !ask_over(a, w))
			continue;
		LIST_REMOVE(w, link);
		if (w->done)
			w->done(w->arg);
		free(w);
	}
}

void agent_stop_single_forget(struct agent *a, void *arg)
{
	struct ask_wait *w;

	LIST_FOREACH (w, &a->waits, link)
		if (w->arg == arg)
			w->done = NULL;
}

void agent_ask_free(struct agent *a)
{
	struct ask_wait *w;

	loop_cancel(a->loop, ask_settle_deferred, a);
	while ((w = LIST_FIRST(&a->waits))) {
		LIST_REMOVE(w, link);
		free(w);
	}
}

static int ask_refuse(const struct agent *a, bool starts, struct error *err)
{
	if (a->group.state != GROUP_STARTING && a->group.state != GROUP_RUNNING)
		return error_set(
			err, -ESHUTDOWN, "the job is %s", group_state_name(a->group.state));
	if (a->leader_over)
		return error_set(err, -ESHUTDOWN, "the leader has ended, and the job ends with it");
	if (starts && a->on_notice)
		return error_set(err, -EBUSY, "%s", AGENT_ON_NOTICE);
	return 0;
}

/* --- stop --- */

/* Returns whether there was anything to stop, or anything is started. */
static bool ask_stop_task(struct agent *a, struct task *t, uint64_t timeout_ms, bool again)
{
	bool active = task_alive(t) || t->state == TASK_WAITING || t->attached;

	if (!active && !again)
		return false;
	t->on_purpose = active;
	events_add(a->events, "task-stopping", a->attempt, t->rank, NULL, "%s is %s on request",
		agent_task_name(t), again ? "started again" : "stopped");
	FEATURES_CALL(a, worker_stopping, a, t, "stopped on request");
	if (task_alive(t)) {
		if (!t->stop_us)
			t->stop_us = (int64_t)loop_real_us();
		agent_single_call_off(a, t, NULL);
		agent_single_end(a, t, timeout_ms, false);
	} else {
		agent_single_call_off(a, t, "stopped on request");
	}
	if (again)
		agent_single_start_in(a, t, 0);
	else
		FEATURES_CALL(a, worker_stopped, a, t);
	if (!again && !task_alive(t))
		FEATURES_CALL(a, worker_over, a, t);
	return active || again;
}

int agent_stop_single(struct agent *a, const int *ranks, size_t n, int64_t timeout_ms, bool again,
	loop_fn done, void *arg, int *ret_n, struct error *err)
{
	uint64_t timeout = (uint64_t)(timeout_ms >= 0 ? timeout_ms : a->spec->stop.timeout_ms);
	struct ask_wait *w;
	int r, stopped = 0;

	agent_settle(a);
	r = ask_refuse(a, again, err);
	if (r < 0)
		return r;
	w = malloc(sizeof(*w) + n * sizeof(w->ranks[0]));
	if (!w || loop_defer(a->loop, ask_settle_deferred, a) < 0) {
		free(w);
		return error_set(err, -ENOMEM, "out of memory");
	}
	w->done = done;
	w->arg = arg;
	w->n = n;
	memcpy(w->ranks, ranks, n * sizeof(w->ranks[0]));
	for (size_t i = 0; i < n; i++)
		stopped += ask_stop_task(a, &a->tasks[ranks[i]], timeout, again);
	*ret_n = stopped;
	record_flush(a); /* what was stopped stays so under another agent */
	agent_judge(a);	 /* the others may all have ended before */
	agent_changed(a);
	/* Not before: an end that is seen inside these calls answers who waits, and arg is gone. */
	LIST_INSERT_HEAD(&a->waits, w, link);
	return 0;
}

/* --- start --- */

static char **ask_strings(const json_t *list)
{
	size_t n = json_array_size(list);
	char **strings = calloc(n + 1, sizeof(*strings));

	for (size_t i = 0; strings && i < n; i++) {
		strings[i] = strdup(json_string_value(json_array_get(list, i)));
		if (strings[i])
			continue;
		while (i--)
			free(strings[i]);
		free(strings);
		return NULL;
	}
	return strings;
}

static int ask_check(const struct agent_single_start *what, struct error *err)
{
	const json_t *value;
	size_t i;

	if (what->command && (!json_array_size(what->command) ||
				     !*json_string_value(json_array_get(what->command, 0))))
		return error_field(
			err, -EINVAL, "command", "expected a program and its arguments, got none");
	json_array_foreach (what->env, i, value) {
		const char *text = json_string_value(value);

		if (text[0] == '=' || !strchr(text, '='))
			return error_field(
				err, -EINVAL, "env", "expected NAME=value, got \"%.200s\"", text);
	}
	return 0;
}

static int ask_command(struct task *t, const struct agent_single_start *what)
{
	char **command = what->command ? ask_strings(what->command) : NULL;
	char **env = what->env ? ask_strings(what->env) : NULL;

	if ((what->command && !command) || (what->env && !env)) {
		for (char **p = command; p && *p; p++)
			free(*p);
		for (char **p = env; p && *p; p++)
			free(*p);
		free(command);
		free(env);
		return -ENOMEM;
	}
	return agent_single_command(t, command, env);
}

static int ask_next_index(const struct agent *a, const struct spec_role *role)
{
	int next = 0;

	for (int i = 0; i < a->n_tasks; i++)
		if (a->tasks[i].role == role && a->tasks[i].index >= next)
			next = a->tasks[i].index + 1;
	return next;
}

static int ask_find(struct agent *a, const struct agent_single_start *what, struct task **ret,
	bool *ret_added, struct error *err)
{
	const struct spec_role *role = NULL;
	int index, r;

	for (size_t i = 0; i < a->spec->n_roles; i++)
		if (!strcmp(a->spec->roles[i].name, what->role))
			role = &a->spec->roles[i];
	if (!role)
		return error_set(err, -ENOENT, "there is no role %s", what->role);
	index = what->index >= 0 ? what->index : ask_next_index(a, role);
	*ret = agent_task_named(a, role->name, index);
	*ret_added = !*ret;
	if (*ret) {
		/* Also one whose end is under way: it cannot be told now what it will be. */
		if (task_alive(*ret) || (*ret)->attached)
			return error_set(err, -EEXIST, "%s is %s", agent_task_name(*ret),
				task_state_name((*ret)->state));
		return 0;
	}
	if (role->leader)
		return error_field(err, -EINVAL, "index", "there is one leader only");
	/* The addresses of TF_CONFIG are a list: each has a port, which is held. */
	if (a->tfconfig && !role->evaluator && index > ask_next_index(a, role))
		return error_field(err, -EINVAL, "index",
			"expected %s:%d, the next one, in a job with TF_CONFIG; got %s:%d",
			role->name, ask_next_index(a, role), role->name, index);
	if (index >= SPEC_REPLICAS_MAX)
		return error_field(err, -EINVAL, "index", "expected at most %d, got %d",
			SPEC_REPLICAS_MAX - 1, index);
	if (a->n_tasks >= SPEC_REPLICAS_MAX)
		return error_set(
			err, -ENOSPC, "a job has no more than %d tasks", SPEC_REPLICAS_MAX);
	r = agent_add_task(a, role, index, ret);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}

int agent_start_single(struct agent *a, const struct agent_single_start *what, struct task **ret,
	struct error *err)
{
	struct task *t;
	bool added;
	int r;

	agent_settle(a);
	r = ask_refuse(a, true, err);
	if (!r)
		r = ask_check(what, err);
	if (!r)
		r = ask_find(a, what, &t, &added, err);
	if (r < 0)
		return r;
	if (added)
		events_add(a->events, "task-added", a->attempt, t->rank, task_json(t),
			"%s was added as rank %d", agent_task_name(t), t->rank);
	t->on_purpose = false;
	t->forgiven = true; /* how it ended before matters no more */
	t->relapsing = false;
	r = ask_command(t, what);
	if (!r)
		r = agent_single_start_now(a, t);
	agent_changed(a);
	if (r < 0) {
		/* Who asked is told, and the group goes on without it. */
		t->on_purpose = true;
		FEATURES_CALL(a, worker_over, a, t);
		task_set_state(t, TASK_STOPPED, t->exit.ended ? t->exit.text : strerror(-r));
		return error_set(
			err, r == -ENOMEM ? r : -EINVAL, "%s: %s", agent_task_name(t), t->reason);
	}
	record_flush(a);
	*ret = t;
	return 0;
}
