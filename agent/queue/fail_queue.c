/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker with on_failure fail_queue: when it fails, its state is lost to all. Coordinators get
 * the error from the queue, and leave; only then the group fails, because of the first such worker.
 */
#include "agent/queue/group_hooks_private.h"
#include "common/base/log.h"
#include "common/text/duration.h"

#include <stdio.h>

int dispatch_exit_status(const struct supervisor *sv, const struct worker *w)
{
	bool ours = w->role->on_failure == SPEC_FAILURE_QUEUE && !w->exit.error;

	return ours && supervisor_spec(sv)->queue.exit_code != SPEC_UNSET
		       ? supervisor_spec(sv)->queue.exit_code
		       : -1;
}

static void loss_text(const struct worker *w, char *text, size_t size)
{
	char how[400];

	dispatch_end_text(w, how, sizeof(how));
	snprintf(text, size, "%s %s", worker_name(w), how);
}

static void fail_queues(struct supervisor *sv, const struct worker *w, const char *what)
{
	int code = supervisor_spec(sv)->queue.exit_code;
	struct queue_error e = { STATUS_UNAVAILABLE, what, "", w->slot, -1 };

	queue_fail_all(dispatch_of(sv)->q, &e, code == SPEC_UNSET ? -1 : code, loop_now_ms());
}

/* w, with on_failure fail_queue, has failed: fails all queues, once in an attempt. */
static void dispatch_lost(struct supervisor *sv, const struct worker *w)
{
	struct dispatch_group *g = dispatch_group_of(sv);
	char what[500], grace[DURATION_TEXT_MAX];

	if (!g || g->lost)
		return;
	loss_text(w, what, sizeof(what));
	g->lost = g->await_coordinators = true;
	for (int i = 0; i < g->n_workers; i++)
		g->workers[i].told = false;
	if (!g->d->several)
		supervisor_set_reason(sv, "%s", what);
	supervisor_report(sv, LOG_WARNING, "queue-lost", w->rank, NULL,
		"%s: all of the work queue's tasks are cancelled; coordinators have %s to leave",
		what, duration_format(supervisor_spec(sv)->queue.loss_grace_ms, grace));
	fail_queues(sv, w, what);
	loop_timer_arm(g->grace, (uint64_t)supervisor_spec(sv)->queue.loss_grace_ms);
	dispatch_run_soon(g->d);
}

void dispatch_loss_repaired(struct supervisor *sv)
{
	struct dispatch_group *g = dispatch_group_of(sv);
	char what[500];

	if (!g->lost)
		return;
	queue_unfail(g->d->q, loop_now_ms());
	/* If others are still lost, the reason and the error name one of them from now on. */
	for (int i = 0; i < commons_count(g->d->commons); i++) {
		const struct worker *w = commons_at(g->d->commons, i);

		if (w->state != WORKER_FAILED || w->role->on_failure != SPEC_FAILURE_QUEUE)
			continue;
		loss_text(w, what, sizeof(what));
		if (!g->d->several)
			supervisor_set_reason(sv, "%s", what);
		fail_queues(sv, w, what);
		return;
	}
	g->lost = false;
	/* Decides about the failures that waited. */
	if (g->await_coordinators)
		loop_timer_arm(g->grace, 0);
}

void dispatch_group_told(struct dispatch *d, const struct varlink_call *call)
{
	const struct sharing_peer *p = varlink_call_user(call); /* NULL on agent.sock */
	struct dispatch_group *g = d->group;

	if (g->await_coordinators && p && p->slot >= 0 && p->slot < g->n_workers)
		g->workers[p->slot].told = true;
}

/* True while coordinators may still leave: none that got the error, and no leader, has ended. */
static bool coordinators_remain(struct dispatch_group *g)
{
	const struct commons *c = g->d->commons;
	bool any = false;

	for (int i = 0; i < commons_count(c); i++) {
		const struct worker *t = commons_at(c, i);
		const struct dispatch_worker *w = dispatch_worker_of(g, t);

		any |= worker_alive(t) && t->role->on_failure != SPEC_FAILURE_QUEUE;
		if (!worker_alive(t) && ((w && w->told) || t->role->leader))
			return false;
	}
	return any;
}

bool dispatch_decision_waits(struct supervisor *sv)
{
	struct dispatch_group *g = dispatch_group_of(sv);
	const struct commons *c = g ? g->d->commons : NULL;

	for (int i = 0; c && i < commons_count(c); i++) {
		const struct worker *w = commons_at(c, i);

		if (w->state == WORKER_FAILED && w->role->on_failure == SPEC_FAILURE_QUEUE &&
			!w->on_purpose && !w->exit.error)
			dispatch_lost(sv, w);
	}
	if (!c || !g->await_coordinators)
		return false;
	if (coordinators_remain(g) && !c->owner.on_notice(c->owner.arg))
		return true;
	g->await_coordinators = false;
	loop_timer_disarm(g->grace);
	return false;
}

void dispatch_loss_expired(void *arg)
{
	struct dispatch_group *g = arg;
	const struct commons *c = g->d->commons;

	supervisor_settle(g->d->sv);
	g->await_coordinators = false;
	c->owner.decide(c->owner.arg);
}
