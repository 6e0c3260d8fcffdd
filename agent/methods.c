/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent.h"
#include "agent/attach.h"
#include "agent/caller.h"
#include "agent/dispatch.h"
#include "agent/dump_call.h"
#include "agent/listen.h"
#include "agent/log_call.h"
#include "agent/preempting.h"
#include "agent/single_call.h"
#include "agent/why.h"
#include "agent/workers.h"
#include "common/json.h"
#include "common/log.h"
#include "common/manager_idl.h"
#include "common/manager_ranges.h"
#include "common/notice.h"
#include "common/project.h"
#include "common/queue_idl.h"
#include "common/queue_ranges.h"
#include "common/signals.h"
#include "common/varlink_server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

enum {
	METHODS_EVENTS_MAX = 1000,
	METHODS_LINGER_MS = 10000,
	METHODS_MESSAGE_BYTES = 8 << 20, /* a task of 1 MiB, each byte of it escaped */
};

struct agent_server {
	struct agent *a;
	struct varlink_server *server;
	struct listeners listeners;
	struct log_calls log_calls;
	struct loop_timer *linger;
	uint64_t sent; /* when linger was armed */
	loop_fn end_fn;
	void *end_arg;
};

void agent_server_changed(struct agent *a)
{
	if (a->server)
		listen_changed(&a->server->listeners);
}

static int methods_not_active(struct agent *a, struct varlink_call *call)
{
	return varlink_error(call, "NotActive",
		json_pack("{s:s, s:s}", "job", a->spec->name, "state",
			group_state_name(a->group.state)));
}

/* Nothing is started while a notice is up. */
static int methods_preempted(struct varlink_call *call)
{
	return varlink_error(call, "Failed",
		json_pack("{s:s, s:i}", "message", PREEMPTING_REFUSES, "errno", EBUSY));
}

static int method_ping(struct varlink_call *call, json_t *p, void *arg)
{
	return varlink_reply(call, NULL);
}

static int method_version(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	return varlink_reply(
		call, json_pack("{s:s, s:i, s:I, s:i}", "version", VERSION, "pid", (int)getpid(),
			      "started_us", (json_int_t)s->a->created_us, "jobs", 1));
}

static int method_status(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	json_t *answer = json_object();

	json_put(answer, "job", agent_job_json(s->a, json_get_bool(p, "live", false)));
	return varlink_reply(call, answer);
}

static int method_list(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	json_t *job = agent_job_json(s->a, false), *jobs = json_array(), *answer = json_object();

	json_array_clear(json_get_array(job, "tasks"));
	json_add(jobs, job);
	json_put(answer, "jobs", jobs);
	return varlink_reply(call, answer);
}

static int method_why(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	_cleanup_free_ char *text = why_text(s->a);
	json_t *answer = json_object();

	json_put(answer, "budget", agent_budget_json(s->a));
	json_put(answer, "text", json_text(text ? text : ""));
	return varlink_reply(call, answer);
}

static int method_errors(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	struct agent *a = s->a;
	int64_t attempt = json_get_int(p, "attempt", -1);
	json_t *answer = json_object();

	if (attempt > a->attempt)
		return json_decref(answer),
		       varlink_error(call, "NoSuchAttempt",
			       json_pack("{s:I}", "attempt", (json_int_t)attempt));
	json_put(answer, "failures", agent_failures_json(a, (int)attempt));
	return varlink_reply(call, answer);
}

static int method_stop(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	struct agent *a = s->a;
	char why[128], caller[USER_NAME_MAX];

	if (a->ended)
		return methods_not_active(a, call);
	snprintf(why, sizeof(why), "stopped on request of user %s", caller_name(call, p, caller));
	agent_stop_asked(a, 0, json_get_int(p, "timeout_ms", SPEC_UNSET), why);
	agent_settle(a); /* it is on its way by the answer */
	return varlink_reply(call, NULL);
}

static int method_restart(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	struct agent *a = s->a;
	char why[128], caller[USER_NAME_MAX];

	agent_settle(a);
	if (agent_decided(a))
		return methods_not_active(a, call);
	if (preempting_is_up(a))
		return methods_preempted(call);
	snprintf(why, sizeof(why), "restarted on request of user %s", caller_name(call, p, caller));
	agent_restart_asked(a, RESTART_OPERATOR, why);
	agent_settle(a);
	return varlink_reply(call, json_pack("{s:s}", "run", a->opt.run));
}

static int method_preempt(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	struct agent *a = s->a;
	struct preempting_notice n = {
		.source = json_get_string(p, "source", "operator"),
		.reason = json_get_string(p, "reason", NULL),
		.grace_ms = json_get_int(p, "grace_ms", SPEC_UNSET),
		.deadline_us = json_get_int(p, "deadline_us", SPEC_UNSET),
	};
	struct error err = { 0 };

	if (!json_get_string(p, "job", NULL))
		return varlink_error_parameter(call, "job");
	if (!notice_source_is_known(n.source))
		return varlink_error_parameter(call, "source");
	if (preempting_notice(a, &n, &err) < 0)
		return methods_not_active(a, call);
	return varlink_reply(call, json_pack("{s:[s]}", "runs", a->opt.run));
}

