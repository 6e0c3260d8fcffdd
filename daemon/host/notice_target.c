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

struct listener_delivery {
	LIST_ENTRY(listener_delivery) link;
	struct listener *listener;
	struct notice_delivery *delivery;
};

static void delivery_free(struct listener_delivery *e)
{
	LIST_REMOVE(e, link);
	notice_delivery_free(e->delivery);
	free(e);
}

struct listener *listener_free(struct listener *l)
{
	if (!l)
		return NULL;
	while (!LIST_EMPTY(&l->deliveries))
		delivery_free(LIST_FIRST(&l->deliveries));
	job_unwatch(l->job, &l->watch);
	l->job->listening = false;
	free(l);
	return NULL;
}

static void on_news(void *arg, struct job *j, enum job_news news)
{
	struct listener *l = arg;

	if (news == JOB_ATTACHED && !l->ready) {
		l->ready = true;
		l->attached(l->arg, l);
	} else if (news == JOB_ENDED || news == JOB_GONE || news == JOB_START_FAILED) {
		l->ended(l->arg, l);
	}
}

int listener_new(
	struct job *j, listener_fn attached, listener_fn ended, void *arg, struct listener **ret)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	*l = (struct listener){ .job = j,
		.ready = j->life == LIFE_LINKED,
		.attached = attached,
		.ended = ended,
		.arg = arg };
	LIST_INIT(&l->deliveries);
	j->listening = true;
	job_watch(j, &l->watch, on_news, l);
	*ret = l;
	return 0;
}

bool listener_wants(const struct listener *l, const char *source, const char *platform)
{
	unsigned wants = l->job->rec.notices;

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
static bool agent_knows(const struct listener *l, const struct notice *n)
{
	_cleanup_json_ json_t *job = mirror_job(&l->job->mirror);
	const json_t *up = json_get_object(job, "preemption");

	return up && !strcmp(json_get_string(up, "source", ""), n->source) &&
	       !strcmp(json_get_string(up, "reason", ""), n->reason) && !is_earlier(n, up);
}

static bool note_sent(struct listener *l, const struct notice *n)
{
	char key[LISTENER_KEY_MAX];
	unsigned kept = l->n_sent < LISTENER_SENT_MAX ? l->n_sent : LISTENER_SENT_MAX;

	snprintf(key, sizeof(key), "%s %s", n->source, n->id);
	for (unsigned i = 0; i < kept; i++)
		if (!strcmp(l->sent[i], key))
			return false;
	memcpy(l->sent[l->n_sent++ % LISTENER_SENT_MAX], key, sizeof(key));
	return true;
}

static void on_delivered(void *arg, const char *error, json_t *parameters)
{
	struct listener_delivery *e = arg;
	_cleanup_free_ char *text = NULL;

	/* A run that is ending anyway does not need the notice. */
	if (error && strcmp(error, "FailedPrecondition") != 0 && strcmp(error, "NotFound") != 0) {
		text = printable_dup(json_get_string(parameters, "message", ""));
		log_warning("job %s: did not take the notice: %s %s", e->listener->job->rec.name,
			error, text ? text : "");
	}
	delivery_free(e);
}

bool listener_notify(struct listener *l, const struct notice *n)
{
	const struct notice_delivery_notice what = { .source = n->source,
		.reason = n->reason,
		.grace_ms = SPEC_UNSET,
		.deadline_us = n->deadline_us };
	struct listener_delivery *e;
	int r;

	if (!note_sent(l, n) || agent_knows(l, n))
		return false;
	e = calloc(1, sizeof(*e));
	r = e ? 0 : -ENOMEM;
	if (e) {
		e->listener = l;
		LIST_INSERT_HEAD(&l->deliveries, e, link);
		r = notice_delivery_new(l->job, &what, on_delivered, e, &e->delivery);
		if (r < 0)
			delivery_free(e);
	}
	if (r < 0)
		log_error(
			"job %s: cannot be told of the notice: %s", l->job->rec.name, strerror(-r));
	return !r;
}
