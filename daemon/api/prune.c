/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes runs one at a time for each user, since that user's files can hold a removal up. Chooses
 * the runs again when one has ended or was removed, when the configuration has changed, and when
 * the oldest becomes too old. A run whose removal failed, or was cut short by a crash, still has
 * its record, so it is chosen again; after a failure prune leaves that user's runs alone for an
 * hour.
 */
#include "daemon/api/prune.h"

#include "common/base/log.h"
#include "common/text/retention.h"
#include "daemon/api/remove.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
	PRUNE_RETRY_MS = 3600 * 1000,
	PRUNE_LONGEST_MS = 24 * 3600 * 1000,
	PRUNE_REST_MS = 1000, /* between two checks: each goes through all runs */
};

/* A user whose runs are being removed, or could not be. */
struct prune_user {
	LIST_ENTRY(prune_user) entry;
	struct prune *prune;
	uid_t uid;
	bool busy;
	uint64_t again_ms; /* for a user that is not busy: not before this time */
};

struct prune {
	struct daemon *daemon;
	struct loop_timer *timer;
	struct retention limits; /* as of the last check */
	int seen;		 /* ended runs at the last check */
	uint64_t rest_ms;	 /* no check before this time */
	LIST_HEAD(, prune_user) users;
};

static bool is_over(const struct job *j)
{
	/* A run that was not accepted yet is removed by start.c. */
	return j->life == LIFE_ENDED && j->accepted;
}

static void user_free(struct prune_user *u)
{
	LIST_REMOVE(u, entry);
	free(u);
}

static void on_removed(void *arg, int failed)
{
	struct prune_user *u = arg;

	u->busy = false;
	u->again_ms = failed ? loop_now_ms() + PRUNE_RETRY_MS : 0;
	loop_timer_arm(u->prune->timer, 0);
}

static void remove_runs(struct prune *p, uid_t uid, struct job **jobs, size_t n)
{
	struct prune_user *u = calloc(1, sizeof(*u));

	if (!u)
		return;
	*u = (struct prune_user){ .prune = p, .uid = uid, .busy = true };
	LIST_INSERT_HEAD(&p->users, u, entry);
	if (remove_prune(p->daemon, jobs, n, on_removed, u) < 0)
		on_removed(u, (int)n);
}

/* How long prune leaves the user's runs alone, in ms; UINT64_MAX while a removal runs. */
static uint64_t pause_of_user(struct prune *p, uid_t uid, uint64_t now)
{
	struct prune_user *u;

	LIST_FOREACH (u, &p->users, entry)
		if (u->uid == uid)
			break;
	if (!u)
		return 0;
	if (u->busy)
		return UINT64_MAX;
	if (now < u->again_ms)
		return u->again_ms - now;
	user_free(u);
	return 0;
}

static void log_removal(const struct prune *p, const struct job *j, enum retention_why why)
{
	char text[RETENTION_TEXT_MAX];

	log_notice("job %s (%s): removing the run%s: %s", j->rec.name, j->rec.run,
		remove_takes_logs(p->daemon, &j->rec) ? " and its logs" : "",
		retention_text(&p->limits, why, text));
}

static int by_user(const void *a, const void *b)
{
	uid_t x = (*(struct job *const *)a)->rec.uid, y = (*(struct job *const *)b)->rec.uid;

	return (x > y) - (x < y);
}

/* If the clock is set meanwhile, the check comes at most a day late. */
static uint64_t time_to(int64_t due_us)
{
	int64_t left = (due_us - (int64_t)loop_real_us()) / 1000 + 1;

	if (due_us == INT64_MAX)
		return UINT64_MAX;
	return left < 0 ? 0 : left > PRUNE_LONGEST_MS ? PRUNE_LONGEST_MS : (uint64_t)left;
}

/* Starts to remove those of one user's n ended runs that are over the limits. Returns when to check
 * again, in ms. */
