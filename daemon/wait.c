/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/wait.h"

#include <errno.h>

struct waiter {
	struct varlink_call *call;
	struct job *job;
	struct job_watch watch;
	struct loop_timer *timer;
	bool until_running;
};

static void waiter_free(struct waiter *w)
{
	if (w->job)
		job_unwatch(w->job, &w->watch);
	loop_timer_free(w->timer);
	free(w);
}

static void on_gone(void *arg)
{
	waiter_free(arg);
}

static void on_timeout(void *arg)
{
	struct waiter *w = arg;
	struct varlink_call *call = w->call;
	json_t *parameters = json_pack("{s:s}", "message", "the job did not get there in time");

	waiter_free(w);
	varlink_error(call, "TimedOut", parameters);
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
	} else if (reached(j, w->until_running)) {
		waiter_free(w);
		answer(call, j);
	}
}

int wait_begin(struct varlink_call *call, struct job *j, bool until_running, int64_t timeout_ms)
{
	struct waiter *w;
	int r;

	if (reached(j, until_running))
		return answer(call, j);
	w = calloc(1, sizeof(*w));
	if (!w)
		return -ENOMEM;
	*w = (struct waiter){ .call = call, .until_running = until_running };
	if (timeout_ms >= 0) {
		r = loop_timer_new(j->host->loop, on_timeout, w, &w->timer);
		if (r < 0) {
			waiter_free(w);
			return r;
		}
		loop_timer_arm(w->timer, timeout_ms);
	}
	w->job = j;
	job_watch(j, &w->watch, on_news, w);
	varlink_call_on_gone(call, on_gone, w);
	return 0;
}
