/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/stop_all.h"

#include "common/base/log.h"
#include "common/base/user_name.h"
#include "common/text/json.h"
#include "daemon/api/agent_call.h"
#include "daemon/jobs/job.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

struct stopper {
	LIST_ENTRY(stopper) link;
	struct stop_all *all;
	struct job *job;
	struct job_watch watch;
	struct agent_call *ask;
};

struct stop_all {
	struct loop *loop;
	loop_fn fn;
	void *arg;
	LIST_HEAD(, stopper) stoppers;
	char caller[USER_NAME_MAX]; /* the user who wants all jobs stopped */
};

static void stopper_free(struct stopper *s)
{
	struct stop_all *l = s->all;

	LIST_REMOVE(s, link);
	job_unwatch(s->job, &s->watch);
	agent_call_free(s->ask);
	free(s);
	if (LIST_EMPTY(&l->stoppers) && loop_defer(l->loop, l->fn, l->arg) < 0)
		l->fn(l->arg);
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct stopper *s = arg;

	/* After "disconnected" the next agent of the job is asked again. */
	if (error && strcmp(error, "disconnected"))
		log_warning("job %s: could not be stopped: %s", s->job->rec.name, error);
	s->ask = agent_call_free(s->ask);
}

static void on_silent(void *arg)
{
	struct stopper *s = arg;
	char why[128];

	snprintf(why, sizeof(why), "did not answer for %d s when all jobs were to be stopped",
		AGENT_CALL_PATIENCE_MS / 1000);
	job_condemn(s->job, why);
}

static void ask_agent(struct stopper *s)
{
	_cleanup_json_ json_t *p =
		json_pack("{s:s, s:s}", "job", s->job->rec.run, "caller", s->all->caller);
	const struct agent_call_options o = { .method = "Stop",
		.params = p,
		.insist = true,
		.patience_ms = AGENT_CALL_PATIENCE_MS,
		.answer = on_answer,
		.silent = on_silent,
		.arg = s };
	int r;

	s->ask = agent_call_free(s->ask);
	job_end_within(s->job, s->job->rec.stop_ms);
	if (!job_can_be_asked(s->job))
		return;
	r = p ? agent_call_new(s->job, &o, &s->ask) : -ENOMEM;
	if (r < 0)
		log_warning("job %s: could not be stopped: %s", s->job->rec.name, strerror(-r));
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct stopper *s = arg;

	if (news == JOB_ENDED || news == JOB_GONE)
		stopper_free(s);
	else if (news == JOB_ATTACHED || news == JOB_STARTED || news == JOB_VERDICT)
		ask_agent(s);
}

static int add_job(struct stop_all *l, struct job *j)
{
	struct stopper *s = calloc(1, sizeof(*s));

	if (!s)
		return -ENOMEM;
	s->all = l;
	s->job = j;
	LIST_INSERT_HEAD(&l->stoppers, s, link);
	job_watch(j, &s->watch, on_news, s);
	ask_agent(s);
	return 0;
}

int stop_all_new(struct loop *loop, const struct registry *registry, uid_t caller, loop_fn fn,
	void *arg, struct stop_all **ret)
{
	struct stop_all *l = calloc(1, sizeof(*l));
	int r = l ? 0 : -ENOMEM;

	if (r < 0)
		return r;
	*l = (struct stop_all){ .loop = loop, .fn = fn, .arg = arg };
	user_name(caller, l->caller);
	LIST_INIT(&l->stoppers);
	for (struct job *j = registry_first_active(registry); j && !r; j = registry_next_active(j))
		if (j->life != LIFE_ENDED)
			r = add_job(l, j);
	if (!r && LIST_EMPTY(&l->stoppers))
		r = loop_defer(loop, fn, arg);
	if (r < 0) {
		stop_all_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

struct stop_all *stop_all_free(struct stop_all *l)
{
	if (!l)
		return NULL;
	while (!LIST_EMPTY(&l->stoppers))
		stopper_free(LIST_FIRST(&l->stoppers));
	loop_cancel(l->loop, l->fn, l->arg);
	free(l);
	return NULL;
}
