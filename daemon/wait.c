/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/wait.h"

#include "common/json.h"
#include "common/log.h"
#include "common/varlink_client.h"

#include <errno.h>
#include <string.h>

struct waiter {
	struct varlink_call *call;
	struct job *job;
	struct job_watch watch;
	struct loop_timer *timer;
	struct varlink_client *client; /* to the agent that is to end the run */
	struct wait_options options;
	bool due; /* the time is over, the run is to end */
};

static void waiter_free(struct waiter *w)
{
	if (w->job)
		job_unwatch(w->job, &w->watch);
	varlink_client_free(w->client);
	loop_timer_free(w->timer);
	free(w);
}

static void on_gone(void *arg)
{
	waiter_free(arg);
}

static void on_closed(void *arg)
{
	/* The open call has heard of it already. */
}

/* The end itself comes as news of the job; an agent that is lost meanwhile has a successor, which
 * is asked again. */
static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct waiter *w = arg;
	struct varlink_call *call = w->call;
	/* They go with the connection. */
	_cleanup_free_ char *name = error ? strdup(error) : NULL;
	_cleanup_json_ json_t *p = json_incref(parameters);

	w->client = varlink_client_free(w->client);
	if (!error || !name || !strcmp(name, "disconnected"))
		return;
	waiter_free(w);
	varlink_error(call, name, TAKE_PTR(p));
}

static void end_run(struct waiter *w)
{
	int fd = agentproc_connect(w->job->host->runtime_dir, w->job->rec.name);
	json_t *p;

	if (fd < 0 || varlink_client_new_fd(w->job->host->loop, fd, on_closed, w, &w->client) < 0)
		return; /* it is on its way in or out: the news will come */
	p = json_pack("{s:s, s:b, s:i, s:I}", "job", w->job->rec.run, "kill", 1, "timeout_ms", 0,
		"waited_ms", (json_int_t)w->options.timeout_ms);
	if (!p || varlink_client_call(
			  w->client, "io.elasticd.Manager.Wait", p, false, on_answer, w) < 0)
		w->client = varlink_client_free(w->client);
}

static void on_timeout(void *arg)
{
	struct waiter *w = arg;
	struct varlink_call *call = w->call;

	if (w->options.kill) {
		log_notice("job %s (%s): a wait with an end is over: the run is ended",
			w->job->rec.name, w->job->rec.run);
		w->due = true;
		end_run(w);
		return;
	}
	waiter_free(w);
	varlink_error(call, "TimedOut",
		json_pack("{s:s}", "message", "the job did not get there in time"));
}

static bool reached(const struct job *j, bool until_running)
{
	return job_is_over(j) || (until_running && j->mirror.state == MIRROR_RUNNING);
}

static int answer(struct varlink_call *call, struct job *j)
{
	struct error err = { 0 };
	int r = job_load_text(j, &err);

	if (r < 0)
		return varlink_error(
			call, "Failed", json_pack("{s:s, s:i}", "message", err.text, "errno", -r));
	return varlink_reply_text(call, j->mirror.text, j->mirror.text_len);
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct waiter *w = arg;
	struct varlink_call *call = w->call;

	if (news == JOB_GONE) {
		waiter_free(w);
		varlink_error(call, "NoSuchJob", json_pack("{s:s}", "job", j->rec.name));
	} else if (reached(j, w->options.until_running)) {
		waiter_free(w);
		answer(call, j);
	} else if (news == JOB_ATTACHED && w->due) {
		w->client = varlink_client_free(w->client);
		end_run(w);
	}
}

int wait_begin(struct varlink_call *call, struct job *j, const struct wait_options *options)
{
	struct waiter *w;
	int r;

	if (reached(j, options->until_running))
		return answer(call, j);
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct waiter){ .call = call, .options = *options };
	if (options->timeout_ms >= 0) {
		r = loop_timer_new(j->host->loop, on_timeout, w, &w->timer);
		if (r < 0) {
			waiter_free(w);
			return r;
		}
		loop_timer_arm(w->timer, (uint64_t)options->timeout_ms);
	}
	w->job = j;
	job_watch(j, &w->watch, on_news, w);
	varlink_call_on_gone(call, on_gone, w);
	return 0;
}
