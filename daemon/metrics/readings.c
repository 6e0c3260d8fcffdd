/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/metrics/readings.h"

#include "daemon/api/agent_call.h"
#include "daemon/metrics/metrics.h"
#include "daemon/metrics/open_metrics.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { READINGS_AT_A_TIME = 32 };

struct readings {
	struct loop *loop;
	struct registry *registry;
	loop_fn done;
	void *arg;
	TAILQ_HEAD(reading_list, reading) list;
	struct reading *next; /* to be asked; NULL: none */
	int open;
	bool asking;
	struct loop_timer *patience;
};

static void reading_free(struct reading *x)
{
	if (x->all->next == x)
		x->all->next = TAILQ_NEXT(x, link);
	TAILQ_REMOVE(&x->all->list, x, link);
	x->all->open -= x->call && !x->late;
	agent_call_free(x->call);
	job_unwatch(x->job, &x->watch);
	x->job->reading = NULL;
	free(x);
}

static void ask_more(void *arg);

/* The rest goes on in the next turn: the registry may be in the middle of a change. */
static void ask_later(struct readings *r)
{
	if (r->asking && loop_defer(r->loop, ask_more, r) < 0)
		loop_timer_arm(r->patience, 0);
}

static void on_job(void *arg, struct job *j, enum job_news news)
{
	struct reading *x = arg;
	struct readings *r = x->all;

	if (news == JOB_GONE || news == JOB_ENDED) {
		reading_free(x);
		ask_later(r);
	} else {
		x->fresh = false;
	}
}

static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct reading *x = arg;

	x->known = !error;
	if (error)
		x->fresh = false;
	else
		job_numbers_read(json_object_get(parameters, "job"), &x->numbers);
	x->call = agent_call_free(x->call);
	if (x->late)
		return;
	x->all->open--;
	ask_later(x->all);
}

/* The call goes on: the agent may answer later. */
static void on_silent(void *arg)
{
}

static void ask_agent(struct reading *x)
{
	_cleanup_json_ json_t *params =
		json_pack("{s:s, s:b}", "job", x->job->rec.name, "live", true);
	const struct agent_call_options o = {
		.method = "Status",
		.params = params,
		.modest = true,
		.patience_ms = AGENT_CALL_PATIENCE_MS,
		.answer = on_answer,
		.silent = on_silent,
		.arg = x,
	};

	x->known = x->late = false;
	x->fresh = true;
	x->asked_ms = loop_now_ms();
	if (params && agent_call_new(x->job, &o, &x->call) == 0)
		x->all->open++;
	else
		x->fresh = false;
}

static void end_asking(struct readings *r)
{
	struct reading *x;

	r->asking = false;
	r->next = NULL;
	loop_timer_disarm(r->patience);
	loop_cancel(r->loop, ask_more, r);
	TAILQ_FOREACH (x, &r->list, link)
		x->late = x->call != NULL;
	r->open = 0;
	r->done(r->arg);
}

static bool wants_asking(struct reading *x)
{
	if (x->call)
		return false;
	if (x->job->life == LIFE_LINKED && !x->job->mirror.silent_us)
		return !x->fresh || loop_now_ms() - x->asked_ms >= METRICS_FRESH_MS;
	x->known = x->fresh = false;
	return false;
}

static void ask_more(void *arg)
{
	struct readings *r = arg;

	for (; r->next && r->open < READINGS_AT_A_TIME; r->next = TAILQ_NEXT(r->next, link))
		if (wants_asking(r->next))
			ask_agent(r->next);
	if (!r->open)
		end_asking(r);
}

static void on_patience(void *arg)
{
	end_asking(arg);
}

static void reading_new(struct readings *r, struct job *j)
{
	struct reading *x = calloc(1, sizeof(*x));

	if (!x)
		return;
	x->all = r;
	x->job = j;
	open_metrics_label(x->labels, sizeof(x->labels), "name", j->rec.name);
	open_metrics_label(x->labels, sizeof(x->labels), "user", j->rec.user);
	job_watch(j, &x->watch, on_job, x);
	j->reading = x;
	TAILQ_INSERT_TAIL(&r->list, x, link);
}

static void add_new_jobs(struct readings *r)
{
	for (struct job *j = registry_first_active(r->registry); j; j = registry_next_active(j))
		if (j->life != LIFE_ENDED && !j->reading)
			reading_new(r, j);
}

bool readings_refresh(struct readings *r)
{
	if (r->asking)
		return true;
	add_new_jobs(r);
	r->next = TAILQ_FIRST(&r->list);
	while (r->next && !wants_asking(r->next))
		r->next = TAILQ_NEXT(r->next, link);
	if (!r->next)
		return false;
	r->asking = true;
	loop_timer_arm(r->patience, METRICS_PATIENCE_MS);
	ask_later(r);
	return true;
}

struct reading *readings_first(struct readings *r)
{
	return TAILQ_FIRST(&r->list);
}

struct reading *readings_next(struct reading *x)
{
	return TAILQ_NEXT(x, link);
}

int readings_new(struct loop *loop, struct registry *registry, loop_fn done, void *arg,
	struct readings **ret)
{
	_cleanup_(readings_freep) struct readings *r = calloc(1, sizeof(*r));
	int code;

	if (!r)
		return -ENOMEM;
	r->loop = loop;
	r->registry = registry;
	r->done = done;
	r->arg = arg;
	TAILQ_INIT(&r->list);
	code = loop_timer_new(loop, on_patience, r, &r->patience);
	if (code < 0)
		return code;
	*ret = TAKE_PTR(r);
	return 0;
}

struct readings *readings_free(struct readings *r)
{
	if (!r)
		return NULL;
	while (!TAILQ_EMPTY(&r->list))
		reading_free(TAILQ_FIRST(&r->list));
	loop_cancel(r->loop, ask_more, r);
	loop_timer_free(r->patience);
	free(r);
	return NULL;
}
