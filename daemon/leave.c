/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/leave.h"

#include "common/log.h"
#include "common/varlink_client.h"
#include "daemon/agentproc.h"
#include "daemon/job.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>

struct stopper {
	LIST_ENTRY(stopper) link;
	struct leave *leave;
	struct job *job;
	struct job_watch watch;
	struct varlink_client *client;
};

struct leave {
	struct loop *loop;
	const char *runtime_dir;
	loop_fn fn;
	void *arg;
	LIST_HEAD(, stopper) stoppers;
};

static void stopper_free(struct stopper *s)
{
	struct leave *l = s->leave;

	LIST_REMOVE(s, link);
	job_unwatch(s->job, &s->watch);
	varlink_client_free(s->client);
	free(s);
	if (LIST_EMPTY(&l->stoppers) && loop_defer(l->loop, l->fn, l->arg) < 0)
		l->fn(l->arg);
}

static void on_closed(void *arg)
{
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct stopper *s = arg;

	/* Lost on the way: asked again when the next agent answers. */
	if (error && strcmp(error, "disconnected"))
		log_warning("job %s: could not be stopped: %s", s->job->rec.name, error);
	s->client = varlink_client_free(s->client);
}

static void ask(struct stopper *s)
{
	int fd = agentproc_connect(s->leave->runtime_dir, s->job->rec.name);
	int r;

	if (fd < 0)
		return;
	r = varlink_client_new_fd(s->leave->loop, fd, on_closed, s, &s->client);
	if (!r)
		r = varlink_client_call(s->client, "io.elasticd.Manager.Stop",
			json_pack("{s:s}", "job", s->job->rec.run), false, on_answer, s);
	if (r < 0) {
		log_warning("job %s: could not be stopped: %s", s->job->rec.name, strerror(-r));
		s->client = varlink_client_free(s->client);
	}
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct stopper *s = arg;

	if (news == JOB_ENDED || news == JOB_GONE)
		stopper_free(s);
	else if (news == JOB_ATTACHED && !s->client)
		ask(s);
}

static int add(struct leave *l, struct job *j)
{
	struct stopper *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->leave = l;
	s->job = j;
	LIST_INSERT_HEAD(&l->stoppers, s, link);
	job_watch(j, &s->watch, on_news, s);
	if (!job_is_over(j))
		ask(s);
	return 0;
}

int leave_new(struct loop *loop, const struct registry *registry, const char *runtime_dir,
	loop_fn fn, void *arg, struct leave **ret)
{
	struct leave *l = calloc(1, sizeof(*l));
	int r = l ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	*l = (struct leave){ .loop = loop, .runtime_dir = runtime_dir, .fn = fn, .arg = arg };
	LIST_INIT(&l->stoppers);
	for (struct job *j = registry_first(registry); j && !r; j = registry_next(j))
		if (j->life != LIFE_ENDED)
			r = add(l, j);
	if (!r && LIST_EMPTY(&l->stoppers))
		r = loop_defer(loop, fn, arg);
	if (r < 0) {
		leave_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

struct leave *leave_free(struct leave *l)
{
	if (!l)
		return NULL;
	while (!LIST_EMPTY(&l->stoppers))
		stopper_free(LIST_FIRST(&l->stoppers));
	loop_cancel(l->loop, l->fn, l->arg);
	free(l);
	return NULL;
}
