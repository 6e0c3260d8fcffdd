/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/relay.h"

#include "common/base/budget.h"
#include "common/base/descriptors.h"
#include "common/base/log.h"
#include "common/base/paths.h"
#include "common/base/signals.h"
#include "common/base/user_name.h"
#include "common/text/json.h"
#include "common/text/ranks.h"
#include "common/varlink/client.h"
#include "common/varlink/manager_error.h"
#include "daemon/api/agent_call.h"
#include "daemon/api/helper.h"
#include "daemon/jobs/agent_process.h"
#include "daemon/jobs/job_process.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define INTERFACE "io.elasticd.Manager."

enum {
	RETRIES_MAX = 3, /* when the connection breaks while the agent lives */
	HELPER_IDLE_MS = 30 * 1000,
	/* A call that only reads waits so long for the agent, then elasticd answers from files. */
	READ_PATIENCE_MS = 1000,
	/* The time in which an agent that has got Kill must have carried it out. */
	KILL_DUE_MS = 60 * 1000,
	/* Each relayed call has a connection of its own. */
	CALLS_MAX = 4096,
	CALLS_OF_USER = 1024,
	CALLS_RESERVE = 1024,
};

enum relay_flags {
	RELAY_REPEAT = 1,     /* may be sent again after the agent was lost */
	RELAY_AFTERWARDS = 2, /* can be answered for a run that is over */
	RELAY_STOPS = 4,      /* the caller wants the run to end */
	RELAY_NAMES = 8,      /* the agent shows people the name of the caller */
};

static const struct relay_rule {
	const char *method;
	int flags;
	const char *afterwards; /* the method that a helper gets instead; NULL: the same */
} rules[] = {
	{ "Stop", RELAY_REPEAT | RELAY_STOPS | RELAY_NAMES, NULL },
	{ "Leave", RELAY_REPEAT | RELAY_NAMES, NULL },
	{ "Drain", RELAY_NAMES, NULL },
	{ "Scale", RELAY_REPEAT | RELAY_NAMES, NULL },
	{ "Restart", RELAY_NAMES, NULL },
	{ "Kill", RELAY_NAMES, NULL },
	{ "StartWorker", RELAY_NAMES, NULL },
	{ "StopWorkers", RELAY_NAMES, NULL },
	{ "Attach", 0, NULL },
	{ "AttachStarted", 0, NULL },
	{ "AttachEnded", 0, NULL },
	{ "Dump", 0, NULL },
	{ "Results", RELAY_REPEAT | RELAY_AFTERWARDS, NULL },
	{ "Status", RELAY_REPEAT | RELAY_AFTERWARDS, NULL },
	{ "Logs", RELAY_REPEAT | RELAY_AFTERWARDS, NULL },
	{ "Errors", RELAY_REPEAT | RELAY_AFTERWARDS, NULL },
	{ "Events", RELAY_REPEAT | RELAY_AFTERWARDS, NULL },
	{ "Why", RELAY_REPEAT | RELAY_AFTERWARDS, NULL },
	{ "Watch", RELAY_REPEAT | RELAY_AFTERWARDS, "Events" },
};

struct relays {
	const struct job_host *host;
	struct helpers *helpers;
	struct budget *calls;
};

struct relay {
	struct relays *relays;
	struct varlink_call *call;
	struct budget_holder place;
	struct job *job;
	struct job_watch watch;
	const struct relay_rule *rule;
	json_t *params;
	struct agent_call *ask;	       /* NULL: waits for the agent, or a helper answers */
	struct varlink_client *client; /* to the helper */
	struct helper *helper;	       /* answers for a run that is over */
	int retries;
	bool undecided; /* the agent is gone: unknown yet whether it was lost or its run ended */
	bool sent;
	bool doomed;	   /* the agent is killed for this call */
	int doomed_number; /* the number of its workers' processes at that time */
};

