/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One removal at a time. The runs of each user are chosen anew where one has ended or was removed,
 * where the configuration has changed, and when the oldest becomes too old. A run whose removal
 * failed, or was cut short by a crash, still has its record, so it is chosen again.
 */
#include "daemon/prune.h"

#include "common/keep.h"
#include "common/log.h"
#include "daemon/remove.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PRUNE_RETRY_MS = 3600 * 1000, PRUNE_LONGEST_MS = 24 * 3600 * 1000 };

struct prune {
	struct daemon *daemon;
	struct loop_timer *timer;
	struct keep limits; /* as of the last look */
	int seen;	    /* ended runs then */
	bool busy;	    /* a removal is under way */
};

static bool is_over(const struct job *j)
{
	/* One that is not accepted yet is its starter's to forget. */
	return j->life == LIFE_ENDED && j->accepted;
}

static void on_removed(void *arg, int failed)
{
	struct prune *p = arg;

	p->busy = false;
	/* What could not be removed is not tried again at each change, but later. */
	loop_timer_arm(p->timer, failed ? PRUNE_RETRY_MS : 0);
}

/* Takes jobs. */
static void begin(struct prune *p, struct job **jobs, size_t n)
{
	if (n > 0) {
		p->busy = true;
		if (remove_prune(p->daemon, jobs, n, on_removed, p) < 0) {
			p->busy = false;
			loop_timer_arm(p->timer, PRUNE_RETRY_MS);
		}
	}
	free(jobs);
}

static void tell(const struct prune *p, const struct job *j, enum keep_why why)
{
	char text[KEEP_TEXT_MAX];

	log_notice("job %s (%s): removing the run%s: %s", j->rec.name, j->rec.run,
		remove_takes_logs(p->daemon, &j->rec) ? " and its logs" : "",
		keep_text(&p->limits, why, text));
}

static int by_user(const void *a, const void *b)
{
	uid_t x = (*(struct job *const *)a)->rec.uid, y = (*(struct job *const *)b)->rec.uid;

	return (x > y) - (x < y);
}

/* Of one user's n ended runs, adds those that go to gone. Returns when the next is due. */
static int64_t choose(
	struct prune *p, struct job **jobs, size_t n, struct job **gone, size_t *n_gone)
{
	_cleanup_free_ struct keep_run *runs = calloc(n, sizeof(*runs));
	int64_t due;

	if (!runs)
		return INT64_MAX;
	for (size_t i = 0; i < n; i++) {
		const struct job *j = jobs[i];

		runs[i] = (struct keep_run){ .arg = jobs[i],
			.ended_us = j->mirror.ended_us ? j->mirror.ended_us : j->rec.created_us,
			.bytes = remove_takes_logs(p->daemon, &j->rec) ? j->mirror.log_bytes : 0 };
	}
	due = keep_choose(&p->limits, runs, n, (int64_t)loop_real_us());
	for (size_t i = 0; i < n; i++) {
		if (runs[i].why == KEEP_IT)
			continue;
		tell(p, runs[i].arg, runs[i].why);
		gone[(*n_gone)++] = runs[i].arg;
	}
	return due;
}

static void look(struct prune *p)
{
	size_t total = registry_count(p->daemon->registry), n = 0, n_gone = 0;
	_cleanup_free_ struct job **jobs = calloc(total + 1, sizeof(*jobs));
	struct job **gone = calloc(total + 1, sizeof(*gone));
	int64_t due = INT64_MAX, left;

	if (!jobs || !gone) {
		free(gone);
		loop_timer_arm(p->timer, PRUNE_RETRY_MS);
		return;
	}
	for (struct job *j = registry_first(p->daemon->registry); j; j = registry_next(j))
		if (is_over(j))
			jobs[n++] = j;
	qsort(jobs, n, sizeof(*jobs), by_user);
	for (size_t i = 0, end; i < n; i = end) {
		int64_t at;

		for (end = i; end < n && jobs[end]->rec.uid == jobs[i]->rec.uid; end++)
			;
		at = choose(p, jobs + i, end - i, gone, &n_gone);
		due = at < due ? at : due;
	}
	if (due == INT64_MAX) {
		loop_timer_disarm(p->timer);
	} else {
		/* A clock that is set meanwhile costs a day at most. */
		left = (due - (int64_t)loop_real_us()) / 1000 + 1;
		loop_timer_arm(p->timer, left < 0		   ? 0
					 : left > PRUNE_LONGEST_MS ? PRUNE_LONGEST_MS
								   : (uint64_t)left);
	}
	begin(p, gone, n_gone);
}

static void on_timer(void *arg)
{
	struct prune *p = arg;

	p->seen = -1;
	prune_update(p);
}

void prune_update(struct prune *p)
{
	const struct config *c = &p->daemon->config;
	const struct keep limits = { c->keep_runs, c->keep_days, c->keep_bytes };
	int n = 0;

	if (p->busy)
		return;
	for (struct job *j = registry_first(p->daemon->registry); j; j = registry_next(j))
		n += is_over(j);
	if (n == p->seen && limits.runs == p->limits.runs && limits.days == p->limits.days &&
		limits.bytes == p->limits.bytes)
		return;
	p->seen = n;
	p->limits = limits;
	look(p);
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
	loop_timer_free(p->timer);
	free(p);
	return NULL;
}
