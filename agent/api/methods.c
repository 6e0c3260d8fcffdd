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
#include "common/varlink/manager_error.h"
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

struct api_server {
	struct supervisor *sv;
	struct varlink_server *server;
	struct varlink_method *methods; /* of all features */
	struct subscribers subscribers;
	struct log_calls log_calls;
	struct loop_timer *linger;
	uint64_t sent; /* bytes that were sent when linger was armed */
	loop_fn end_fn;
	void *end_arg;
};

static void methods_changed(struct supervisor *sv)
{
	struct api_server *s = feature_state(sv, &api_feature);

	if (s)
		subscribers_changed(&s->subscribers);
}

static int methods_not_active(struct supervisor *sv, struct varlink_call *call)
{
	return varlink_error(call, "FailedPrecondition",
		manager_not_active(
			supervisor_spec(sv)->name, group_state_name(supervisor_group(sv)->state)));
}

/* Refuses to start workers while a notice of preemption is up. */
static int methods_preempted(struct varlink_call *call)
{
	return varlink_error(call, "Internal", manager_internal(SUPERVISOR_ON_NOTICE, -EBUSY));
}

static int method_ping(struct varlink_call *call, json_t *p, void *arg)
{
	return varlink_reply(call, NULL);
}

static int method_version(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;

	return varlink_reply(
		call, json_pack("{s:s, s:i, s:I, s:i}", "version", VERSION, "pid", (int)getpid(),
			      "started_us", (json_int_t)supervisor_created_us(sv), "jobs", 1));
}

static int method_status(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	struct error err = { 0 };
	json_t *job;
	int r = job_json_asked(sv, p, &job, &err);

	if (r == -EINVAL)
		return varlink_error(call, "InvalidArgument",
			manager_invalid("ranks", json_get_string(p, "ranks", ""), err.text));
	return r < 0 ? r : varlink_reply(call, json_pack("{s:o}", "job", job));
}

static int method_list(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	json_t *job = job_json(sv, false), *jobs = json_array(), *answer = json_object();

	json_array_clear(json_get_array(job, "workers"));
	json_add(jobs, job);
	json_put(answer, "jobs", jobs);
	return varlink_reply(call, answer);
}

static int method_why(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	_cleanup_free_ char *text = why_text(sv);
	json_t *answer = json_object();

	json_put(answer, "budget", job_json_budget(sv));
	json_put(answer, "text", json_text(text ? text : ""));
	return varlink_reply(call, answer);
}

static int method_spec(struct varlink_call *call, json_t *p, void *arg)
{
	return varlink_reply(call, json_pack("{s:o}", "spec", spec_to_json(supervisor_spec(arg))));
}

static int method_errors(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	int64_t attempt = json_get_int(p, "attempt", -1);
	json_t *answer;

	if (attempt > supervisor_attempt(sv))
		return varlink_error(call, "NotFound", manager_no_attempt(attempt));
	answer = json_object();
	json_put(answer, "failures", job_json_failures(sv, (int)attempt));
	return varlink_reply(call, answer);
}

static int method_stop(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	char why[128], caller[USER_NAME_MAX];

	if (supervisor_ended(sv))
		return methods_not_active(sv, call);
	snprintf(why, sizeof(why), "stopped on request of user %s", caller_name(call, p, caller));
	end_run_stop_asked(sv, 0, json_get_int(p, "timeout_ms", SPEC_UNSET), why);
	supervisor_settle(sv); /* the stop is under way before the caller gets its answer */
	return varlink_reply(call, NULL);
}

static int method_restart(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	char why[128], caller[USER_NAME_MAX];

	supervisor_settle(sv);
	if (supervisor_decided(sv))
		return methods_not_active(sv, call);
	if (supervisor_on_notice(sv))
		return methods_preempted(call);
	snprintf(why, sizeof(why), "restarted on request of user %s", caller_name(call, p, caller));
	end_run_restart_asked(sv, RESTART_OPERATOR, why);
	supervisor_settle(sv);
	return varlink_reply(call, json_pack("{s:s}", "run", supervisor_options(sv)->run));
}

static enum spec_whom methods_whom(const char *text)
{
	if (!strcmp(text, "main"))
		return SPEC_WHOM_MAIN;
	return strcmp(text, "all") ? SPEC_WHOM_GROUP : SPEC_WHOM_ALL;
}

static int method_kill(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	const char *signal_text = json_get_string(p, "signal", "");
	const char *ranks = json_get_string(p, "ranks", NULL);
	int signo = signals_from_string(signal_text), n;
	struct error err = { 0 };
	char name[SIGNALS_TEXT_MAX], caller[USER_NAME_MAX];

	if (signo <= 0)
		return varlink_error(call, "InvalidArgument",
			manager_invalid("signal", signal_text, "there is no such signal"));
	if (supervisor_ended(sv))
		return methods_not_active(sv, call);
	n = signal_workers(
		sv, ranks, signo, methods_whom(json_get_string(p, "whom", "group")), &err);
	if (n == -ENOENT)
		return varlink_error(call, "NotFound", manager_no_worker(err.field));
	if (n < 0)
		return varlink_error(call, "InvalidArgument",
			manager_invalid("ranks", ranks ? ranks : "", err.text));
	supervisor_report(sv, LOG_NOTICE, "signalled", -1, NULL,
		"%s sent to %d worker%s (%s) on request of user %s", signals_name(signo, name), n,
		n == 1 ? "" : "s", ranks ? ranks : "all", caller_name(call, p, caller));
	return varlink_reply(call, json_pack("{s:i}", "signalled", n));
}

