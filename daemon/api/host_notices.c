/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/host_notices.h"

#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/notice/noticer.h"
#include "common/text/duration.h"
#include "common/text/json.h"
#include "daemon/api/methods.h"
#include "daemon/host/notice_target.h"
#include "daemon/host/shutdown_inhibitor.h"
#include "daemon/host/shutdown_query.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/queue.h>

enum {
	WATCHED = NOTICER_SOURCES | SPEC_NOTICE_LOGIND,
	LEAVE_MS = 60000, /* of systemd's 90 s for the stop of a service */
	LEAVE_SPARE_MS = 15000,
};

/* A Platform call that waits until the platform is detected. */
struct question {
	LIST_ENTRY(question) link;
	struct notices *notices;
	struct varlink_call *call;
};

struct notices {
	struct daemon *daemon;
	struct noticer *noticer;
	struct inhibit *inhibit;
	LIST_HEAD(, notice_target) targets;
	LIST_HEAD(, question) questions;
	char last[NOTICE_TARGET_KEY_MAX]; /* the newest event that was logged */
	struct notice down;		  /* source NULL: the host does not go down */
	unsigned downs;
	int64_t down_us; /* when logind announced it; 0: never */
	struct loop_timer *limit;
	struct shutdown_query *going; /* asks systemd why elasticd is stopped */
	loop_fn left;		      /* NULL: elasticd need not leave */
	void *left_arg;
};

static const char *platform_of(const struct notices *n)
{
	return noticer_platform_known(n->noticer);
}

/* Logs each event once, for any number of jobs. */
static void log_notice_of(struct notices *n, const struct notice *what, int reached)
{
	char key[NOTICE_TARGET_KEY_MAX];
	char left[DURATION_TEXT_MAX] = "";
	_cleanup_free_ char *reason = printable_dup(what->reason);
	int64_t now_us = (int64_t)loop_real_us();

	snprintf(key, sizeof(key), "%s %s", what->source, what->id);
	if (!strcmp(key, n->last))
		return;
	memcpy(n->last, key, sizeof(key));
	if (what->deadline_us != SPEC_UNSET)
		duration_text(
			what->deadline_us > now_us ? (what->deadline_us - now_us) / 1000 : 0, left);
	log_warning("notice of preemption from %s%s%s%s%s; %d job%s told", what->source,
		reason && *reason ? ": " : "", reason ? reason : "", *left ? ", time left " : "",
		left, reached, reached == 1 ? " is" : "s are");
}

static void notify_all(struct notices *n, const struct notice *what)
{
	const char *platform = platform_of(n);
	struct notice_target *t;
	int reached = 0;

	LIST_FOREACH (t, &n->targets, link)
		if (t->ready && notice_target_wants(t, what->source, platform))
			reached += notice_target_notify(t, what);
	log_notice_of(n, what, reached);
}

static void on_notice(void *arg, const struct notice *what)
{
	notify_all(arg, what);
}

static void on_message(void *arg, int level, const char *source, const char *text)
{
	log_msg(level, "%s: %s", source, text);
}

/* Gives a job that has just begun to listen the notices that still hold. */
static void on_attached(void *arg, struct notice_target *t)
{
	struct notices *n = arg;

	if (t->job->rec.notices & NOTICER_SOURCES)
		noticer_repeat(n->noticer);
	if (n->down.source && notice_target_wants(t, n->down.source, NULL))
		(void)notice_target_notify(t, &n->down);
}

static void on_ended(void *arg, struct notice_target *t)
{
	/* notices_update() follows when the job's change is handled. */
	LIST_REMOVE(t, link);
	notice_target_free(t);
}

static int64_t capped_delay(const struct notices *n, int64_t delay_ms)
{
	int64_t most = n->daemon->config.inhibit_delay;

	return most >= 0 && most < delay_ms ? most : delay_ms;
}

