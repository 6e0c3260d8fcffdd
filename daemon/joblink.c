/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/joblink.h"

#include "common/json.h"
#include "common/varlink_client.h"

#include <errno.h>
#include <stdio.h>

struct joblink {
	struct varlink_client *client;
	joblink_update_fn update;
	joblink_closed_fn closed;
	void *arg;
	bool *freed; /* where to say that this is gone, while an update runs */
};

static void on_closed(void *arg)
{
	/* The open call has heard of it already. */
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct joblink *l = arg;
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
	if (continues) {
		l->update(l->arg, job, events);
		return;
	}
	/* The last one: the update may end the job and with it this link. */
	l->freed = &freed;
	l->update(l->arg, job, events);
	if (freed)
		return;
	l->freed = NULL;
	l->closed(l->arg, "its agent ended the stream");
}

int joblink_new(struct loop *loop, int fd, const char *run, int64_t since, joblink_update_fn update,
	joblink_closed_fn closed, void *arg, struct joblink **ret)
{
	struct joblink *l = calloc(1, sizeof(*l));
	int r;

	if (!l) {
		close_fd(fd);
		return -ENOMEM;
	}
	*l = (struct joblink){ .update = update, .closed = closed, .arg = arg };
	r = varlink_client_new_fd(loop, fd, on_closed, l, &l->client);
	if (!r)
		r = varlink_client_call(l->client, "io.elasticd.Manager.Watch",
			json_pack("{s:s, s:I}", "job", run, "since", (json_int_t)since), true,
			on_answer, l);
	if (r < 0) {
		joblink_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

int joblink_count(struct joblink *l, struct budget *b, uint64_t key)
{
	return varlink_client_count(l->client, b, key);
}

void joblink_catch_up(struct joblink *l)
{
	varlink_client_catch_up(l->client);
}

struct joblink *joblink_free(struct joblink *l)
{
	if (!l)
		return NULL;
	if (l->freed)
		*l->freed = true;
	varlink_client_free(l->client);
	free(l);
	return NULL;
}