/* The index of the role; spec->n_roles: there is none. */
static size_t methods_find_role(const struct spec *spec, const char *name)
{
	size_t i = 0;

	while (i < spec->n_roles && strcmp(spec->roles[i].name, name))
		i++;
	return i;
}

static int method_scale(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	const char *role = json_get_string(p, "role", NULL);
	int64_t n = json_get_int(p, "replicas", 0);
	char why[192], caller[USER_NAME_MAX];
	size_t i;

	supervisor_settle(sv);
	if (supervisor_decided(sv))
		return methods_not_active(sv, call);
	if (supervisor_spec(sv)->rendezvous.nodes_max > 1)
		return varlink_error(call, "FailedPrecondition",
			json_pack("{s:s}", "message",
				"a group of several hosts (rendezvous.nodes) grows and shrinks by "
				"hosts"));
	if (!role && supervisor_spec(sv)->n_roles > 1)
		return varlink_error_parameter(call, "role");
	i = role ? methods_find_role(supervisor_spec(sv), role) : 0;
	if (supervisor_on_notice(sv))
		return methods_preempted(call);
	if (i == supervisor_spec(sv)->n_roles)
		return varlink_error(call, "NotFound", manager_no_role(role));
	if (supervisor_spec(sv)->roles[i].leader && n != 1)
		return varlink_error(call, "Internal",
			manager_internal("a role that leads the group has one worker", -EINVAL));
	if (supervisor_replicas(sv, i) == (int)n)
		return varlink_reply(call, NULL);
	snprintf(why, sizeof(why), "%.40s is scaled from %d to %d on request of user %s",
		supervisor_spec(sv)->roles[i].name, supervisor_replicas(sv, i), (int)n,
		caller_name(call, p, caller));
	supervisor_scale(sv, i, (int)n);
	record_flush(sv); /* the answer promises that the new size is on disk */
	end_run_restart_asked(sv, RESTART_SCALE, why);
	supervisor_settle(sv);
	return varlink_reply(call, NULL);
}

static int method_watch(struct varlink_call *call, json_t *p, void *arg)
{
	struct api_server *s = feature_state(arg, &api_feature);

	if (!varlink_call_more(call))
		return varlink_error_expected_more(call);
	return subscribers_add(&s->subscribers, call, SUBSCRIBER_WATCH, json_get_int(p, "since", 0),
		SPEC_UNSET, 0);
}

static int method_events(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	struct api_server *s = feature_state(sv, &api_feature);
	int64_t since = json_get_int(p, "since", 0);
	json_t *answer;

	if (json_get_bool(p, "follow", false)) {
		if (!varlink_call_more(call))
			return varlink_error_expected_more(call);
		return subscribers_add(
			&s->subscribers, call, SUBSCRIBER_EVENTS, since, SPEC_UNSET, 0);
	}
	answer = json_object();
	json_put(answer, "events", events_since(supervisor_events(sv), since, METHODS_EVENTS_MAX));
	return varlink_reply(call, answer);
}

static int method_wait(struct varlink_call *call, json_t *p, void *arg)
{
	struct api_server *s = feature_state(arg, &api_feature);
	const char *until = json_get_string(p, "until", "ended");
	enum subscriber_kind kind = !strcmp(until, "running")	      ? SUBSCRIBER_RUNNING
				    : !strcmp(until, "ready")	      ? SUBSCRIBER_READY
				    : json_get_bool(p, "kill", false) ? SUBSCRIBER_KILL
								      : SUBSCRIBER_END;

	return subscribers_add(&s->subscribers, call, kind, INT64_MAX,
		json_get_int(p, "timeout_ms", SPEC_UNSET), json_get_int(p, "waited_ms", 0));
}

static int method_logs(struct varlink_call *call, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	struct api_server *s = feature_state(sv, &api_feature);

	return log_call_start(&s->log_calls, supervisor_loop(sv), call, p,
		logs_run_dir(supervisor_logs(sv)), supervisor_n_workers(sv), supervisor_ended(sv));
}

/* elasticd has checked the calls that it relays. On agent.sock itself, only root and the job's user
 * may call. */
static int methods_authorize(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	struct supervisor *sv = arg;
	uid_t uid = varlink_call_peer(call)->uid;
	const char *job = json_get_string(p, "job", NULL);

	if (uid != 0 && uid != getuid()) {
		varlink_error(call, "PermissionDenied",
			json_pack("{s:s}", "message",
				"only root and the job's own user may ask its agent"));
		return 1;
	}
	if (job && strcmp(job, supervisor_spec(sv)->name) &&
		strcmp(job, supervisor_options(sv)->run)) {
		varlink_error(call, "NotFound", manager_no_job(job));
		return 1;
	}
	return 0;
}

