/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host/notice_delivery.h"

#include "common/text/json.h"
#include "common/varlink/client.h"
#include "common/varlink/manager_error.h"
#include "daemon/jobs/agent_process.h"

#include <errno.h>
#include <string.h>

enum { TRIES_MAX = 3 }; /* when the connection breaks while the agent lives */

struct notice_delivery {
	struct job *job; /* NULL: the job is gone */
	struct job_watch watch;
	struct varlink_client *client; /* NULL: waits for the agent */
	char *source, *reason;
	int64_t grace_ms, deadline_us;
	uint64_t since_ms; /* grace_ms counts from here */
	int tries;
	notice_delivery_fn fn;
	void *arg;
};

static void deliver(void *arg);

struct notice_delivery *notice_delivery_free(struct notice_delivery *t)
{
	if (!t)
		return NULL;
	if (t->job) {
		job_unwatch(t->job, &t->watch);
		loop_cancel(t->job->host->loop, deliver, t);
	}
	varlink_client_free(t->client);
	free(t->source);
	free(t->reason);
	free(t);
	return NULL;
}

/* Reports the result; fn may free t. */
static void end_delivery(struct notice_delivery *t, const char *error, json_t *parameters)
{
	static const char ours[] = "io.elasticd.Manager.";

	if (error && !strncmp(error, ours, sizeof(ours) - 1))
		error += sizeof(ours) - 1;
	t->fn(t->arg, error, parameters);
}

static void end_failed(struct notice_delivery *t, int code, const char *text)
{
	_cleanup_json_ json_t *p = manager_internal(text, code);

	end_delivery(t, "Internal", p);
}

static void end_lost(struct notice_delivery *t)
{
	_cleanup_json_ json_t *p = manager_agent_lost(t->job->rec.name);

	end_delivery(t, "Unavailable", p);
}

/* A run that ended preempted after it was asked has acted on the notice. */
static void end_over(struct notice_delivery *t)
{
	enum mirror_state state = t->job->mirror.state;
	_cleanup_json_ json_t *p = NULL;

	if (t->tries && state == MIRROR_PREEMPTED) {
		end_delivery(t, NULL, NULL);
		return;
	}
	p = manager_not_active(t->job->rec.name, mirror_state_name(state));
	end_delivery(t, "FailedPrecondition", p);
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct notice_delivery *t = arg;

	if (!error || strcmp(error, "disconnected") != 0) {
		end_delivery(t, error, parameters);
		return;
	}
	t->client = varlink_client_free(t->client);
	/* If the agent lives on, no news will come: try again. Else the next agent or the run's end
	 * is news. */
	if (t->job->life == LIFE_LINKED && loop_defer(t->job->host->loop, deliver, t) < 0)
		end_lost(t);
}

static json_t *parameters_now(const struct notice_delivery *t)
{
	int64_t passed = (int64_t)(loop_now_ms() - t->since_ms);
	int64_t grace = t->grace_ms > passed ? t->grace_ms - passed : 0;
	json_t *p = json_pack("{s:s, s:s, s:s*}", "job", t->job->rec.run, "source", t->source,
		"reason", t->reason);

	if (p && t->grace_ms != SPEC_UNSET && json_put_int(p, "grace_ms", grace) < 0) {
		json_decref(p);
		return NULL;
	}
	if (p && t->deadline_us != SPEC_UNSET &&
		json_put_int(p, "deadline_us", t->deadline_us) < 0) {
		json_decref(p);
		return NULL;
	}
	return p;
}

static void ask_agent(struct notice_delivery *t)
{
	struct error err = { 0 };
	int fd = agent_process_connect(t->job->host->runtime_dir, t->job->rec.name, &err);
	int r;

	/* No agent listens: it is starting or ending, and the job's news will say which. */
	if (fd == -ECONNREFUSED || fd == -ENOENT)
		return;
	t->tries++;
	r = fd < 0 ? fd : varlink_client_new_fd(t->job->host->loop, fd, NULL, t, &t->client);
	if (!r)
		r = job_count_client(t->job, t->client);
	if (!r)
		r = varlink_client_call(t->client, "io.elasticd.Manager.Preempt", parameters_now(t),
			false, on_answer, t);
	if (r < 0)
		end_failed(t, r, fd < 0 ? err.text : strerror(-r));
}

static void deliver(void *arg)
{
	struct notice_delivery *t = arg;

	/* Other news started the call after this was posted. */
	if (t->client)
		return;
	if (job_is_over(t->job))
		end_over(t);
	else if (t->tries >= TRIES_MAX)
		end_lost(t);
	else if (t->job->life == LIFE_LINKED || t->job->life == LIFE_STARTING)
		ask_agent(t);
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct notice_delivery *t = arg;
	bool over = news == JOB_VERDICT || news == JOB_ENDED || news == JOB_START_FAILED;

	if (news == JOB_GONE) {
		_cleanup_json_ json_t *p = manager_no_job(j->rec.name);

		job_unwatch(j, &t->watch);
		loop_cancel(j->host->loop, deliver, t);
		t->job = NULL;
		end_delivery(t, "NotFound", p);
	} else if (over) {
		end_over(t);
	} else if (news == JOB_ATTACHED && !t->client) {
		t->tries = 0;
		deliver(t);
	}
}

int notice_delivery_new(struct job *j, const struct notice_delivery_notice *n,
	notice_delivery_fn fn, void *arg, struct notice_delivery **ret)
{
	struct notice_delivery *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	*t = (struct notice_delivery){ .grace_ms = n->grace_ms,
		.deadline_us = n->deadline_us,
		.since_ms = loop_now_ms(),
		.fn = fn,
		.arg = arg };
	t->source = strdup(n->source);
	t->reason = n->reason ? strdup(n->reason) : NULL;
	r = !t->source || (n->reason && !t->reason) ? -ENOMEM
						    : loop_defer(j->host->loop, deliver, t);
	if (r < 0) {
		notice_delivery_free(t);
		return r;
	}
	t->job = j;
	job_watch(j, &t->watch, on_news, t);
	*ret = t;
	return 0;
}
