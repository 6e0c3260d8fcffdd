// SPDX-License-Identifier: Apache-2.0
/*
 * Retryable failures: up to a limit for each blame they are absorbed, and the task is tried again.
 * Failures without a blame are counted for each task. Without a window they count for ever.
 */
#include "agent/queue/machine/private.h"

static struct queue_blame *blame_new(const struct queues *q, const char *text)
{
	size_t n = q->opt.blame_window_ms < 0 ? 0 : q->opt.blame_limit; /* times to remember */
	size_t len = strnlen(text, QUEUE_BLAME_TEXT_MAX);
	struct queue_blame *b;
	char *copy;

	b = calloc(1, sizeof(*b) + n * sizeof(b->at[0]) + len + 1);
	if (!b)
		return NULL;
	copy = (char *)(b->at + n);
	memcpy(copy, text, len);
	b->text = copy;
	return b;
}

static struct queue_blame *blame_find(struct queues *q, const char *text)
{
	struct queue_link *l;

	for (l = q->blames.prev; l != &q->blames; l = l->prev) {
		struct queue_blame *b = container_of(l, struct queue_blame, link);

		if (strncmp(b->text, text, QUEUE_BLAME_TEXT_MAX) == 0)
			return b;
	}
	return NULL;
}

static void blame_forget(struct queues *q, struct queue_blame *b)
{
	link_del(&b->link);
	free(b);
	q->n_blames--;
}

static struct queue_blame *blame_of_text(struct queues *q, const char *text)
{
	struct queue_blame *b = blame_find(q, text);

	if (!b) {
		b = blame_new(q, text);
		if (!b)
			return NULL;
		if (q->n_blames == QUEUE_BLAMES_MAX)
			blame_forget(q, LINK_FIRST(&q->blames, struct queue_blame, link));
		q->n_blames++;
	}
	link_del(&b->link);
	link_add(&q->blames, &b->link);
	return b;
}

static struct queue_blame *blame_of_task(struct queues *q, struct queue_task *t)
{
	struct queue_extra *x = queue_task_extra(t);

	if (x && !x->blame)
		x->blame = blame_new(q, "");
	return x ? x->blame : NULL;
}

/* Adds one. Returns how many there are now. */
static unsigned blame_count(const struct queues *q, struct queue_blame *b, uint64_t now_ms)
{
	unsigned old = 0;

	if (q->opt.blame_window_ms < 0) {
		b->n += b->n < UINT32_MAX;
		return b->n;
	}
	while (old < b->n && now_ms - b->at[old] > (uint64_t)q->opt.blame_window_ms)
		old++;
	if (old == 0 && b->n == q->opt.blame_limit)
		old = 1;
	b->n -= old;
	memmove(b->at, b->at + old, b->n * sizeof(b->at[0]));
	b->at[b->n++] = now_ms;
	return b->n;
}

int queue_absorb(struct queues *q, struct queue_task *t, const char *blame, uint64_t now_ms)
{
	struct queue_blame *b;

	if (!q->opt.blame_limit)
		return 1;
	b = blame && *blame ? blame_of_text(q, blame) : blame_of_task(q, t);
	if (!b)
		return -ENOMEM;
	return blame_count(q, b, now_ms) < q->opt.blame_limit;
}

void queue_blames_fini(struct queues *q)
{
	while (!link_empty(&q->blames))
		blame_forget(q, LINK_FIRST(&q->blames, struct queue_blame, link));
}