static bool methods_relay(struct varlink_call *call, const char *method, json_t *p, void *arg)
{
	return FEATURES_ANY(arg, relays_call, arg, call, p);
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
	{ "StartWorker", worker_method_start },
	{ "StopWorkers", worker_method_stop },
	{ "Spec", method_spec },
	{ "Why", method_why },
	{ "Ping", method_ping },
	{ "Version", method_version },
	{ NULL, NULL },
};

static void methods_drained(void *arg)
{
	struct api_server *s = arg;

	loop_timer_disarm(s->linger);
	if (s->end_fn)
		s->end_fn(s->end_arg);
	s->end_fn = NULL;
}

static void methods_linger(struct api_server *s)
{
	if (!s->end_fn)
		return;
	s->sent = varlink_server_sent(s->server);
	loop_timer_arm(s->linger, METHODS_LINGER_MS);
}

/* A reader that takes nothing must not keep the agent alive for ever; a slow one gets everything.
 */
static void methods_lingered(void *arg)
{
	struct api_server *s = arg;

	if (varlink_server_sent(s->server) != s->sent)
		methods_linger(s);
	else
		methods_drained(s);
}

static void methods_leaving(void *arg)
{
	struct supervisor *sv = arg;

	FEATURES_CALL(sv, answers_leaving, sv);
}

static int methods_hold(void *arg, uint64_t *mark)
{
	return FEATURES_FIRST(arg, 0, holds_answers, arg, mark);
}

static void methods_kept(struct supervisor *sv)
{
	struct api_server *s = feature_state(sv, &api_feature);

	if (s && s->server)
		varlink_server_kept(s->server);
}

static void methods_flush(struct supervisor *sv)
{
	struct api_server *s = feature_state(sv, &api_feature);

	if (s && s->server)
		varlink_server_flush(s->server);
}

static void methods_ahead(void *arg)
{
	subscribers_notify(&((struct api_server *)feature_state(arg, &api_feature))->subscribers);
}

static int methods_serve(struct supervisor *sv, struct error *err)
{
	struct api_server *s;
	struct varlink_interface_options more[METHODS_INTERFACES];
	struct varlink_options opt = {
		.vendor = "elasticd",
		.product = "elastic-agent",
		.version = VERSION,
		.url = PROJECT_URL,
		.idl = manager_idl,
		.ranges = manager_ranges,
		.more_interfaces = more,
		.limits = { .message_bytes = METHODS_MESSAGE_BYTES },
		.authorize = methods_authorize,
		.relay = supervisor_spec(sv)->rendezvous.nodes_max > 1 ? methods_relay : NULL,
		.descriptors = true, /* for Keep of io.elasticd.Queue */
		.leaving = FEATURES_ANY(sv, relies_on_disk, sv) ? methods_leaving : NULL,
		.holds = FEATURES_ANY(sv, relies_on_disk, sv) ? methods_hold : NULL,
		.ahead = methods_ahead,
		.arg = sv,
	};
	int r;

	if (supervisor_options(sv)->listen_fd < 0)
		return 0;
	s = calloc(1, sizeof(*s));
	if (!s)
		return error_set(err, -ENOMEM, "out of memory");
	s->sv = sv;
	subscribers_init(&s->subscribers, sv);
	feature_set_state(sv, &api_feature, s);
	opt.methods = s->methods = features_methods(sv, false);
	if (!opt.methods ||
		loop_timer_new(supervisor_loop(sv), methods_lingered, s, &s->linger) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	features_interfaces(sv, false, more, METHODS_INTERFACES);
	r = varlink_server_new(supervisor_loop(sv), &opt, &s->server, err);
	return r < 0 ? r
		     : varlink_server_listen_fd(s->server, supervisor_options(sv)->listen_fd, err);
}

static void methods_hang_up(struct supervisor *sv)
{
	struct api_server *s = feature_state(sv, &api_feature);

	if (!s)
		return;
	feature_set_state(sv, &api_feature, NULL);
	subscribers_fini(&s->subscribers);
	varlink_server_free(s->server); /* also ends open calls and their readers */
	loop_timer_free(s->linger);
	free(s->methods);
	free(s);
}

static bool methods_last_answers(struct supervisor *sv, loop_fn fn, void *arg)
{
	struct api_server *s = feature_state(sv, &api_feature);

	if (!s)
		return false;
	subscribers_end(&s->subscribers);
	log_calls_run_ended(&s->log_calls);
	s->end_fn = fn;
	s->end_arg = arg;
	varlink_server_drain(s->server, methods_drained, s);
	methods_linger(s);
	return true;
}

const struct feature api_feature = {
	.name = "api",
	.ready = methods_serve,
	.hang_up = methods_hang_up,
	.manager_methods = methods_table,
	.answers_kept = methods_kept,
	.flush = methods_flush,
	.last_answers = methods_last_answers,
	.changed = methods_changed,
};
