/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/supervise/feature.h"
#include "agent/supervise/private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * An operator's requests about single workers. A worker that an operator stopped stays stopped,
 * also when the group restarts or the agent is lost, until an operator starts it or restarts all.
 */

struct request_wait {
	LIST_ENTRY(request_wait) link;
	loop_fn done;
	void *arg;
	size_t n;
	int places[];
};

static void request_settle_deferred(void *arg)
{
	request_settle(arg, false);
}

/* Removes workers that are at rest from w, so that one that is started again right after that is
 * not waited for twice. Returns whether none is left. */
static bool request_over(const struct supervisor *sv, struct request_wait *w)
{
	size_t left = 0;

	for (size_t i = 0; i < w->n; i++)
		if (!lifecycle_at_rest(&sv->workers[w->places[i]]))
			w->places[left++] = w->places[i];
	w->n = left;
	return left == 0;
}

void request_settle(struct supervisor *sv, bool all)
{
	struct request_wait *w, *next;

	for (w = LIST_FIRST(&sv->waits); w; w = next) {
		next = LIST_NEXT(w, link);
		if (!all && !request_over(sv, w))
			continue;
		LIST_REMOVE(w, link);
		if (w->done)
			w->done(w->arg);
		free(w);
	}
}

void request_forget(struct supervisor *sv, void *arg)
{
	struct request_wait *w;

	LIST_FOREACH (w, &sv->waits, link)
		if (w->arg == arg)
			w->done = NULL;
}

void request_free(struct supervisor *sv)
{
	struct request_wait *w;

	loop_cancel(sv->loop, request_settle_deferred, sv);
	while ((w = LIST_FIRST(&sv->waits))) {
		LIST_REMOVE(w, link);
		free(w);
	}
}

static int request_refuse(const struct supervisor *sv, bool starts, struct error *err)
{
	if (sv->group.state != GROUP_STARTING && sv->group.state != GROUP_RUNNING)
		return error_set(
			err, -ESHUTDOWN, "the job is %s", group_state_name(sv->group.state));
	if (sv->leader.over)
		return error_set(err, -ESHUTDOWN, "the leader has ended, and the job ends with it");
	if (starts && sv->on_notice)
		return error_set(err, -EBUSY, "%s", SUPERVISOR_ON_NOTICE);
	return 0;
}

/* --- stop --- */

/* Returns whether w is stopped or started. */
static bool request_stop_worker(
	struct supervisor *sv, struct worker *w, uint64_t timeout_ms, bool again)
{
	bool active = worker_alive(w) || w->state == WORKER_WAITING || w->attached;

	if (!active && !again)
		return false;
	w->on_purpose = active;
	supervisor_event(sv, "worker-stopping", w->rank, NULL, "%s is %s on request",
		worker_name(w), again ? "started again" : "stopped");
	FEATURES_CALL(sv, worker_stopping, sv, w, "stopped on request");
	if (worker_alive(w)) {
		if (!w->stop_us)
			w->stop_us = (int64_t)loop_real_us();
		lifecycle_call_off(sv, w, NULL);
		lifecycle_end(sv, w, timeout_ms, false);
	} else {
		lifecycle_call_off(sv, w, "stopped on request");
	}
	if (again)
		lifecycle_start_in(sv, w, 0);
	else
		FEATURES_CALL(sv, worker_stopped, sv, w);
	if (!again && !worker_alive(w))
		FEATURES_CALL(sv, worker_over, sv, w);
	return active || again;
}

int request_stop(struct supervisor *sv, const int *places, size_t n, int64_t timeout_ms, bool again,
	loop_fn done, void *arg, int *ret_n, struct error *err)
{
	uint64_t timeout = (uint64_t)(timeout_ms >= 0 ? timeout_ms : sv->spec->stop.timeout_ms);
	struct request_wait *w;
	int r, stopped = 0;

	supervisor_settle(sv);
	r = request_refuse(sv, again, err);
	if (r < 0)
		return r;
	w = malloc(sizeof(*w) + n * sizeof(w->places[0]));
	if (!w || loop_defer(sv->loop, request_settle_deferred, sv) < 0) {
		free(w);
		return error_set(err, -ENOMEM, "out of memory");
	}
	w->done = done;
	w->arg = arg;
	w->n = n;
	memcpy(w->places, places, n * sizeof(w->places[0]));
	for (size_t i = 0; i < n; i++)
		stopped += request_stop_worker(sv, &sv->workers[places[i]], timeout, again);
	*ret_n = stopped;
	record_flush(sv);    /* the next agent must know which workers stay stopped */
	apply_decisions(sv); /* all other workers may have ended before */
	supervisor_changed(sv);
	/* Added last: if those calls end the job, they answer all waiting callers and free arg. */
	LIST_INSERT_HEAD(&sv->waits, w, link);
	return 0;
}

