/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/wait.h"

#include "common/base/log.h"
#include "common/text/json.h"
#include "common/varlink/client.h"
#include "common/varlink/manager_error.h"
#include "daemon/api/agent_call.h"
#include "daemon/api/methods.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct waiter {
	struct varlink_call *call;
	struct job *job;
	struct job_watch watch;
	struct loop_timer *timer;
	struct agent_call *ask; /* tells the agent to end the run */
	struct wait_options options;
	bool due; /* the time is over: end the run */
};

static void waiter_free(struct waiter *w)
{
	if (w->job)
		job_unwatch(w->job, &w->watch);
	agent_call_free(w->ask);
	loop_timer_free(w->timer);
	free(w);
}

static void on_gone(void *arg)
{
	waiter_free(arg);
}

/* The end itself comes as news of the job. If the agent is lost meanwhile, the next one is asked.
 */
static void on_answer(void *arg, const char *error, json_t *parameters, bool continues)
{
	struct waiter *w = arg;
	struct varlink_call *call = w->call;
	/* name and parameters are freed with the connection. */
	_cleanup_free_ char *name = error ? strdup(error) : NULL;
	_cleanup_json_ json_t *p = json_incref(parameters);

	w->ask = agent_call_free(w->ask);
	if (!error || !name || !strcmp(name, "disconnected") || !strcmp(name, VARLINK_TOO_MUCH))
		return;
	waiter_free(w);
	varlink_error(call, name, TAKE_PTR(p));
}

static void on_silent(void *arg)
{
	struct waiter *w = arg;
	char why[128];

	snprintf(why, sizeof(why), "did not answer for %d s when a wait's time was over",
		AGENT_CALL_PATIENCE_MS / 1000);
	job_condemn(w->job, why);
}

/* Asks the agent to end the run. Without an agent, the job's news will call this again. */
static void end_run(struct waiter *w)
{
	_cleanup_json_ json_t *p = json_pack("{s:s, s:b, s:i, s:I}", "job", w->job->rec.run, "kill",
		1, "timeout_ms", 0, "waited_ms", (json_int_t)w->options.timeout_ms);
	const struct agent_call_options o = { .method = "Wait",
		.params = p,
		.insist = true,
		.patience_ms = AGENT_CALL_PATIENCE_MS,
		.answer = on_answer,
		.silent = on_silent,
		.arg = w };
	int r;

	w->ask = agent_call_free(w->ask);
	if (!job_can_be_asked(w->job))
		return;
	job_end_within(w->job, SPEC_UNSET);
	r = p ? agent_call_new(w->job, &o, &w->ask) : -ENOMEM;
	if (r < 0)
		log_warning(
			"job %s: its end cannot be asked for: %s", w->job->rec.name, strerror(-r));
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
	varlink_error(call, "DeadlineExceeded",
		json_pack("{s:s}", "message", "the job did not reach this state in time"));
}

static bool is_reached(const struct job *j, enum wait_until until)
{
	return job_is_over(j) || (until == WAIT_RUNNING && j->mirror.state == MIRROR_RUNNING) ||
	       (until == WAIT_READY && j->mirror.ready);
}

static int answer_status(struct varlink_call *call, struct job *j)
{
	struct error err = { 0 };
	int r = job_load_text(j, &err);

	if (r < 0)
		return methods_failed(call, r, err.text);
	r = varlink_reply_text(call, j->mirror.text, j->mirror.text_len);
	job_drop_text(j);
	return r;
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct waiter *w = arg;
	struct varlink_call *call = w->call;

	if (news == JOB_GONE) {
		waiter_free(w);
		varlink_error(call, "NotFound", manager_no_job(j->rec.name));
	} else if (is_reached(j, w->options.until)) {
		waiter_free(w);
		answer_status(call, j);
	} else if ((news == JOB_ATTACHED || news == JOB_STARTED) && w->due) {
		end_run(w);
	}
}

int wait_begin(struct varlink_call *call, struct job *j, const struct wait_options *options)
{
	struct waiter *w;
	int r;

	if (is_reached(j, options->until))
		return answer_status(call, j);
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
