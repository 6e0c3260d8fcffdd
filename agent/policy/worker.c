/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/worker.h"

#include "agent/policy/restart_budget.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/text/json.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void task_init(struct task *t, const struct spec_role *role, int index, int rank)
{
	*t = (struct task){
		.role = role, .index = index, .rank = rank, .local_rank = rank, .role_rank = index
	};
	t->role_world = role->replicas;
}

void task_fini(struct task *t)
{
	free(t->error_file);
	free(t->app_error);
	free(t->budget);
	t->error_file = t->app_error = NULL;
	t->budget = NULL;
}

const char *task_state_name(enum task_state s)
{
	static const char *const names[] = {
#define X(name, text) [TASK_##name] = text,
		TASK_STATES(X)
#undef X
	};
	return names[s];
}

const char *task_called(const struct task *t)
{
	static char name[128];

	snprintf(name, sizeof(name), "%.100s:%d", t->role->name, t->index);
	return name;
}

void task_set_state(struct task *t, enum task_state state, const char *reason)
{
	log_debug("%s: %s -> %s%s%s", task_called(t), task_state_name(t->state),
		task_state_name(state), reason && *reason ? ": " : "", reason ? reason : "");
	t->state = state;
	snprintf(t->reason, sizeof(t->reason), "%s", reason ? reason : "");
}

void task_set_exit(struct task *t, int code, int status)
{
	struct task_exit *x = &t->exit;
	char name[SIGNALS_TEXT_MAX];

	*x = (struct task_exit){ .ended = true };
	if (code == CLD_EXITED) {
		x->code = status;
		snprintf(x->text, sizeof(x->text), "exit code %d", status);
		return;
	}
	x->signal = status;
	x->core = code == CLD_DUMPED;
	snprintf(x->text, sizeof(x->text), "signal %d (%s)%s", status, signals_name(status, name),
		x->core ? ", core dumped" : "");
}

void task_set_exec_error(struct task *t, int error, const char *stage, const char *program)
{
	t->exit = (struct task_exit){
		.ended = true, .error = error, .before_exec = strcmp(stage, "exec") != 0
	};
	snprintf(t->exit.text, sizeof(t->exit.text), "cannot %s %s: %s", stage, program,
		strerror(error));
}

bool task_alive(const struct task *t)
{
	return t->pid > 0;
}

bool task_bad_exit(const struct task *t)
{
	return t->exit.ended && (t->exit.code || t->exit.signal || t->exit.error);
}

const char *task_complaint(const struct task *t)
{
	return t->blame[0] ? t->blame : t->app_error;
}

bool task_has_failed(const struct task *t)
{
	if (!t->exit.ended || t->on_purpose || t->forgiven)
		return false;
	return task_bad_exit(t) || task_complaint(t);
}

void task_renew(struct task *t)
{
	t->exit = (struct task_exit){ 0 };
	t->exit_pid = 0;
	t->ended_us = t->stop_us = t->blame_us = t->grace_us = t->next_start_us = 0;
	t->stop_signal = 0;
	t->blame[0] = '\0';
	free(t->app_error);
	t->app_error = NULL;
	t->on_purpose = t->forgiven = t->spent = t->attached = t->told = false;
}

bool task_ended_by_agent(const struct task *t)
{
	return t->stop_signal && t->exit.ended && !t->exit.error &&
	       (t->exit.signal || t->exit.code == 128 + t->stop_signal);
}

int task_failed_status(const struct task *t)
{
	int status = task_exit_status(&t->exit);

	return status && !task_ended_by_agent(t) ? status : 1;
}

int task_exit_status(const struct task_exit *x)
{
	if (x->error && x->before_exec)
		return 125; /* no word about the program: the agent could not come so far */
	if (x->error)
		return x->error == ENOENT ? 127 : 126;
	return x->signal ? 128 + x->signal : x->code;
}

json_t *task_exit_json(const struct task_exit *x)
{
	json_t *j;

	if (!x->ended)
		return NULL;
	j = json_object();
	if (x->error) {
		json_put_string(j, "error", x->text);
		json_put(j, "errno", json_integer(x->error));
	} else if (x->signal) {
		char name[SIGNALS_TEXT_MAX];

		json_put(j, "signal", json_integer(x->signal));
		json_put(j, "signal_name", json_string(signals_name(x->signal, name)));
		json_put(j, "core_dumped", json_boolean(x->core));
	} else {
		json_put(j, "code", json_integer(x->code));
	}
	return j;
}

static void task_json_flag(json_t *j, const char *name, bool set)
{
	if (set)
		json_put(j, name, json_true());
}

json_t *task_json(const struct task *t)
{
	json_t *j = json_object();

	json_put(j, "role", json_string(t->role->name));
	json_put(j, "index", json_integer(t->index));
	json_put(j, "rank", json_integer(t->rank));
	json_put(j, "local_rank", json_integer(t->local_rank));
	json_put(j, "state", json_string(task_state_name(t->state)));
	if (t->reason[0])
		json_put_string(j, "reason", t->reason);
	if (t->pid > 0 || t->exit_pid > 0)
		json_put(j, "pid", json_integer(t->pid > 0 ? t->pid : t->exit_pid));
	if (t->exit.ended)
		json_put(j, "exit", task_exit_json(&t->exit));
	if (t->started_us)
		json_put(j, "started_us", json_integer(t->started_us));
	if (t->ended_us)
		json_put(j, "ended_us", json_integer(t->ended_us));
	if (t->incarnation)
		json_put(j, "incarnation", json_integer(t->incarnation));
	if (t->next_start_us)
		json_put(j, "next_start_us", json_integer(t->next_start_us));
	task_json_flag(j, "on_purpose", t->on_purpose);
	task_json_flag(j, "extra", t->extra);
	task_json_flag(j, "attached", t->attached);
	task_json_flag(j, "leader", t->role->leader);
	return j;
}
