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

void worker_init(struct worker *w, const struct spec_role *role, int index, int place)
{
	*w = (struct worker){ .role = role, .index = index, .place = place, .role_rank = index };
	w->rank = w->local_rank = place;
	w->role_world = role->replicas;
}

static void worker_forget_exit(struct worker *w)
{
	free(w->exit.core_file);
	free(w->exit.kernel);
	w->exit = (struct worker_exit){ 0 };
}

void worker_fini(struct worker *w)
{
	worker_forget_exit(w);
	free(w->error_file);
	free(w->app_error);
	free(w->budget);
	free(w->reason);
	w->error_file = w->app_error = w->reason = NULL;
	w->budget = NULL;
}

const char *worker_state_name(enum worker_state s)
{
	static const char *const names[] = {
#define X(name, text) [WORKER_##name] = text,
		WORKER_STATES(X)
#undef X
	};
	return names[s];
}

const char *worker_name(const struct worker *w)
{
	static char name[128];

	snprintf(name, sizeof(name), "%.100s:%d", w->role->name, w->index);
	return name;
}

void worker_set_reason(struct worker *w, const char *reason)
{
	free(w->reason);
	w->reason = reason && *reason ? strndup(reason, WORKER_REASON_MAX - 1) : NULL;
}

void worker_set_state(struct worker *w, enum worker_state state, const char *reason)
{
	log_debug("%s: %s -> %s%s%s", worker_name(w), worker_state_name(w->state),
		worker_state_name(state), reason && *reason ? ": " : "", reason ? reason : "");
	w->state = state;
	worker_set_reason(w, reason);
}

void worker_set_exit(struct worker *w, int code, int status)
{
	struct worker_exit *x = &w->exit;
	char name[SIGNALS_TEXT_MAX];

	worker_forget_exit(w);
	x->ended = true;
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

void worker_note_exit(struct worker *w, const char *note)
{
	size_t n = strlen(w->exit.text);

	if (!*note)
		return;
	snprintf(w->exit.text + n, sizeof(w->exit.text) - n, "%s", note);
	if (!w->exit.note)
		w->exit.note = (unsigned)n;
}

const char *worker_exit_note(const struct worker_exit *x)
{
	return x->note ? x->text + x->note : "";
}

void worker_set_exec_error(struct worker *w, int error, const char *stage, const char *program)
{
	worker_forget_exit(w);
	w->exit = (struct worker_exit){
		.ended = true, .error = error, .before_exec = strcmp(stage, "exec") != 0
	};
	snprintf(w->exit.text, sizeof(w->exit.text), "cannot %s %s: %s", stage, program,
		strerror(error));
}

bool worker_alive(const struct worker *w)
{
	return w->pid > 0;
}

bool worker_bad_exit(const struct worker *w)
{
	return w->exit.ended && (w->exit.code || w->exit.signal || w->exit.error);
}

const char *worker_complaint(const struct worker *w)
{
	return w->blame[0] ? w->blame : w->app_error;
}

bool worker_has_failed(const struct worker *w)
{
	if (!w->exit.ended || w->on_purpose || w->end_handled)
		return false;
	return worker_bad_exit(w) || worker_complaint(w);
}

void worker_renew(struct worker *w)
{
	worker_forget_exit(w);
	w->exit_pid = 0;
	w->ended_us = w->stop_us = w->blame_us = w->grace_us = w->next_start_us = 0;
	w->stop_signal = 0;
	w->blame[0] = '\0';
	free(w->app_error);
	w->app_error = NULL;
	w->signalled = false;
	w->on_purpose = w->end_handled = w->no_restart = w->attached = w->failure_reported = false;
}

bool worker_ended_by_agent(const struct worker *w)
{
	return w->stop_signal && w->exit.ended && !w->exit.error &&
	       (w->exit.signal || w->exit.code == 128 + w->stop_signal);
}

/* The status that a shell would report. */
static int worker_exit_status(const struct worker_exit *x)
{
	if (x->error && x->before_exec)
		return 125; /* the agent failed before it tried the program */
	if (x->error)
		return x->error == ENOENT ? 127 : 126;
	return x->signal ? 128 + x->signal : x->code;
}

int worker_failed_status(const struct worker *w)
{
	int status = worker_exit_status(&w->exit);

	return status && !worker_ended_by_agent(w) ? status : 1;
}

json_t *worker_exit_json(const struct worker_exit *x)
{
	json_t *j;

	if (!x->ended)
		return NULL;
	j = json_object();
	if (x->error) {
		json_put_string(j, "error", x->text);
		json_put_int(j, "errno", x->error);
	} else if (x->signal) {
		char name[SIGNALS_TEXT_MAX];

		json_put_int(j, "signal", x->signal);
		json_put(j, "signal_name", json_string(signals_name(x->signal, name)));
		json_put(j, "core_dumped", json_boolean(x->core));
		if (x->out_of_memory)
			json_put(j, "out_of_memory", json_true());
	} else {
		json_put_int(j, "code", x->code);
	}
	json_put_string(j, "core", x->core_file);
	json_put_string(j, "kernel", x->kernel);
	return j;
}

void worker_set_exit_json(struct worker *w, const json_t *exit)
{
	int signo = (int)json_get_int(exit, "signal", 0);
	const char *error = json_get_string(exit, "error", NULL);

	if (error) {
		worker_forget_exit(w);
		w->exit = (struct worker_exit){ .ended = true,
			.error = (int)json_get_int(exit, "errno", ENOEXEC) };
		snprintf(w->exit.text, sizeof(w->exit.text), "%s", error);
	} else if (signo) {
		worker_set_exit(w,
			json_get_bool(exit, "core_dumped", false) ? CLD_DUMPED : CLD_KILLED, signo);
		w->exit.out_of_memory = json_get_bool(exit, "out_of_memory", false);
	} else {
		worker_set_exit(w, CLD_EXITED, (int)json_get_int(exit, "code", 0));
	}
	if (json_get_string(exit, "core", NULL))
		w->exit.core_file = strdup(json_get_string(exit, "core", NULL));
	if (json_get_string(exit, "kernel", NULL))
		w->exit.kernel = strdup(json_get_string(exit, "kernel", NULL));
}

static void worker_json_flag(json_t *j, const char *name, bool set)
{
	if (set)
		json_put(j, name, json_true());
}

json_t *worker_json(const struct worker *w)
{
	json_t *j = json_object();

	json_put(j, "role", json_string(w->role->name));
	json_put_int(j, "index", w->index);
	json_put_int(j, "rank", w->rank);
	json_put_int(j, "local_rank", w->local_rank);
	json_put(j, "state", json_string(worker_state_name(w->state)));
	json_put_string(j, "reason", w->reason);
	if (w->pid > 0 || w->exit_pid > 0)
		json_put_int(j, "pid", w->pid > 0 ? w->pid : w->exit_pid);
	if (w->exit.ended)
		json_put(j, "exit", worker_exit_json(&w->exit));
	if (w->started_us)
		json_put_int(j, "started_us", w->started_us);
	if (w->ended_us)
		json_put_int(j, "ended_us", w->ended_us);
	if (w->start)
		json_put_int(j, "start", w->start);
	if (w->next_start_us)
		json_put_int(j, "next_start_us", w->next_start_us);
	worker_json_flag(j, "on_purpose", w->on_purpose);
	worker_json_flag(j, "extra", w->extra);
	worker_json_flag(j, "attached", w->attached);
	worker_json_flag(j, "leader", w->role->leader);
	return j;
}