static enum spec_whom methods_whom(const char *text)
{
	if (!strcmp(text, "main"))
		return SPEC_WHOM_MAIN;
	return strcmp(text, "all") ? SPEC_WHOM_GROUP : SPEC_WHOM_ALL;
}

static int method_kill(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	struct agent *a = s->a;
	const char *signal_text = json_get_string(p, "signal", "");
	const char *ranks = json_get_string(p, "ranks", NULL);
	int signo = signals_from_string(signal_text), n;
	struct error err = { 0 };
	char name[SIGNALS_TEXT_MAX], caller[USER_NAME_MAX];

	if (signo <= 0)
		return varlink_error(
			call, "InvalidSignal", json_pack("{s:s}", "signal", signal_text));
	if (a->ended)
		return methods_not_active(a, call);
	n = agent_signal_tasks(
		a, ranks, signo, methods_whom(json_get_string(p, "whom", "group")), &err);
	if (n == -ENOENT)
		return varlink_error(call, "NoSuchTask", json_pack("{s:s}", "task", err.field));
	if (n < 0)
		return varlink_error(call, "InvalidRanks",
			json_pack("{s:s, s:o}", "ranks", ranks ? ranks : "", "message",
				json_text(err.text)));
	log_notice("%s sent to %d workers on request of user %s", signals_name(signo, name), n,
		caller_name(call, p, caller));
	events_add(a->events, "signalled", a->attempt, -1, NULL, "%s sent to %d workers (%s)",
		signals_name(signo, name), n, ranks ? ranks : "all");
	return varlink_reply(call, json_pack("{s:i}", "signalled", n));
}

static int method_scale(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	struct agent *a = s->a;
	const char *role = json_get_string(p, "role", NULL);
	int64_t n = json_get_int(p, "replicas", 0);
	char why[96];
	size_t i;

	agent_settle(a);
	if (agent_decided(a))
		return methods_not_active(a, call);
	if (!role && a->spec->n_roles > 1)
		return varlink_error_parameter(call, "role");
	for (i = 0; role && i < a->spec->n_roles && strcmp(a->spec->roles[i].name, role); i++)
		;
	if (preempting_is_up(a))
		return methods_preempted(call);
	if (role && i == a->spec->n_roles)
		return varlink_error(call, "NoSuchRole", json_pack("{s:s}", "role", role));
	i = role ? i : 0;
	if (a->spec->roles[i].leader && n != 1)
		return varlink_error(call, "Failed",
			json_pack("{s:s, s:i}", "message",
				"a role that leads the group has one worker", "errno", EINVAL));
	if (a->replicas[i] == (int)n)
		return varlink_reply(call, NULL);
	snprintf(why, sizeof(why), "%.40s is scaled from %d to %d", a->spec->roles[i].name,
		a->replicas[i], (int)n);
	a->replicas[i] = (int)n;
	record_flush(a); /* the answer promises it */
	agent_restart_asked(a, RESTART_SCALE, why);
	agent_settle(a);
	return varlink_reply(call, NULL);
}

static int method_watch(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	return listen_start(
		&s->listeners, call, LISTEN_WATCH, json_get_int(p, "since", 0), SPEC_UNSET, 0);
}

static int method_events(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	int64_t since = json_get_int(p, "since", 0);
	json_t *answer;

	if (json_get_bool(p, "follow", false)) {
		if (!varlink_call_more(call))
			return varlink_error_expected_more(call);
		return listen_start(&s->listeners, call, LISTEN_EVENTS, since, SPEC_UNSET, 0);
	}
	answer = json_object();
	json_put(answer, "events", events_since(s->a->events, since, METHODS_EVENTS_MAX));
	return varlink_reply(call, answer);
}

static int method_wait(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	bool running = !strcmp(json_get_string(p, "until", "ended"), "running");
	enum listener_kind kind = json_get_bool(p, "kill", false) ? LISTEN_KILL : LISTEN_END;

	return listen_start(&s->listeners, call, running ? LISTEN_RUNNING : kind, INT64_MAX,
		json_get_int(p, "timeout_ms", SPEC_UNSET), json_get_int(p, "waited_ms", 0));
}

static int method_start_task(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	return single_call_start(s->a, call, p);
}

static int method_stop_task(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	return single_call_stop(s->a, call, p);
}

static int method_attach(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	return attach_begin(s->a, call, p);
}

static int method_attach_started(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	return attach_started(s->a, call, p);
}

static int method_attach_ended(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	return attach_ended(s->a, call, p);
}

static int method_dump(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	return dump_call_start(s->a, call, p);
}

