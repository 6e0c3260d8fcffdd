/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/host/notice_target.h"

#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/text/json.h"
#include "daemon/host/notice_delivery.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { SAME_US = 2000000 }; /* deadlines computed from a remaining time differ a little */

struct notice_target_delivery {
	LIST_ENTRY(notice_target_delivery) link;
	struct notice_target *notice_target;
	struct notice_delivery *delivery;
};

static void delivery_free(struct notice_target_delivery *e)
{
	LIST_REMOVE(e, link);
	notice_delivery_free(e->delivery);
	free(e);
}

struct notice_target *notice_target_free(struct notice_target *t)
{
	if (!t)
		return NULL;
	while (!LIST_EMPTY(&t->deliveries))
		delivery_free(LIST_FIRST(&t->deliveries));
	job_unwatch(t->job, &t->watch);
	t->job->listening = false;
	free(t);
	return NULL;
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct notice_target *t = arg;

	if (news == JOB_ATTACHED && !t->ready) {
		t->ready = true;
		t->attached(t->arg, t);
	} else if (news == JOB_ENDED || news == JOB_GONE || news == JOB_START_FAILED) {
		t->ended(t->arg, t);
	}
}

int notice_target_new(struct job *j, notice_target_fn attached, notice_target_fn ended, void *arg,
	struct notice_target **ret)
{
	struct notice_target *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	*t = (struct notice_target){ .job = j,
		.ready = j->life == LIFE_LINKED,
		.attached = attached,
		.ended = ended,
		.arg = arg };
	LIST_INIT(&t->deliveries);
	j->listening = true;
	job_watch(j, &t->watch, on_news, t);
	*ret = t;
	return 0;
}

bool notice_target_wants(const struct notice_target *t, const char *source, const char *platform)
{
	unsigned wants = t->job->rec.notices;

	if (wants & SPEC_NOTICE_CLOUD && platform && !strcmp(platform, source))
		return true;
	return wants & spec_notice_bit(source);
}

/* Whether n announces an earlier end than up does. Without a deadline the job leaves at once
 * anyway. */
static bool is_earlier(const struct notice *n, const json_t *up)
{
	int64_t known_us = json_get_int(up, "deadline_us", SPEC_UNSET);

	return n->deadline_us != SPEC_UNSET && known_us != SPEC_UNSET &&
	       n->deadline_us < known_us - SAME_US;
}

/* Whether the agent has this notice already, from an earlier elasticd. */
static bool agent_knows(const struct notice_target *t, const struct notice *n)
{
	_cleanup_json_ json_t *job = mirror_job(&t->job->mirror);
	const json_t *up = json_get_object(job, "preemption");

	return up && !strcmp(json_get_string(up, "source", ""), n->source) &&
	       !strcmp(json_get_string(up, "reason", ""), n->reason) && !is_earlier(n, up);
}

static bool note_sent(struct notice_target *t, const struct notice *n)
{
	char key[NOTICE_TARGET_KEY_MAX];
	unsigned kept = t->n_sent < NOTICE_TARGET_SENT_MAX ? t->n_sent : NOTICE_TARGET_SENT_MAX;

	snprintf(key, sizeof(key), "%s %s", n->source, n->id);
	for (unsigned i = 0; i < kept; i++)
		if (!strcmp(t->sent[i], key))
			return false;
	memcpy(t->sent[t->n_sent++ % NOTICE_TARGET_SENT_MAX], key, sizeof(key));
	return true;
}

static void on_delivered(void *arg, const char *error, json_t *parameters)
{
	struct notice_target_delivery *e = arg;
	_cleanup_free_ char *text = NULL;

	/* A run that is ending anyway does not need the notice. */
	if (error && strcmp(error, "FailedPrecondition") != 0 && strcmp(error, "NotFound") != 0) {
		text = printable_dup(json_get_string(parameters, "message", ""));
		log_warning("job %s: did not take the notice: %s %s",
			e->notice_target->job->rec.name, error, text ? text : "");
	}
	delivery_free(e);
}

bool notice_target_notify(struct notice_target *t, const struct notice *n)
{
	const struct notice_delivery_notice what = { .source = n->source,
		.reason = n->reason,
		.grace_ms = SPEC_UNSET,
		.deadline_us = n->deadline_us };
	struct notice_target_delivery *e;
	int r;

	if (!note_sent(t, n) || agent_knows(t, n))
		return false;
	e = calloc(1, sizeof(*e));
	r = e ? 0 : -ENOMEM;
	if (e) {
		e->notice_target = t;
		LIST_INSERT_HEAD(&t->deliveries, e, link);
		r = notice_delivery_new(t->job, &what, on_delivered, e, &e->delivery);
		if (r < 0)
			delivery_free(e);
	}
	if (r < 0)
		log_error(
			"job %s: cannot be told of the notice: %s", t->job->rec.name, strerror(-r));
	return !r;
}