static void host_goes_down(struct notices *n, int64_t delay_ms, const char *why)
{
	delay_ms = capped_delay(n, delay_ms);
	n->down_us = (int64_t)loop_real_us();
	n->down =
		(struct notice){ .source = "logind", .deadline_us = n->down_us + delay_ms * 1000 };
	snprintf(n->down.id, sizeof(n->down.id), "shutdown %u", ++n->downs);
	snprintf(n->down.reason, sizeof(n->down.reason), "%s", why);
	loop_timer_arm(n->limit, (uint64_t)delay_ms);
	notify_all(n, &n->down);
}

static void on_inhibit(void *arg, bool down, int64_t delay_ms)
{
	struct notices *n = arg;

	if (down) {
		host_goes_down(n, delay_ms, "the host is going down");
		return;
	}
	log_notice("logind: the host does not go down after all");
	n->down.source = NULL;
	loop_timer_disarm(n->limit);
}

static int count_jobs(const struct notices *n, const char *source)
{
	const char *platform = platform_of(n);
	const struct notice_target *t;
	int jobs = 0;

	LIST_FOREACH (t, &n->targets, link)
		jobs += notice_target_wants(t, source, platform);
	return jobs;
}

static void leave_now(struct notices *n)
{
	loop_fn left = n->left;

	n->left = NULL;
	n->going = shutdown_query_free(n->going);
	if (left)
		left(n->left_arg);
}

static void on_limit(void *arg)
{
	struct notices *n = arg;
	int left = count_jobs(n, "logind");

	if (left)
		log_warning("the host goes down and is not held up any longer for %d job%s", left,
			left == 1 ? "" : "s");
	inhibit_release(n->inhibit);
	if (n->left)
		leave_now(n);
}

static void listen_to(struct notices *n, struct job *j)
{
	struct notice_target *t = NULL;
	int r = notice_target_new(j, on_attached, on_ended, n, &t);

	if (r < 0) {
		log_error("job %s: will not hear of notices: %s", j->rec.name, strerror(-r));
		return;
	}
	LIST_INSERT_HEAD(&n->targets, t, link);
	if (t->ready)
		on_attached(n, t);
}

void notices_update(struct notices *n)
{
	unsigned wanted = 0;
	int64_t poll_ms = INT64_MAX;
	struct notice_target *t;

	for (struct job *j = registry_first_active(n->daemon->registry); j;
		j = registry_next_active(j))
		if (!j->listening && j->rec.notices & WATCHED && !job_is_over(j))
			listen_to(n, j);
	LIST_FOREACH (t, &n->targets, link) {
		wanted |= t->job->rec.notices;
		if (t->job->rec.notices & NOTICER_SOURCES && t->job->rec.poll_ms < poll_ms)
			poll_ms = t->job->rec.poll_ms;
	}
	if (wanted & NOTICER_SOURCES)
		noticer_set_poll(n->noticer, poll_ms);
	noticer_want(n->noticer, wanted & NOTICER_SOURCES);
	/* Without targets logind's signal "the host stays" is missed: the next notice_target asks
	 * again.
	 */
	if (!(wanted & SPEC_NOTICE_LOGIND)) {
		n->down.source = NULL;
		loop_timer_disarm(n->limit);
	}
	inhibit_want(n->inhibit, wanted & SPEC_NOTICE_LOGIND);
	if (n->left && !n->going && !(wanted & SPEC_NOTICE_LOGIND))
		leave_now(n);
}

static void on_going(void *arg, bool down)
{
	struct notices *n = arg;
	int64_t ms;

	n->going = shutdown_query_free(n->going);
	if (!down || !count_jobs(n, "logind")) {
		leave_now(n);
		return;
	}
	ms = capped_delay(n, n->daemon->config.inhibit_delay >= 0 ? INT64_MAX / 4000 : LEAVE_MS);
	notify_extend(n->daemon->notify, (uint64_t)ms + LEAVE_SPARE_MS);
	host_goes_down(n, ms, "the host is going down");
}