int relays_new(const struct job_host *host, struct relays **ret)
{
	const struct budget_limits l = {
		.total = CALLS_MAX, .share = CALLS_OF_USER, .reserve = CALLS_RESERVE
	};
	_cleanup_(relays_freep) struct relays *r = calloc(1, sizeof(*r));

	if (!r || budget_new(&l, &r->calls) < 0 ||
		helpers_new(host, HELPER_IDLE_MS, &r->helpers) < 0)
		return -ENOMEM;
	r->host = host;
	*ret = TAKE_PTR(r);
	return 0;
}

struct relays *relays_free(struct relays *r)
{
	if (!r)
		return NULL;
	helpers_free(r->helpers);
	budget_free(r->calls);
	free(r);
	return NULL;
}

static void on_cut(void *arg);

static void relay_free(struct relay *r)
{
	loop_cancel(r->relays->host->loop, on_cut, r);
	budget_leave(&r->place);
	if (r->job)
		job_unwatch(r->job, &r->watch);
	agent_call_free(r->ask);
	varlink_client_free(r->client);
	helper_free(r->helper);
	json_decref(r->params);
	free(r);
}

static void on_gone(void *arg)
{
	relay_free(arg);
}

/* The four ways to end; r is dead afterwards. */
static void end_reply(struct relay *r, json_t *parameters)
{
	struct varlink_call *call = r->call;

	relay_free(r);
	varlink_reply(call, parameters);
}

static void end_error(struct relay *r, const char *name, json_t *parameters)
{
	struct varlink_call *call = r->call;
	/* name may be the agent's memory, which is freed with the connection. */
	_cleanup_free_ char *copy = strdup(name);

	relay_free(r);
	varlink_error(call, copy ? copy : "Internal", parameters);
}

static void end_failed(struct relay *r, int code, const char *what)
{
	end_error(r, "Internal", manager_internal(what, code));
}

static void end_limit(struct relay *r, const char *what, int limit)
{
	end_error(r, "ResourceExhausted", manager_limit(what, limit));
}

static void on_cut(void *arg)
{
	end_limit(arg, "calls to agents", CALLS_MAX);
}

/* Not at once: another call is just taking its place. */
static void on_place_lost(void *arg)
{
	struct relay *r = arg;

	if (loop_defer(r->relays->host->loop, on_cut, r) < 0)
		log_warning("out of memory");
}

/* Where there is no place for it, r is dead afterwards. */
static bool take_place(struct relay *r)
{
	const struct varlink_account a = varlink_call_account(r->call);
	int code = budget_join(r->relays->calls, &r->place, a.key, a.trusted, on_place_lost, r);

	if (!code)
		code = budget_hold(&r->place, 1);
	if (code == -EDQUOT || code == -ENOBUFS)
		end_limit(r, code == -EDQUOT ? "calls to agents of one user" : "calls to agents",
			(int)budget_limit(r->relays->calls, code));
	else if (code < 0)
		end_failed(r, code, strerror(-code));
	return !code;
}

static bool stops_job(const struct relay *r)
{
	return r->rule->flags & RELAY_STOPS;
}

/* Whether the caller wants all of the job's processes to end, which elasticd can do without the
 * agent. */
static bool ends_all(const struct relay *r)
{
	const char *text = json_get_string(r->params, "signal", "");

	return stops_job(r) ||
	       (!strcmp(r->rule->method, "Kill") && signals_from_string(text) == SIGKILL &&
		       !json_get_string(r->params, "ranks", NULL));
}

/* Whether the call only reads and then ends: files can answer it where the agent does not. */
static bool only_reads(const struct relay *r)
{
	return r->rule->flags & RELAY_AFTERWARDS && strcmp(r->rule->method, "Watch") != 0 &&
	       !json_get_bool(r->params, "follow", false);
}

static void end_doomed(struct relay *r)
{
	end_reply(r, stops_job(r) ? NULL : json_pack("{s:i}", "signalled", r->doomed_number));
}

static void end_not_active(struct relay *r)
{
	if (r->sent && r->rule->flags & RELAY_STOPS)
		end_reply(r, NULL);
	else
		end_error(r, "FailedPrecondition",
			manager_not_active(
				r->job->rec.name, mirror_state_name(r->job->mirror.state)));
}

