/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/api/methods.h"
#include "agent/api/caller.h"
#include "agent/api/logs_method.h"
#include "agent/api/subscribers.h"
#include "agent/api/worker_methods.h"
#include "agent/supervise/why.h"
#include "common/base/log.h"
#include "common/base/project.h"
#include "common/base/signals.h"
#include "common/text/json.h"
#include "common/varlink/manager_idl.h"
#include "common/varlink/manager_ranges.h"
#include "common/varlink/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

enum {
	METHODS_INTERFACES = 4, /* that features add */
	METHODS_EVENTS_MAX = 1000,
	METHODS_LINGER_MS = 10000,
	METHODS_MESSAGE_BYTES = 8 << 20, /* enough for a task of 1 MiB with every byte escaped */
};

struct agent_server {
	struct agent *a;
	struct varlink_server *server;
	struct varlink_method *methods; /* of all features */
	struct listeners listeners;
	struct log_calls log_calls;
	struct loop_timer *linger;
	uint64_t sent; /* bytes sent when linger was armed */
	loop_fn end_fn;
	void *end_arg;
};

static void methods_changed(struct agent *a)
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

/* Refuses to start workers while a notice of preemption is up. */
static int methods_preempted(struct varlink_call *call)
{
	return varlink_error(call, "Failed",
		json_pack("{s:s, s:i}", "message", AGENT_ON_NOTICE, "errno", EBUSY));
}

static int method_ping(struct varlink_call *call, json_t *p, void *arg)
{
	return varlink_reply(call, NULL);
}

static int method_version(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;

	return varlink_reply(
		call, json_pack("{s:s, s:i, s:I, s:i}", "version", VERSION, "pid", (int)getpid(),
			      "started_us", (json_int_t)a->created_us, "jobs", 1));
}

static int method_status(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	json_t *answer = json_object();

	json_put(answer, "job", agent_job_json(a, json_get_bool(p, "live", false)));
	return varlink_reply(call, answer);
}

static int method_list(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	json_t *job = agent_job_json(a, false), *jobs = json_array(), *answer = json_object();

	json_array_clear(json_get_array(job, "tasks"));
	json_add(jobs, job);
	json_put(answer, "jobs", jobs);
	return varlink_reply(call, answer);
}

static int method_why(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	_cleanup_free_ char *text = why_text(a);
	json_t *answer = json_object();

	json_put(answer, "budget", agent_budget_json(a));
	json_put(answer, "text", json_text(text ? text : ""));
	return varlink_reply(call, answer);
}

static int method_errors(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
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
	struct agent *a = arg;
	char why[128], caller[USER_NAME_MAX];

	if (a->ended)
		return methods_not_active(a, call);
	snprintf(why, sizeof(why), "stopped on request of user %s", caller_name(call, p, caller));
	agent_stop_asked(a, 0, json_get_int(p, "timeout_ms", SPEC_UNSET), why);
	agent_settle(a); /* the stop is under way before the caller gets its answer */
	return varlink_reply(call, NULL);
}

static int method_restart(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	char why[128], caller[USER_NAME_MAX];

	agent_settle(a);
	if (agent_decided(a))
		return methods_not_active(a, call);
	if (a->on_notice)
		return methods_preempted(call);
	snprintf(why, sizeof(why), "restarted on request of user %s", caller_name(call, p, caller));
	agent_restart_asked(a, RESTART_OPERATOR, why);
	agent_settle(a);
	return varlink_reply(call, json_pack("{s:s}", "run", a->opt.run));
}

static enum spec_whom methods_whom(const char *text)
{
	if (!strcmp(text, "main"))
		return SPEC_WHOM_MAIN;
	return strcmp(text, "all") ? SPEC_WHOM_GROUP : SPEC_WHOM_ALL;
}

static int method_kill(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
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
	log_notice("%s sent to %d worker%s on request of user %s", signals_name(signo, name), n,
		n == 1 ? "" : "s", caller_name(call, p, caller));
	events_add(a->events, "signalled", a->attempt, -1, NULL,
		"%s sent to %d worker%s (%s) on request of user %s", signals_name(signo, name), n,
		n == 1 ? "" : "s", ranks ? ranks : "all", caller);
	return varlink_reply(call, json_pack("{s:i}", "signalled", n));
}

static int method_scale(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	const char *role = json_get_string(p, "role", NULL);
	int64_t n = json_get_int(p, "replicas", 0);
	char why[192], caller[USER_NAME_MAX];
	size_t i;

	agent_settle(a);
	if (agent_decided(a))
		return methods_not_active(a, call);
	if (!role && a->spec->n_roles > 1)
		return varlink_error_parameter(call, "role");
	for (i = 0; role && i < a->spec->n_roles && strcmp(a->spec->roles[i].name, role); i++)
		;
	if (a->on_notice)
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
	snprintf(why, sizeof(why), "%.40s is scaled from %d to %d on request of user %s",
		a->spec->roles[i].name, a->replicas[i], (int)n, caller_name(call, p, caller));
	a->replicas[i] = (int)n;
	record_flush(a); /* the answer promises that the new size is on disk */
	agent_restart_asked(a, RESTART_SCALE, why);
	agent_settle(a);
	return varlink_reply(call, NULL);
}

