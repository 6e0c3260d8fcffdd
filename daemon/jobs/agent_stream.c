/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/agent_stream.h"

#include "common/text/json.h"
#include "common/varlink/client.h"

#include <errno.h>
#include <stdio.h>

struct agent_stream {
	struct varlink_client *client;
	struct loop_timer *rest;
	agent_stream_update_fn update;
	agent_stream_closed_fn closed;
	void *arg;
	bool *freed;	 /* set to true if this is freed while an update runs */
	bool *caught_up; /* the same while agent_stream_catch_up() runs, which no rest holds up */
};

static void on_rested(void *arg)
{
	struct agent_stream *l = arg;

	varlink_client_pause(l->client, false);
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct agent_stream *l = arg;
	json_t *job = json_get_object(parameters, "job");
	json_t *events = json_get_array(parameters, "events");
	bool freed = false;

	if (error) {
		l->closed(l->arg, error);
		return;
	}
	if (!job || !events) {
		l->closed(l->arg, "its agent sent what is not a Watch answer");
		return;
	}
	/* The update may end the job and free this link. */
	l->freed = &freed;
	l->update(l->arg, job, events);
	if (freed)
		return;
	l->freed = NULL;
	if (!continues)
		l->closed(l->arg, "its agent ended the stream");
}

int agent_stream_new(struct loop *loop, int fd, const char *run, int64_t since,
	agent_stream_update_fn update, agent_stream_closed_fn closed, void *arg,
	struct agent_stream **ret)
{
	struct agent_stream *l = calloc(1, sizeof(*l));
	int r;

	if (!l) {
		close_fd(fd);
		return -ENOMEM;
	}
	*l = (struct agent_stream){ .update = update, .closed = closed, .arg = arg };
	r = loop_timer_new(loop, on_rested, l, &l->rest);
	if (r < 0) {
		close_fd(fd);
		free(l);
		return r;
	}
	r = varlink_client_new_fd(loop, fd, NULL, l, &l->client);
	if (!r)
		r = varlink_client_call(l->client, "io.elasticd.Manager.Watch",
			json_pack("{s:s, s:I}", "job", run, "since", (json_int_t)since), true,
			on_answer, l);
	if (r < 0) {
		agent_stream_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

int agent_stream_limit(struct agent_stream *l, const struct varlink_client_limits *limits)
{
	return varlink_client_limit(l->client, limits);
}

void agent_stream_rest(struct agent_stream *l, uint64_t ms)
{
	if (l->caught_up)
		return;
	varlink_client_pause(l->client, true);
	loop_timer_arm(l->rest, ms);
}

bool agent_stream_lags(const struct agent_stream *l)
{
	return varlink_client_lags(l->client);
}

void agent_stream_catch_up(struct agent_stream *l)
{
	bool freed = false;

	if (l->caught_up || !varlink_client_may_catch_up(l->client))
		return;
	if (loop_timer_armed(l->rest)) {
		loop_timer_disarm(l->rest);
		varlink_client_pause(l->client, false);
	}
	l->caught_up = &freed;
	varlink_client_catch_up(l->client);
	if (!freed)
		l->caught_up = NULL;
}

struct agent_stream *agent_stream_free(struct agent_stream *l)
{
	if (!l)
		return NULL;
	if (l->freed)
		*l->freed = true;
	if (l->caught_up)
		*l->caught_up = true;
	varlink_client_free(l->client);
	loop_timer_free(l->rest);
	free(l);
	return NULL;
}