/* Makes a repeated call continue behind the last event that the caller got. */
static void note_progress(struct relay *r, json_t *parameters)
{
	json_t *events = json_get_array(parameters, "events");
	const json_t *last = json_array_get(events, json_array_size(events) - 1);

	if (last)
		json_put_int(r->params, "since", json_get_int(last, "seq", 0));
}

static void prepare_repeat(struct relay *r)
{
	/* Lines have no numbers: the repeated call asks only for lines written from now on. */
	if (!strcmp(r->rule->method, "Logs") && r->sent) {
		json_put_int(r->params, "since_us", loop_real_us());
		json_object_del(r->params, "lines");
		json_object_del(r->params, "attempt");
	}
}

static void send_to_agent(struct relay *r);

static void pause_answers(struct relay *r, bool pause)
{
	agent_call_pause(r->ask, pause);
	if (r->client)
		varlink_client_pause(r->client, pause);
	if (r->helper)
		helper_await(r->helper, !pause);
}

static void on_drained(void *arg)
{
	struct relay *r = arg;

	pause_answers(r, false);
}

static void answer_afterwards(struct relay *r);

/* For a call that must not be sent twice. The agent may have gone because its run ended by itself,
 * with the verdict still to come: then the next news decide. */
static void agent_gone(struct relay *r)
{
	if (job_is_over(r->job))
		answer_afterwards(r);
	else if (r->job->life == LIFE_LINKED || r->job->life == LIFE_STARTING)
		r->undecided = true;
	else
		end_error(r, "Unavailable", manager_agent_lost(r->job->rec.name));
}

static void on_disconnected(struct relay *r)
{
	r->ask = agent_call_free(r->ask);
	r->client = varlink_client_free(r->client);
	if (r->helper) {
		end_failed(r, -EIO, helper_why(r->helper));
	} else if (!(r->rule->flags & RELAY_REPEAT) && !ends_all(r)) {
		agent_gone(r);
	} else {
		prepare_repeat(r);
		send_to_agent(r);
	}
}

/* The last answer about a run that is over; events is borrowed or NULL. */
static void finish_afterwards(struct relay *r, json_t *events)
{
	_cleanup_json_ json_t *answer = json_object();
	const char *ranks = json_get_string(r->params, "ranks", NULL);
	_cleanup_(ranks_fini) struct ranks only = { 0 };
	struct error err = { 0 };
	int code = job_load_text(r->job, &err);

	if (!code && ranks)
		code = ranks_parse(&only, ranks, "ranks", &err);
	if (!code && json_put(answer, "job",
			     ranks ? mirror_job_of(&r->job->mirror, &only)
				   : mirror_job(&r->job->mirror)) < 0)
		code = error_set(&err, -ENOMEM, "out of memory");
	if (!code && events && json_put(answer, "events", json_incref(events)) < 0)
		code = error_set(&err, -ENOMEM, "out of memory");
	job_drop_text(r->job);
	if (code < 0)
		end_failed(r, code, err.text);
	else
		end_reply(r, TAKE_PTR(answer));
}

/* Puts in the job's true owner: agents and files of a user may say anything. Returns false
 * where the answer cannot be handed on. */
static bool make_honest(const struct relay *r, json_t *parameters, struct error *err)
{
	json_t *job = json_object_get(parameters, "job");

	mirror_check_events(&r->job->rec, json_get_array(parameters, "events"));
	return !job || !mirror_check(&r->job->rec, job, err);
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct relay *r = arg;
	struct error err = { 0 };
	bool slow;

	if (error && !strcmp(error, "disconnected")) {
		on_disconnected(r);
		return;
	}
	if (error && !strcmp(error, VARLINK_TOO_MUCH)) {
		end_limit(r, "values in one answer of the job's agent",
			(int)json_get_int(parameters, "limit", 0));
		return;
	}
	if (error) {
		end_error(r, error, json_incref(parameters));
		return;
	}
	if (!make_honest(r, parameters, &err)) {
		log_warning("job %s: its agent answered %s with what cannot be used: %s",
			r->job->rec.name, r->rule->method, err.text);
		end_failed(r, err.code, "the job's agent gave an answer that cannot be used");
		return;
	}
	r->sent = true;
	note_progress(r, parameters);
	if (!continues) {
		if (r->helper && r->rule->afterwards)
			finish_afterwards(r, json_get_array(parameters, "events"));
		else
			end_reply(r, json_incref(parameters));
		return;
	}
	varlink_notify(r->call, json_incref(parameters));
	slow = varlink_call_congested(r->call, on_drained, r);
	if (slow)
		pause_answers(r, true);
	else if (r->helper)
		helper_await(r->helper, true);
}