/* --- start --- */

static char **request_strings(const json_t *list)
{
	size_t n = json_array_size(list);
	char **strings = calloc(n + 1, sizeof(*strings));

	for (size_t i = 0; strings && i < n; i++) {
		strings[i] = strdup(json_string_value(json_array_get(list, i)));
		if (!strings[i])
			return strings_free(strings);
	}
	return strings;
}

static int request_check(const struct request_start_args *what, struct error *err)
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

static int request_command(struct worker *w, const struct request_start_args *what)
{
	char **command = what->command ? request_strings(what->command) : NULL;
	char **env = what->env ? request_strings(what->env) : NULL;

	if ((what->command && !command) || (what->env && !env)) {
		strings_free(command);
		strings_free(env);
		return -ENOMEM;
	}
	return lifecycle_set_command(w, command, env);
}

static int request_next_index(const struct supervisor *sv, const struct spec_role *role)
{
	int next = 0;

	for (int i = 0; i < sv->n_workers; i++)
		if (sv->workers[i].role == role && sv->workers[i].index >= next)
			next = sv->workers[i].index + 1;
	return next;
}

static int request_find(struct supervisor *sv, const struct request_start_args *what,
	struct worker **ret, bool *ret_added, struct error *err)
{
	const struct spec_role *role = NULL;
	int index, r;

	for (size_t i = 0; i < sv->spec->n_roles; i++)
		if (!strcmp(sv->spec->roles[i].name, what->role))
			role = &sv->spec->roles[i];
	if (!role)
		return error_set(err, -ENOENT, "there is no role %s", what->role);
	index = what->index >= 0 ? what->index : request_next_index(sv, role);
	*ret = worker_named(sv, role->name, index);
	*ret_added = !*ret;
	if (*ret) {
		/* Also while it is being stopped: its next state is not known yet. */
		if (worker_alive(*ret) || (*ret)->attached)
			return error_set(err, -EEXIST, "%s is %s", worker_name(*ret),
				worker_state_name((*ret)->state));
		return 0;
	}
	if (sv->spec->rendezvous.nodes_max > 1)
		return error_field(err, -EINVAL, "index",
			"%s:%d does not run on this host, and a group of several hosts grows by "
			"hosts",
			role->name, index);
	if (role->leader)
		return error_field(err, -EINVAL, "index", "there is one leader only");
	/* The addresses of TF_CONFIG are a list without gaps (tfconfig.h). */
	if (sv->tfconfig && !role->evaluator && index > request_next_index(sv, role))
		return error_field(err, -EINVAL, "index",
			"expected %s:%d, the next one, in a job with TF_CONFIG; got %s:%d",
			role->name, request_next_index(sv, role), role->name, index);
	if (index >= SPEC_REPLICAS_MAX)
		return error_field(err, -EINVAL, "index", "expected at most %d, got %d",
			SPEC_REPLICAS_MAX - 1, index);
	if (sv->n_workers >= SPEC_REPLICAS_MAX)
		return error_set(
			err, -ENOSPC, "a job can have at most %d workers", SPEC_REPLICAS_MAX);
	r = worker_list_add(sv, role, index, ret);
	return r < 0 ? error_set(err, r, "out of memory") : 0;
}

int request_start(struct supervisor *sv, const struct request_start_args *what, struct worker **ret,
	struct error *err)
{
	struct worker *w;
	const char *why;
	bool added;
	int r;

	supervisor_settle(sv);
	r = request_refuse(sv, true, err);
	if (!r)
		r = request_check(what, err);
	if (!r)
		r = request_find(sv, what, &w, &added, err);
	if (r < 0)
		return r;
	if (added)
		supervisor_event(sv, "worker-added", w->rank, worker_json(w),
			"%s was added as rank %d", worker_name(w), w->rank);
	w->on_purpose = false;
	w->end_handled = true; /* how it ended before no longer counts */
	w->failed_before = false;
	r = request_command(w, what);
	if (!r)
		r = lifecycle_start_now(sv, w);
	supervisor_changed(sv);
	if (r < 0) {
		/* The caller gets the error, and the group goes on without the worker. */
		w->on_purpose = true;
		FEATURES_CALL(sv, worker_over, sv, w);
		why = w->exit.ended ? w->exit.text : strerror(-r);
		worker_set_state(w, WORKER_STOPPED, why);
		return error_set(err, r == -ENOMEM ? r : -EINVAL, "%s: %s", worker_name(w), why);
	}
	record_flush(sv);
	*ret = w;
	return 0;
}
