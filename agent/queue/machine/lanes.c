// SPDX-License-Identifier: Apache-2.0
/* Queues by name, the sets of resources that tasks need, and lanes: the tasks of one queue with the
 * same set. */
#include "agent/queue/machine/private.h"
#include "common/base/array.h"

struct queue *queue_find(const struct queues *q, const char *name)
{
	struct chain_node *n = chain_first(&q->by_name, chain_hash(name, strlen(name)));

	for (; n; n = chain_next(n)) {
		struct queue *of = container_of(n, struct queue, by_name);

		if (strcmp(of->name, name) == 0)
			return of;
	}
	return NULL;
}

static size_t n_tasks(const struct queue *of)
{
	size_t n = 0;

	for (int i = 0; i < QUEUE_N_STATES; i++)
		n += of->n[i];
	return n;
}

/* True when only a loss, or the count of tasks put back, is left. */
static bool queue_is_empty(const struct queue *of)
{
	return !n_tasks(of) && !of->keepers && link_empty(&of->waits) && !of->error;
}

static void queue_free(struct queues *q, struct queue *of)
{
	while (!link_empty(&of->lanes))
		queue_lane_put(q, LINK_FIRST(&of->lanes, struct queue_lane, link));
	chain_remove(&q->by_name, &of->by_name);
	link_del(&of->all);
	link_del(&of->changed);
	queue_err_unref(of->error);
	queue_err_unref(of->loss);
	free(of);
}

void queue_forget(struct queues *q, struct queue *of)
{
	if (queue_is_empty(of) && !of->loss && !of->put_back)
		queue_free(q, of);
}

/* Makes room by freeing the oldest queue that has only a loss or a count left; counts go first. */
static void queues_make_room(struct queues *q)
{
	struct queue *oldest = NULL;

	for (struct queue_link *l = q->all.next; l != &q->all; l = l->next) {
		struct queue *of = container_of(l, struct queue, all);

		if ((of->loss || of->put_back) && queue_is_empty(of) &&
			(!oldest || of->loss_order < oldest->loss_order))
			oldest = of;
	}
	if (!oldest)
		return;
	queue_loss_told(q, oldest);
	queue_free(q, oldest);
}

struct queue *queue_get(struct queues *q, const char *name, enum status *ret)
{
	struct queue *of = queue_find(q, name);

	*ret = STATUS_OK;
	if (of)
		return of;
	if (q->by_name.n >= QUEUE_QUEUES_MAX)
		queues_make_room(q);
	of = q->by_name.n < QUEUE_QUEUES_MAX && chain_reserve(&q->by_name) == 0
		     ? calloc(1, sizeof(*of))
		     : NULL;
	if (!of) {
		*ret = STATUS_RESOURCE_EXHAUSTED;
		return NULL;
	}
	link_init(&of->lanes);
	link_init(&of->leases);
	link_init(&of->waits);
	memcpy(of->name, name, strlen(name) + 1);
	chain_put(&q->by_name, &of->by_name, chain_hash(name, strlen(name)));
	link_add(&q->all, &of->all);
	return of;
}

void queue_changed(struct queues *q, struct queue *of)
{
	if (!link_in(&of->changed))
		link_add(&q->changed, &of->changed);
}

/* --- sets */

static struct queue_set *set_new(struct queues *q, uint64_t mask)
{
	struct queue_set *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->mask = mask;
	for (int i = 0; i < QUEUE_RESOURCES_MAX; i++)
		if (mask >> i & 1) {
			s->names[s->n] = q->resources[i]->name;
			s->needs[s->n++] = q->resources[i];
			q->resources[i]->refs++;
		}
	s->next = q->sets;
	q->sets = s;
	/* All workers may have failed to build some of it before any task needed the whole set. */
	q->hopeless_due = true;
	return s;
}

static void set_free(struct queues *q, struct queue_set *s)
{
	struct queue_set **at = &q->sets;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	for (size_t i = 0; i < s->n; i++)
		queue_resource_unref(s->needs[i]);
	free(s->heap.nodes);
	free(s);
}

enum status queue_set_find(struct queues *q, const char *const *needs, size_t n,
	struct queue_set **ret, const char **ret_which)
{
	uint64_t mask = 0;
	struct queue_set *s = q->sets;

	for (size_t i = 0; i < n; i++) {
		const struct queue_resource *r = queue_resource_find(q, needs[i]);

		if (!r) {
			*ret_which = needs[i];
			return STATUS_NOT_FOUND;
		}
		mask |= UINT64_C(1) << r->bit;
	}
	while (s && (s->mask != mask || s->dropped))
		s = s->next;
	if (!s)
		s = set_new(q, mask);
	*ret = s;
	return s ? STATUS_OK : STATUS_RESOURCE_EXHAUSTED;
}

void queue_set_drop(struct queues *q, struct queue_set *s)
{
	if (!s->n_lanes && s->mask)
		set_free(q, s);
}

/* --- lanes */

/* Finds a free number, from the last one given on. */
static int lane_free_number(struct queues *q, size_t *ret)
{
	size_t old = q->cap_lanes;

	if (q->n_lanes == QUEUE_LANES_MAX || array_reserve((void **)&q->lanes, &q->cap_lanes,
						     q->n_lanes + 1, sizeof(void *)) < 0)
		return -ENOMEM;
	memset(q->lanes + old, 0, (q->cap_lanes - old) * sizeof(*q->lanes));
	while (q->lanes[q->free_lane % q->cap_lanes])
		q->free_lane++;
	*ret = q->free_lane++ % q->cap_lanes;
	return 0;
}

struct queue_lane *queue_lane_get(struct queues *q, struct queue *of, struct queue_set *set)
{
	struct queue_link *l, *tmp;
	struct queue_lane *n;
	size_t at;

	LINK_FOREACH(l, tmp, &of->lanes)
	{
		n = container_of(l, struct queue_lane, link);
		if (n->set == set) {
			/* Makes the next search faster. */
			if (of->lanes.next != l) {
				link_del(l);
				link_add_first(&of->lanes, l);
			}
			return n;
		}
	}
	n = lane_free_number(q, &at) == 0 ? calloc(1, sizeof(*n)) : NULL;
	if (!n || queue_heap_reserve(&set->heap) < 0) {
		free(n);
		return NULL;
	}
	n->of = of;
	n->set = set;
	n->number = (uint16_t)at;
	q->lanes[at] = n;
	q->n_lanes++;
	set->n_lanes++;
	link_add(&of->lanes, &n->link);
	return n;
}

void queue_lane_put(struct queues *q, struct queue_lane *l)
{
	struct queue_set *s = l->set;

	if (l->n)
		return;
	link_del(&l->link);
	q->lanes[l->number] = NULL;
	q->n_lanes--;
	s->n_lanes--;
	queue_heap_unreserve(&s->heap);
	free(l);
	queue_set_drop(q, s);
}

void queue_lane_moved(struct queue_lane *l)
{
	queue_heap_set(
		&l->set->heap, &l->by_first, l->queued.first ? l->queued.first->seq : UINT64_MAX);
}

struct queue_task *queue_set_first(const struct queue_set *s)
{
	struct queue_heap_node *first = queue_heap_first(&s->heap);

	return first ? container_of(first, struct queue_lane, by_first)->queued.first : NULL;
}

void queue_names_fini(struct queues *q)
{
	while (!link_empty(&q->all))
		queue_free(q, LINK_FIRST(&q->all, struct queue, all));
	while (q->sets)
		set_free(q, q->sets);
	chain_fini(&q->by_name);
	free(q->lanes);
}