static int method_watch(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = ((struct agent *)arg)->server;

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	return listen_start(
		&s->listeners, call, LISTEN_WATCH, json_get_int(p, "since", 0), SPEC_UNSET, 0);
}

static int method_events(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	struct agent_server *s = a->server;
	int64_t since = json_get_int(p, "since", 0);
	json_t *answer;

	if (json_get_bool(p, "follow", false)) {
		if (!varlink_call_more(call))
			return varlink_error_expected_more(call);
		return listen_start(&s->listeners, call, LISTEN_EVENTS, since, SPEC_UNSET, 0);
	}
	answer = json_object();
	json_put(answer, "events", events_since(a->events, since, METHODS_EVENTS_MAX));
	return varlink_reply(call, answer);
}

static int method_wait(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent_server *s = ((struct agent *)arg)->server;
	bool running = !strcmp(json_get_string(p, "until", "ended"), "running");
	enum listener_kind kind = json_get_bool(p, "kill", false) ? LISTEN_KILL : LISTEN_END;

	return listen_start(&s->listeners, call, running ? LISTEN_RUNNING : kind, INT64_MAX,
		json_get_int(p, "timeout_ms", SPEC_UNSET), json_get_int(p, "waited_ms", 0));
}

static int method_start_task(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;

	return single_call_start(a, call, p);
}

static int method_stop_task(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;

	return single_call_stop(a, call, p);
}

static int method_logs(struct varlink_call *call, json_t *p, void *arg)
{
	struct agent *a = arg;
	struct agent_server *s = a->server;

	return log_call_start(
		&s->log_calls, a->loop, call, p, logs_run_dir(a->logs), a->n_tasks, a->ended);
}

/* elasticd checks its own rules. Callers on agent.sock itself must be root or the job's user. */
static int methods_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	struct agent *a = arg;
	uid_t uid = varlink_call_peer(call)->uid;
	const char *job = json_get_string(p, "job", NULL);

	if (uid != 0 && uid != getuid()) {
		varlink_error(call, "PermissionDenied",
			json_pack("{s:s}", "message",
				"only root and the job's own user may ask its agent"));
		return 1;
	}
	if (job && strcmp(job, a->spec->name) && strcmp(job, a->opt.run)) {
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
	{ "Logs", method_logs },
	{ "Errors", method_errors },
	{ "Wait", method_wait },
	{ "Events", method_events },
	{ "Watch", method_watch },
	{ "Scale", method_scale },
	{ "StartTask", method_start_task },
	{ "StopTask", method_stop_task },
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

/* A reader that takes nothing must not keep the agent for ever; one that is slow gets everything.
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
	struct agent *a = arg;

	FEATURES_CALL(a, answers_leaving, a);
}

static void methods_ahead(void *arg)
{
	listen_ahead(&((struct agent *)arg)->server->listeners);
}

static int methods_serve(struct agent *a, struct error *err)
{
	struct agent_server *s;
	struct varlink_also also[METHODS_INTERFACES];
	struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = manager_idl,
		.ranges = manager_ranges,
		.also = also,
		.limits = { .message_bytes = METHODS_MESSAGE_BYTES },
		.authorize = methods_authorize,
		.descriptors = true, /* for Keep of io.elasticd.Queue */
		.leaving = features_rely_on_disk(a) ? methods_leaving : NULL,
		.ahead = methods_ahead,
		.arg = a,
	};
	int r;

	if (a->opt.listen_fd < 0)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	s->a = a;
	listen_init(&s->listeners, a);
	a->server = s;
	opt.methods = s->methods = features_methods(a, false);
	if (!opt.methods || loop_timer_new(a->loop, methods_lingered, s, &s->linger) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	features_interfaces(a, false, also, METHODS_INTERFACES);
	r = varlink_server_new(a->loop, &opt, &s->server, err);
	return r < 0 ? r : varlink_server_listen_fd(s->server, a->opt.listen_fd, err);
}

static void methods_hang_up(struct agent *a)
{
	struct agent_server *s = a->server;

	if (!s)
		return;
	a->server = NULL;
	listen_fini(&s->listeners);
	varlink_server_free(s->server); /* also ends open calls and their readers */
	loop_timer_free(s->linger);
	free(s->methods);
	free(s);
}

static bool methods_last_answers(struct agent *a, loop_fn fn, void *arg)
{
	struct agent_server *s = a->server;

	if (!s)
		return false;
	listen_end(&s->listeners);
	log_calls_run_ended(&s->log_calls);
	s->end_fn = fn;
	s->end_arg = arg;
	varlink_server_drain(s->server, methods_drained, s);
	methods_linger(s);
	return true;
}

const struct feature api_feature = {
	.name = "api",
	.serve = methods_serve,
	.hang_up = methods_hang_up,
	.manager_methods = methods_table,
	.last_answers = methods_last_answers,
	.changed = methods_changed,
};
