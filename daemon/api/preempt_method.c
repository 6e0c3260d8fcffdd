/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/preempt_method.h"

#include "common/base/log.h"
#include "common/base/printable.h"
#include "common/notice/notice.h"
#include "common/text/json.h"
#include "common/varlink/manager_error.h"
#include "daemon/api/methods.h"
#include "daemon/host/notice_delivery.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>

enum { ALL_MS = 10000 }; /* the longest that one silent agent delays the answer */

struct preempt;

struct delivery {
	LIST_ENTRY(delivery) link;
	struct preempt *preempt;
	struct notice_delivery *delivery;
	char *name, *run;
};

/* One Preempt call that has not been answered. */
struct preempt {
	LIST_ENTRY(preempt) link;
	struct preempts *preempts;
	struct varlink_call *call; /* NULL: the caller has gone, or was answered */
	struct loop_timer *limit;
	json_t *runs; /* runs whose agents took the notice */
	bool one;     /* one job was named: its refusal is the answer */
	LIST_HEAD(, delivery) deliveries;
};

struct preempts {
	struct daemon *daemon;
	LIST_HEAD(, preempt) open;
};

int preempts_new(struct daemon *d, struct preempts **ret)
{
	struct preempts *p = calloc(1, sizeof(*p));

	if (!p)
		return -ENOMEM;
	p->daemon = d;
	LIST_INIT(&p->open);
	*ret = p;
	return 0;
}

static void delivery_free(struct delivery *e)
{
	LIST_REMOVE(e, link);
	notice_delivery_free(e->delivery);
	free(e->name);
	free(e->run);
	free(e);
}

static void preempt_free(struct preempt *p)
{
	while (!LIST_EMPTY(&p->deliveries))
		delivery_free(LIST_FIRST(&p->deliveries));
	LIST_REMOVE(p, link);
	loop_timer_free(p->limit);
	json_decref(p->runs);
	free(p);
}

struct preempts *preempts_free(struct preempts *p)
{
	if (!p)
		return NULL;
	while (!LIST_EMPTY(&p->open))
		preempt_free(LIST_FIRST(&p->open));
	free(p);
	return NULL;
}

static void on_gone(void *arg)
{
	struct preempt *p = arg;

	p->call = NULL;
}

/* Answers the caller when all agents have answered, and frees p. */
static void answer_finished(struct preempt *p)
{
	struct varlink_call *call = p->call;
	json_t *runs = json_incref(p->runs);

	preempt_free(p);
	if (call)
		varlink_reply(call, json_pack("{s:o}", "runs", runs));
	else
		json_decref(runs);
}

/* Agents that have not answered yet still get the notice when they can. */
static void on_limit(void *arg)
{
	struct preempt *p = arg;
	struct varlink_call *call = p->call;
	json_t *waiting = json_array();
	const struct delivery *e;

	if (!call) {
		json_decref(waiting);
		return;
	}
	LIST_FOREACH (e, &p->deliveries, link) {
		log_warning("job %s: its agent has not taken the notice yet", e->name);
		(void)!json_add(waiting, json_string(e->name));
	}
	p->call = NULL;
	varlink_reply(call, json_pack("{s:O, s:o}", "runs", p->runs, "waiting", waiting));
}

static void answer_refused(struct preempt *p, const char *error, json_t *parameters)
{
	struct varlink_call *call = p->call;

	preempt_free(p);
	if (call)
		varlink_error(call, error, json_incref(parameters));
}

static void on_delivered(void *arg, const char *error, json_t *parameters)
{
	struct delivery *e = arg;
	struct preempt *p = e->preempt;

	if (error && p->one) {
		answer_refused(p, error, parameters);
		return;
	}
	if (error && strcmp(error, "FailedPrecondition") != 0 && strcmp(error, "NotFound") != 0) {
		_cleanup_free_ char *text =
			printable_dup(json_get_string(parameters, "message", ""));

		log_warning(
			"job %s: did not take the notice: %s %s", e->name, error, text ? text : "");
	} else if (!error && json_add(p->runs, json_string(e->run)) < 0) {
		log_warning("job %s: took the notice; out of memory to say so", e->name);
	}
	delivery_free(e);
	if (LIST_EMPTY(&p->deliveries))
		answer_finished(p);
}