static uint64_t remove_excess(struct prune *p, struct job **jobs, size_t n)
{
	_cleanup_free_ struct retention_run *runs = calloc(n, sizeof(*runs));
	_cleanup_free_ struct job **gone = calloc(n, sizeof(*gone));
	size_t n_gone = 0;
	int64_t due;

	if (!runs || !gone)
		return PRUNE_RETRY_MS;
	for (size_t i = 0; i < n; i++) {
		const struct job *j = jobs[i];

		runs[i] = (struct retention_run){ .arg = jobs[i],
			.ended_us = j->mirror.ended_us ? j->mirror.ended_us : j->rec.created_us,
			.bytes = remove_takes_logs(p->daemon, &j->rec) ? j->mirror.log_bytes : 0 };
	}
	due = retention_choose(&p->limits, runs, n, (int64_t)loop_real_us());
	for (size_t i = 0; i < n; i++) {
		if (runs[i].why == RETENTION_KEEP)
			continue;
		log_removal(p, runs[i].arg, runs[i].why);
		gone[n_gone++] = runs[i].arg;
	}
	if (n_gone)
		remove_runs(p, gone[0]->rec.uid, gone, n_gone);
	return time_to(due);
}

static void prune_now(struct prune *p)
{
	size_t total = registry_count(p->daemon->registry), n = 0;
	_cleanup_free_ struct job **jobs = calloc(total + 1, sizeof(*jobs));
	uint64_t now = loop_now_ms(), soonest = jobs ? UINT64_MAX : PRUNE_RETRY_MS;

	for (struct job *j = registry_first(p->daemon->registry); jobs && j; j = registry_next(j))
		if (is_over(j))
			jobs[n++] = j;
	if (n)
		qsort(jobs, n, sizeof(*jobs), by_user);
	for (size_t i = 0, end; i < n; i = end) {
		uid_t uid = jobs[i]->rec.uid;
		uint64_t wait = pause_of_user(p, uid, now);

		for (end = i; end < n && jobs[end]->rec.uid == uid; end++)
			;
		if (!wait)
			wait = remove_excess(p, jobs + i, end - i);
		soonest = wait < soonest ? wait : soonest;
	}
	if (soonest == UINT64_MAX)
		loop_timer_disarm(p->timer);
	else
		loop_timer_arm(p->timer, soonest);
}

static void on_timer(void *arg)
{
	struct prune *p = arg;

	p->seen = -1;
	p->rest_ms = 0;
	prune_update(p);
}

static int count_over(const struct registry *r)
{
	int n = (int)registry_count(r);

	for (struct job *j = registry_first_active(r); j; j = registry_next_active(j))
		n -= !is_over(j);
	return n;
}

void prune_update(struct prune *p)
{
	const struct config *c = &p->daemon->config;
	const struct retention limits = { c->keep_runs, c->keep_days, c->keep_bytes };
	struct prune_user *u;
	int n = count_over(p->daemon->registry);
	uint64_t now = loop_now_ms();

	if (memcmp(&limits, &p->limits, sizeof(limits)) != 0) {
		LIST_FOREACH (u, &p->users, entry)
			u->again_ms = 0;
		p->rest_ms = 0;
	} else if (n == p->seen) {
		return;
	}
	if (now < p->rest_ms) {
		loop_timer_arm(p->timer, p->rest_ms - now);
		return;
	}
	p->rest_ms = now + PRUNE_REST_MS;
	p->seen = n;
	p->limits = limits;
	prune_now(p);
}

int prune_new(struct daemon *d, struct prune **ret)
{
	struct prune *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return -ENOMEM;
	*p = (struct prune){ .daemon = d, .seen = -1 };
	r = loop_timer_new(d->loop, on_timer, p, &p->timer);
	if (r < 0) {
		free(p);
		return r;
	}
	*ret = p;
	return 0;
}

struct prune *prune_free(struct prune *p)
{
	if (!p)
		return NULL;
	while (!LIST_EMPTY(&p->users))
		user_free(LIST_FIRST(&p->users));
	loop_timer_free(p->timer);
	free(p);
	return NULL;
}