static int ask_fd(struct relay *r, int fd, const char *method)
{
	char name[64];
	int code = varlink_client_new_fd(r->relays->host->loop, fd, NULL, r, &r->client);

	if (!code)
		code = job_count_client(r->job, r->client);
	if (code < 0)
		return code;
	snprintf(name, sizeof(name), INTERFACE "%s", method);
	return varlink_client_call(r->client, name, json_deep_copy(r->params),
		varlink_call_more(r->call) && strcmp(r->rule->method, method) == 0, on_answer, r);
}

static void ask_helper(struct relay *r)
{
	const struct varlink_account caller = varlink_call_account(r->call);
	struct error err = { 0 };
	size_t limit;
	int fd = -1;
	int code = helper_new(r->relays->helpers, r->job, &caller, &r->helper, &fd, &limit, &err);

	if (code == -EDQUOT || code == -ENOBUFS) {
		end_limit(r,
			code == -EDQUOT ? "readers of runs that are over for one user"
					: "readers of runs that are over",
			(int)limit);
		return;
	}
	if (!code)
		code = ask_fd(r, fd, r->rule->afterwards ? r->rule->afterwards : r->rule->method);
	if (code < 0)
		end_failed(r, code, err.code ? err.text : strerror(-code));
}

static void answer_from_files(struct relay *r)
{
	if (!strcmp(r->rule->method, "Status"))
		finish_afterwards(r, NULL);
	else
		ask_helper(r);
}

static void answer_afterwards(struct relay *r)
{
	if (r->doomed)
		end_doomed(r);
	else if (!(r->rule->flags & RELAY_AFTERWARDS))
		end_not_active(r);
	else
		answer_from_files(r);
}

static int count_processes(const struct job *j)
{
	_cleanup_json_ json_t *job = mirror_job(&j->mirror);
	json_t *worker;
	size_t i;
	int n = 0;

	json_array_foreach (json_get_array(job, "workers"), i, worker)
		n += json_is_integer(json_object_get(worker, "pid")) &&
		     !json_is_integer(json_object_get(worker, "ended_us"));
	return n;
}

/* Has the agent killed; r is answered when the verdict comes as news. did: what the agent did. */
static void kill_agent(struct relay *r, const char *did)
{
	char why[160], name[USER_NAME_MAX];

	r->doomed = true;
	r->doomed_number = count_processes(r->job);
	snprintf(why, sizeof(why), "%s after %.64s had asked to %s the job", did,
		user_name(varlink_call_peer(r->call)->uid, name), stops_job(r) ? "stop" : "kill");
	job_condemn(r->job, why);
}

static void end_silent(struct relay *r)
{
	end_error(r, "Unavailable",
		manager_agent_silent(r->job->rec.name, r->job->mirror.silent_us,
			(int64_t)loop_real_us(), r->job->mirror.silent_why));
}

static void on_silent(void *arg)
{
	struct relay *r = arg;
	bool heard = agent_call_heard(r->ask);
	char did[64];

	r->ask = agent_call_free(r->ask);
	snprintf(did, sizeof(did), "did not answer for %d s",
		(heard ? KILL_DUE_MS : AGENT_CALL_PATIENCE_MS) / 1000);
	if (ends_all(r))
		kill_agent(r, did);
	else if (only_reads(r))
		answer_from_files(r);
	else
		end_silent(r);
}