static int add_job(struct preempt *p, struct job *j, const struct notice_delivery_notice *n)
{
	struct delivery *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->preempt = p;
	LIST_INSERT_HEAD(&p->deliveries, e, link);
	e->name = strdup(j->rec.name);
	e->run = strdup(j->rec.run);
	return e->name && e->run ? notice_delivery_new(j, n, on_delivered, e, &e->delivery)
				 : -ENOMEM;
}

static int add_all(struct preempt *p, const struct notice_delivery_notice *n)
{
	struct daemon *d = p->preempts->daemon;
	enum access_level level = methods_level(d, p->call);
	uid_t uid = varlink_call_peer(p->call)->uid;
	int r = 0;

	for (struct job *j = registry_first_active(d->registry); j && !r;
		j = registry_next_active(j))
		if (!job_is_over(j) && access_job(level, uid, j->rec.uid))
			r = add_job(p, j, n);
	return r;
}

/* Only callers who may end the host may name another source of the notice. */
static bool may_name_source(const struct varlink_call *call, const char *source)
{
	uid_t uid = varlink_call_peer(call)->uid;

	return !strcmp(source, "operator") || uid == 0 || uid == geteuid();
}

static void log_asked(
	struct varlink_call *call, const char *name, const struct notice_delivery_notice *n)
{
	const struct varlink_peer *peer = varlink_call_peer(call);
	_cleanup_free_ char *reason = n->reason ? printable_dup(n->reason) : NULL;

	log_notice("%s: notice of preemption by uid %u (pid %d)%s%.200s", name, (unsigned)peer->uid,
		(int)peer->pid, reason && *reason ? ": " : "", reason ? reason : "");
}

static int preempt_start(struct daemon *d, struct varlink_call *call, struct job *j,
	const struct notice_delivery_notice *n)
{
	struct preempt *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	p->preempts = d->preempts;
	p->call = call;
	p->one = j != NULL;
	LIST_INIT(&p->deliveries);
	LIST_INSERT_HEAD(&d->preempts->open, p, link);
	p->runs = json_array();
	r = p->runs ? loop_timer_new(d->loop, on_limit, p, &p->limit) : -ENOMEM;
	if (!r)
		r = j ? add_job(p, j, n) : add_all(p, n);
	if (r < 0) {
		preempt_free(p);
		return r;
	}
	if (LIST_EMPTY(&p->deliveries)) {
		answer_finished(p);
		return 0;
	}
	varlink_call_on_gone(call, on_gone, p);
	if (!j)
		loop_timer_arm(p->limit, ALL_MS);
	return 0;
}

int preempt_begin(struct daemon *d, struct varlink_call *call, const json_t *params)
{
	const struct notice_delivery_notice n = {
		.source = json_get_string(params, "source", "operator"),
		.reason = json_get_string(params, "reason", NULL),
		.grace_ms = json_get_int(params, "grace_ms", SPEC_UNSET),
		.deadline_us = json_get_int(params, "deadline_us", SPEC_UNSET),
	};
	struct job *j = NULL;

	if (!notice_source_is_known(n.source))
		return varlink_error_parameter(call, "source");
	if (!may_name_source(call, n.source))
		return varlink_error(call, "PermissionDenied",
			json_pack("{s:s}", "message",
				"only root and the daemon's own user may name another source "
				"than \"operator\""));
	if (json_get_string(params, "job", NULL)) {
		j = methods_job(d, call, params);
		if (!j)
			return 0;
		if (job_is_over(j))
			return methods_not_active(call, j);
	}
	log_asked(call, j ? j->rec.name : "all jobs", &n);
	return preempt_start(d, call, j, &n);
}