void notices_leave(struct notices *n, loop_fn done, void *arg)
{
	int r = 0;

	n->left = done;
	n->left_arg = arg;
	/* With n->down set, logind itself has announced the end to the jobs and waited for them. */
	if (count_jobs(n, "logind") && !n->down.source)
		r = shutdown_query_ask(n->daemon->loop, on_going, n, &n->going);
	else
		r = -ENOENT;
	if (r < 0)
		leave_now(n);
}

static void question_free(struct question *q)
{
	LIST_REMOVE(q, link);
	free(q);
}

static json_t *watch_of_logind(const struct notices *n)
{
	const char *text;
	const char *state = inhibit_state(n->inhibit, &text);
	json_t *w = json_pack("{s:s, s:s, s:s, s:i}", "source", "logind", "state", state, "text",
		text, "jobs", count_jobs(n, "logind"));

	if (w && n->down_us && json_put_int(w, "last_us", n->down_us) < 0) {
		json_decref(w);
		return NULL;
	}
	return w;
}

static json_t *watches_json(const struct notices *n)
{
	json_t *list = noticer_watches_json(n->noticer);
	json_t *w;
	size_t i;

	json_array_foreach (list, i, w)
		if (json_put_int(w, "jobs", count_jobs(n, json_get_string(w, "source", ""))) < 0)
			goto failed;
	if (list && !json_add(list, watch_of_logind(n)))
		return list;
failed:
	json_decref(list);
	return NULL;
}

static void on_platform(void *arg, const char *platform, const char *details)
{
	struct question *q = arg;
	struct notices *n = q->notices;
	struct varlink_call *call = q->call;
	json_t *list = watches_json(n);

	question_free(q);
	if (list)
		varlink_reply(call, json_pack("{s:s, s:s, s:o}", "platform", platform, "details",
					    details, "watches", list));
	else
		methods_failed(call, -ENOMEM, "out of memory");
}

static void on_question_gone(void *arg)
{
	struct question *q = arg;

	noticer_platform_forget(q->notices->noticer, q);
	question_free(q);
}

int notices_platform(struct notices *n, struct varlink_call *call)
{
	struct question *q = calloc(1, sizeof(*q));
	int r;

	if (!q)
		return -ENOMEM;
	*q = (struct question){ .notices = n, .call = call };
	LIST_INSERT_HEAD(&n->questions, q, link);
	r = noticer_platform(n->noticer, on_platform, q);
	if (r < 0)
		question_free(q);
	else
		varlink_call_on_gone(call, on_question_gone, q);
	return r;
}

int notices_new(struct daemon *d, struct notices **ret, struct error *err)
{
	const struct noticer_options o = { .gce_endpoint = d->config.gce_endpoint,
		.aws_endpoint = d->config.aws_endpoint,
		.azure_endpoint = d->config.azure_endpoint,
		.dmi_dir = d->config.dmi_dir,
		.message = on_message };
	struct notices *n = calloc(1, sizeof(*n));
	int r;

	if (!n)
		return error_set(err, -ENOMEM, "out of memory");
	n->daemon = d;
	LIST_INIT(&n->targets);
	LIST_INIT(&n->questions);
	r = noticer_new(d->loop, &o, on_notice, n, &n->noticer);
	if (!r)
		r = inhibit_new(d->loop, on_inhibit, n, &n->inhibit);
	if (!r)
		r = loop_timer_new(d->loop, on_limit, n, &n->limit);
	if (r < 0) {
		notices_free(n);
		return error_set(err, r, "%s", strerror(-r));
	}
	*ret = n;
	return 0;
}

struct notices *notices_free(struct notices *n)
{
	if (!n)
		return NULL;
	while (!LIST_EMPTY(&n->targets))
		on_ended(n, LIST_FIRST(&n->targets));
	while (!LIST_EMPTY(&n->questions))
		question_free(LIST_FIRST(&n->questions));
	shutdown_query_free(n->going);
	inhibit_free(n->inhibit);
	noticer_free(n->noticer);
	loop_timer_free(n->limit);
	free(n);
	return NULL;
}