static int method_results(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	json_t *answer = json_object();

	json_put(answer, "results", workers_results_json(s->a));
	return varlink_reply(call, answer);
}

static int method_logs(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = arg;

	return log_call_start(&s->log_calls, s->a->loop, call, p, logs_run_dir(s->a->logs),
		s->a->n_tasks, s->a->ended);
}

/* elasticd has its own rules; who comes to the agent itself must be root or the job's user. */
static int methods_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	struct agent_server *s = arg;
	uid_t uid = varlink_call_peer(call)->uid;
	const char *job = json_get_string(p, "job", NULL);

	if (uid != 0 && uid != getuid()) {
		varlink_error(call, "PermissionDenied",
			json_pack("{s:s}", "message",
				"only root and the job's own user may ask its agent"));
		return 1;
	}
	if (job && strcmp(job, s->a->spec->name) && strcmp(job, s->a->opt.run)) {
		varlink_error(call, "NoSuchJob", json_pack("{s:s}", "job", job));
		return 1;
	}
	return 0;
}

static const struct varlink_method methods_table[] = {
	{ "Stop", method_stop },
	{ "Restart", method_restart },
	{ "Kill", method_kill },
	{ "Status", method_status },
	{ "List", method_list },
	{ "Dump", method_dump },
	{ "Logs", method_logs },
	{ "Errors", method_errors },
	{ "Wait", method_wait },
	{ "Events", method_events },
	{ "Watch", method_watch },
	{ "Scale", method_scale },
	{ "StartTask", method_start_task },
	{ "StopTask", method_stop_task },
	{ "Results", method_results },
	{ "Preempt", method_preempt },
	{ "Attach", method_attach },
	{ "AttachStarted", method_attach_started },
	{ "AttachEnded", method_attach_ended },
	{ "Why", method_why },
	{ "Ping", method_ping },
	{ "Version", method_version },
	{ NULL, NULL },
};

static void methods_drained(void *arg)
{
	struct agent_server *s = arg;

	loop_timer_disarm(s->linger);
	if (s->end_fn)
		s->end_fn(s->end_arg);
	s->end_fn = NULL;
}

static void methods_linger(struct agent_server *s)
{
	if (!s->end_fn)
		return;
	s->sent = varlink_server_sent(s->server);
	loop_timer_arm(s->linger, METHODS_LINGER_MS);
}

/* A reader that takes nothing more must not keep the agent for ever; a slow one gets all there is.
 */
static void methods_lingered(void *arg)
{
	struct agent_server *s = arg;

	if (varlink_server_sent(s->server) != s->sent)
		methods_linger(s);
	else
		methods_drained(s);
}

static void methods_leaving(void *arg)
{
	dispatch_leaving(((struct agent_server *)arg)->a);
}

static void methods_ahead(void *arg)
{
	listen_ahead(&((struct agent_server *)arg)->listeners);
}

int agent_server_new(struct agent *a, struct error *err)
{
	struct agent_server *s = calloc(1, sizeof(*s));
	const struct varlink_also also[] = {
		{
			.idl = queue_idl,
			.methods = dispatch_methods,
			.flat = dispatch_flat_methods,
			.ranges = queue_ranges,
			.limit_error = "ResourceExhausted",
			.arg = a->dispatch ? dispatch_door(a, false) : NULL,
		},
		{ .idl = NULL },
	};
	struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = manager_idl,
		.methods = methods_table,
		.ranges = manager_ranges,
		.also = a->dispatch ? also : NULL,
		.limits = { .message_bytes = METHODS_MESSAGE_BYTES },
		.authorize = methods_authorize,
		.descriptors = true, /* Keep of io.elasticd.Queue */
		.leaving = dispatch_is_durable(a) ? methods_leaving : NULL,
		.ahead = methods_ahead,
		.arg = s,
	};
	int r;

	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	s->a = a;
	listen_init(&s->listeners, a);
	a->server = s;
	r = loop_timer_new(a->loop, methods_lingered, s, &s->linger);
	if (r < 0)
		return error_set(err, r, "out of memory");
	r = varlink_server_new(a->loop, &opt, &s->server, err);
	return r < 0 ? r : varlink_server_listen_fd(s->server, a->opt.listen_fd, err);
}

void agent_server_free(struct agent *a)
{
	struct agent_server *s = a->server;

	if (!s)
		return;
	attach_free(a);
	a->server = NULL;
	listen_fini(&s->listeners);
	varlink_server_free(s->server); /* ends the calls that are still open, and their readers */
	loop_timer_free(s->linger);
	free(s);
}

void agent_server_end(struct agent *a, loop_fn fn, void *arg)
{
	struct agent_server *s = a->server;

	if (!s) {
		fn(arg);
		return;
	}
	attach_free(a);
	listen_end(&s->listeners);
	log_calls_run_ended(&s->log_calls);
	s->end_fn = fn;
	s->end_arg = arg;
	varlink_server_drain(s->server, methods_drained, s);
	methods_linger(s);
}
