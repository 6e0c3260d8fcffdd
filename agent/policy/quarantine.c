/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/policy/quarantine.h"

#include <stdlib.h>
#include <string.h>

struct quarantine_host {
	struct chain_node by_name; /* first */
	TAILQ_ENTRY(quarantine_host) link;
	int n;
	uint64_t faults_ms[QUARANTINE_FAULTS_MAX]; /* the oldest first */
	char name[];
};

void quarantine_init(struct quarantine *q, int max, uint64_t time_ms)
{
	*q = (struct quarantine){ .max = max, .time_ms = time_ms };
	TAILQ_INIT(&q->hosts);
}

static void quarantine_drop(struct quarantine *q, struct quarantine_host *h)
{
	TAILQ_REMOVE(&q->hosts, h, link);
	chain_remove(&q->by_name, &h->by_name);
	free(h);
}

void quarantine_fini(struct quarantine *q)
{
	while (q->hosts.tqh_last && !TAILQ_EMPTY(&q->hosts))
		quarantine_drop(q, TAILQ_FIRST(&q->hosts));
	chain_fini(&q->by_name);
}

static struct quarantine_host *quarantine_find(const struct quarantine *q, const char *name)
{
	struct chain_node *node = chain_first(&q->by_name, chain_hash(name, strlen(name)));

	for (; node; node = chain_next(node)) {
		struct quarantine_host *h = (struct quarantine_host *)node;

		if (!strcmp(h->name, name))
			return h;
	}
	return NULL;
}

static struct quarantine_host *quarantine_host(struct quarantine *q, const char *name)
{
	struct quarantine_host *h = quarantine_find(q, name);
	size_t len = strlen(name);

	if (h) {
		TAILQ_REMOVE(&q->hosts, h, link);
	} else {
		h = calloc(1, sizeof(*h) + len + 1);
		if (!h || chain_reserve(&q->by_name) < 0) {
			free(h);
			return NULL;
		}
		memcpy(h->name, name, len);
		chain_put(&q->by_name, &h->by_name, chain_hash(name, len));
	}
	TAILQ_INSERT_TAIL(&q->hosts, h, link);
	return h;
}

static bool quarantine_counts(const struct quarantine *q, uint64_t fault_ms, uint64_t now_ms)
{
	return now_ms < fault_ms || now_ms - fault_ms < q->time_ms;
}

static uint64_t quarantine_last(const struct quarantine_host *h)
{
	return h->faults_ms[h->n - 1];
}

static void quarantine_add(struct quarantine *q, struct quarantine_host *h, uint64_t at_ms)
{
	if (h->n == q->max) {
		h->n--;
		memmove(h->faults_ms, h->faults_ms + 1, (size_t)h->n * sizeof(h->faults_ms[0]));
	}
	h->faults_ms[h->n++] = at_ms;
}

/* Whether a fault was one too many: all of `max` within the time before the last one. */
static bool quarantine_is_over(const struct quarantine *q, const struct quarantine_host *h)
{
	return h->n == q->max && quarantine_counts(q, h->faults_ms[0], quarantine_last(h));
}

uint64_t quarantine_fault(struct quarantine *q, const char *name, uint64_t now_ms)
{
	struct quarantine_host *h;

	while ((h = TAILQ_FIRST(&q->hosts)) && !quarantine_counts(q, quarantine_last(h), now_ms))
		quarantine_drop(q, h);
	h = q->max ? quarantine_host(q, name) : NULL;
	if (!h)
		return 0;
	quarantine_add(q, h, now_ms);
	return quarantine_until(q, name, now_ms);
}

uint64_t quarantine_until(const struct quarantine *q, const char *name, uint64_t now_ms)
{
	const struct quarantine_host *h = quarantine_find(q, name);

	if (!h || !quarantine_is_over(q, h) || !quarantine_counts(q, quarantine_last(h), now_ms))
		return 0;
	return quarantine_last(h) + q->time_ms;
}

bool quarantine_forget(struct quarantine *q, const char *name, uint64_t now_ms)
{
	struct quarantine_host *h = quarantine_find(q, name);
	bool kept = quarantine_until(q, name, now_ms);

	if (h)
		quarantine_drop(q, h);
	return kept;
}

json_t *quarantine_save(const struct quarantine *q, uint64_t now_ms, uint64_t real_ms)
{
	const struct quarantine_host *h;
	json_t *list = NULL;

	TAILQ_FOREACH (h, &q->hosts, link) {
		json_t *times = json_array();

		if (!list)
			list = json_array();
		for (int i = 0; i < h->n; i++)
			json_array_append_new(times,
				json_integer((json_int_t)(real_ms - (now_ms - h->faults_ms[i]))));
		json_array_append_new(
			list, json_pack("{s:s, s:o}", "host", h->name, "faults_ms", times));
	}
	return list;
}

/* Of the same clock as now_ms. */
static uint64_t quarantine_here(uint64_t at_ms, uint64_t now_ms, uint64_t real_ms)
{
	uint64_t ago = at_ms < real_ms ? real_ms - at_ms : 0;

	return ago < now_ms ? now_ms - ago : 0;
}

void quarantine_load(struct quarantine *q, const json_t *saved, uint64_t now_ms, uint64_t real_ms)
{
	const json_t *one, *t;
	size_t i, k;

	json_array_foreach (saved, i, one) {
		const char *name = json_string_value(json_object_get(one, "host"));
		struct quarantine_host *h = NULL;

		json_array_foreach (json_object_get(one, "faults_ms"), k, t) {
			uint64_t at =
				quarantine_here((uint64_t)json_integer_value(t), now_ms, real_ms);

			if (!q->max || !name || json_integer_value(t) <= 0 ||
				!quarantine_counts(q, at, now_ms) ||
				!(h = h ? h : quarantine_host(q, name)))
				continue;
			if (h->n && at < quarantine_last(h))
				at = quarantine_last(h);
			quarantine_add(q, h, at);
		}
	}
}