static void ask_agent(struct relay *r)
{
	const struct agent_call_options o = { .method = r->rule->method,
		.params = r->params,
		.more = varlink_call_more(r->call),
		.insist = stops_job(r) || only_reads(r),
		.modest = !varlink_call_account(r->call).trusted,
		.patience_ms = only_reads(r) ? READ_PATIENCE_MS : AGENT_CALL_PATIENCE_MS,
		.due_ms = ends_all(r) && !stops_job(r) ? KILL_DUE_MS : 0,
		.answer = on_answer,
		.silent = on_silent,
		.arg = r };
	int code;

	if (stops_job(r))
		job_end_within(r->job, json_get_int(r->params, "timeout_ms", SPEC_UNSET));
	code = agent_call_new(r->job, &o, &r->ask);
	if (!code)
		return;
	if (code == -EMFILE)
		end_limit(r, "open descriptors", descriptors_for_all());
	else if (code != -ECONNREFUSED && code != -ENOENT)
		end_failed(r, code, strerror(-code));
	else if (!(r->rule->flags & RELAY_REPEAT))
		agent_gone(r);
	/* Else no agent listens: it is starting or ending, and the job's news will say which. */
}

static void send_to_agent(struct relay *r)
{
	enum life life = r->job->life;

	if (job_is_over(r->job)) {
		answer_afterwards(r);
		return;
	}
	if (r->doomed)
		return;
	if (life == LIFE_LINKED || life == LIFE_STARTING ||
		(life == LIFE_LOST && (stops_job(r) || only_reads(r)))) {
		/* An earlier call already found the agent silent. */
		if (r->job->mirror.silent_us && only_reads(r)) {
			job_agent_silent(r->job, r->job->mirror.silent_us);
			answer_from_files(r);
		} else if (r->retries++ < RETRIES_MAX) {
			ask_agent(r);
		} else if (ends_all(r)) {
			kill_agent(r, "hung up each time");
		} else if (only_reads(r)) {
			answer_from_files(r);
		}
		return;
	}
	if (!(r->rule->flags & RELAY_REPEAT))
		end_error(r, "Unavailable", manager_agent_lost(r->job->rec.name));
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct relay *r = arg;

	if (news == JOB_GONE) {
		job_unwatch(j, &r->watch);
		r->job = NULL;
		end_error(r, "NotFound", manager_no_job(j->rec.name));
	} else if (r->undecided && news == JOB_ATTACHED) {
		end_error(r, "Unavailable", manager_agent_lost(j->rec.name));
	} else if (!r->ask && !r->client &&
		   (news == JOB_ATTACHED || news == JOB_VERDICT ||
			   (news == JOB_STARTED && stops_job(r)))) {
		r->retries = 0;
		send_to_agent(r);
	}
}

static const struct relay_rule *find_rule(const char *method)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
		if (!strcmp(rules[i].method, method))
			return &rules[i];
	return NULL;
}

/* Puts the caller's name into the call, in place of any that the caller gave: the agent itself sees
 * only elasticd as its peer. */
static int name_caller(struct relay *r)
{
	char name[USER_NAME_MAX];

	if (!(r->rule->flags & RELAY_NAMES))
		return 0;
	return json_put_string(
		r->params, "caller", user_name(varlink_call_peer(r->call)->uid, name));
}

int relay_begin(
	struct relays *relays, struct varlink_call *call, struct job *j, const json_t *params)
{
	const struct relay_rule *rule = find_rule(varlink_call_method(call));
	struct relay *r = rule ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return rule ? -ENOMEM : -ENOSYS;
	*r = (struct relay){ .relays = relays, .call = call, .rule = rule };
	r->params = json_copy((json_t *)params);
	if (!r->params || json_put_string(r->params, "job", j->rec.run) < 0 || name_caller(r) < 0) {
		json_decref(r->params);
		free(r);
		return -ENOMEM;
	}
	r->job = j;
	job_watch(j, &r->watch, on_news, r);
	varlink_call_on_gone(call, on_gone, r);
	if (take_place(r))
		send_to_agent(r);
	return 0;
}
