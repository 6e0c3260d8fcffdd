/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/agent_call.h"

#include "common/base/descriptors.h"
#include "common/text/json.h"
#include "daemon/jobs/agent_process.h"
#include "daemon/jobs/job_process.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define INTERFACE "io.elasticd.Manager."

enum {
	/* Patience is counted in slices: while this machine stands still only one of them is lost.
	 */
	SLICES = 5,
	RETRY_FIRST_MS = 20, /* to connect */
	RETRY_LONGEST_MS = 500,
};

struct agent_call {
	struct job *job;
	struct agent_call_options options;
	char method[64];
	json_t *params;
	struct varlink_client *client; /* NULL: there is no connection yet */
	struct loop_timer *slice, *retry;
	unsigned left; /* slices of patience */
	bool heard;
	uint64_t retry_ms;
	int64_t begun_us;
	pid_t guard; /* of the agent that was called */
	bool catching_up;
	bool freed; /* by a callback, while catching up */
};

struct agent_call *agent_call_free(struct agent_call *c)
{
	if (!c)
		return NULL;
	varlink_client_free(c->client);
	loop_timer_free(c->slice);
	loop_timer_free(c->retry);
	json_decref(c->params);
	c->freed = true;
	if (!c->catching_up)
		free(c);
	return NULL;
}

static void on_ping(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct agent_call *c = arg;

	if (error && !strcmp(error, "disconnected"))
		return;
	c->heard = true;
	if (c->options.due_ms)
		loop_timer_arm(c->slice, c->options.due_ms);
	else
		loop_timer_disarm(c->slice);
	job_agent_heard(c->job);
}

static int open_client(struct agent_call *c, int fd)
{
	int r = varlink_client_new_fd(c->job->host->loop, fd, NULL, c, &c->client);

	if (!r)
		r = job_count_client(c->job, c->client);
	if (!r)
		r = varlink_client_call(c->client, INTERFACE "Ping", NULL, false, on_ping, c);
	if (!r)
		r = varlink_client_call(c->client, c->method, json_deep_copy(c->params),
			c->options.more, c->options.answer, c->options.arg);
	return r;
}

/* Returns 0 if c has a connection, or will try again later to make one. */
static int try_connect(struct agent_call *c)
{
	int fd = agent_process_connect(c->job->host->runtime_dir, c->job->rec.name, NULL);
	bool none = fd == -ECONNREFUSED || fd == -ENOENT;

	if (fd >= 0 && c->options.modest && descriptor_is_reserved(fd)) {
		close_fd(fd);
		return -EMFILE;
	}
	if (fd >= 0)
		return open_client(c, fd);
	/* The agent is too busy or its socket is hidden, or the caller insists: try again. */
	if (fd != -EAGAIN && fd != -ENOTSOCK && !(none && c->options.insist))
		return fd;
	loop_timer_arm(c->retry, c->retry_ms);
	c->retry_ms = c->retry_ms * 2 < RETRY_LONGEST_MS ? c->retry_ms * 2 : RETRY_LONGEST_MS;
	return 0;
}

static void report_disconnected(struct agent_call *c)
{
	_cleanup_json_ json_t *none = json_object();

	loop_timer_disarm(c->slice);
	loop_timer_disarm(c->retry);
	c->options.answer(c->options.arg, "disconnected", none, false);
}

/* Whether the agent that was called may still be there. */
static bool is_for(const struct agent_call *c)
{
	const struct job *j = c->job;

	return j->rec.agent_pid == c->guard &&
	       (j->life == LIFE_STARTING || j->life == LIFE_LINKED || j->life == LIFE_LOST);
}

static void on_retry(void *arg)
{
	struct agent_call *c = arg;

	if (!is_for(c) || try_connect(c) < 0)
		report_disconnected(c);
}

static void on_slice(void *arg)
{
	struct agent_call *c = arg;
	bool heard = c->heard;

	/* The answer may have arrived while elasticd itself had no time to read it. */
	c->catching_up = true;
	if (c->client)
		varlink_client_catch_up(c->client);
	c->catching_up = false;
	if (c->freed) {
		free(c);
		return;
	}
	if (heard) {
		c->options.silent(c->options.arg);
		return;
	}
	if (c->heard)
		return;
	if (!c->client && !is_for(c))
		report_disconnected(c);
	else if (c->job->child.pidfd >= 0 || --c->left > 0) /* an agent not yet let go has time */
		loop_timer_arm(c->slice, c->options.patience_ms / SLICES);
	else {
		job_agent_silent(c->job, c->begun_us);
		c->options.silent(c->options.arg);
	}
}

int agent_call_new(struct job *j, const struct agent_call_options *o, struct agent_call **ret)
{
	_cleanup_(agent_call_freep) struct agent_call *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return -ENOMEM;
	*c = (struct agent_call){ .job = j,
		.options = *o,
		.left = SLICES,
		.retry_ms = RETRY_FIRST_MS,
		.begun_us = loop_real_us(),
		.guard = j->rec.agent_pid };
	snprintf(c->method, sizeof(c->method), INTERFACE "%s", o->method);
	c->params = json_deep_copy(o->params);
	if (!c->params)
		return -ENOMEM;
	r = loop_timer_new(j->host->loop, on_slice, c, &c->slice);
	if (!r)
		r = loop_timer_new(j->host->loop, on_retry, c, &c->retry);
	if (!r)
		r = try_connect(c);
	if (r < 0)
		return r;
	loop_timer_arm(c->slice, o->patience_ms / SLICES);
	*ret = TAKE_PTR(c);
	return 0;
}

bool agent_call_heard(const struct agent_call *c)
{
	return c->heard;
}

void agent_call_pause(struct agent_call *c, bool pause)
{
	if (c && c->client)
		varlink_client_pause(c->client, pause);
}
