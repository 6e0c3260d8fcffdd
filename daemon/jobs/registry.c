/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/jobs/registry.h"

#include "common/base/hash_chain.h"
#include "daemon/jobs/job.h"

#include <errno.h>
#include <string.h>
#include <sys/queue.h>

enum { BUCKETS = 256 };

TAILQ_HEAD(job_order, job);
TAILQ_HEAD(job_chain, job);

struct registry {
	struct job_order order;
	struct job_order active; /* in the same order; see registry_tidy() */
	struct job_chain by_run[BUCKETS];
	struct job_chain by_name[BUCKETS]; /* the newest first */
	size_t count;
};

static unsigned bucket_of(const char *key)
{
	return chain_hash(key, strlen(key)) % BUCKETS;
}

int registry_new(struct registry **ret)
{
	struct registry *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	TAILQ_INIT(&r->order);
	TAILQ_INIT(&r->active);
	for (int i = 0; i < BUCKETS; i++) {
		TAILQ_INIT(&r->by_run[i]);
		TAILQ_INIT(&r->by_name[i]);
	}
	*ret = r;
	return 0;
}

struct registry *registry_free(struct registry *r)
{
	struct job *j;

	if (!r)
		return NULL;
	while ((j = TAILQ_FIRST(&r->order))) {
		registry_remove(r, j);
		job_free(j);
	}
	free(r);
	return NULL;
}

void registry_add(struct registry *r, struct job *j)
{
	TAILQ_INSERT_TAIL(&r->order, j, in_order);
	TAILQ_INSERT_TAIL(&r->active, j, in_active);
	j->is_in_active = true;
	TAILQ_INSERT_HEAD(&r->by_run[bucket_of(j->rec.run)], j, in_runs);
	TAILQ_INSERT_HEAD(&r->by_name[bucket_of(j->rec.name)], j, in_names);
	r->count++;
}

void registry_remove(struct registry *r, struct job *j)
{
	TAILQ_REMOVE(&r->order, j, in_order);
	if (j->is_in_active)
		TAILQ_REMOVE(&r->active, j, in_active);
	j->is_in_active = false;
	TAILQ_REMOVE(&r->by_run[bucket_of(j->rec.run)], j, in_runs);
	TAILQ_REMOVE(&r->by_name[bucket_of(j->rec.name)], j, in_names);
	r->count--;
}

struct job *registry_find(
	const struct registry *r, const char *key, registry_filter_fn filter, void *arg)
{
	unsigned b = bucket_of(key);
	struct job *j;

	/* Runs first, so that a job whose name is another job's run cannot hide that run. */
	TAILQ_FOREACH (j, &r->by_run[b], in_runs)
		if (!strcmp(j->rec.run, key) && (!filter || filter(j, arg)))
			return j;
	TAILQ_FOREACH (j, &r->by_name[b], in_names)
		if (!strcmp(j->rec.name, key) && (!filter || filter(j, arg)))
			return j;
	return NULL;
}

struct job *registry_active(const struct registry *r, const char *name)
{
	struct job *j;

	TAILQ_FOREACH (j, &r->by_name[bucket_of(name)], in_names)
		if (!strcmp(j->rec.name, name) && j->life != LIFE_ENDED)
			return j;
	return NULL;
}

struct job *registry_first(const struct registry *r)
{
	return TAILQ_FIRST(&r->order);
}

struct job *registry_next(const struct job *j)
{
	return TAILQ_NEXT(j, in_order);
}

struct job *registry_first_active(const struct registry *r)
{
	return TAILQ_FIRST(&r->active);
}

struct job *registry_next_active(const struct job *j)
{
	return TAILQ_NEXT(j, in_active);
}

void registry_tidy(struct registry *r)
{
	struct job *j, *next;

	for (j = TAILQ_FIRST(&r->active); j; j = next) {
		next = TAILQ_NEXT(j, in_active);
		/* A run that was not accepted is removed soon; one that is unheard may go on. */
		if (j->life != LIFE_ENDED || !j->accepted || j->unheard)
			continue;
		TAILQ_REMOVE(&r->active, j, in_active);
		j->is_in_active = false;
	}
}

size_t registry_count(const struct registry *r)
{
	return r->count;
}

size_t registry_count_active(const struct registry *r, uid_t uid)
{
	const struct job *j;
	size_t n = 0;

	for (j = registry_first_active(r); j; j = registry_next_active(j))
		n += j->life != LIFE_ENDED && (uid == (uid_t)-1 || j->rec.uid == uid);
	return n;
}
