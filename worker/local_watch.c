/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The newest changes, at most CHANGES of them and CHANGES_BYTES of values, in a ring that all
 * watches read: a watch is the revision that it has come to. One that falls behind has a gap.
 */
#include "worker/local.h"

#include <string.h>

enum { CHANGES = 8192, CHANGES_BYTES = 64 << 20 };

struct local_change {
	char *key;
	struct local_value *value; /* NULL: deleted */
	int64_t revision;
};

static struct local_change *changes; /* a ring of CHANGES, made at the first change */
static size_t first, n_changes, bytes;
static int64_t forgotten; /* the newest revision that is not in the ring */

struct local_watch {
	struct elasticd *h;
	char *key;
	int64_t since;
};

static struct local_change *change_at(size_t i)
{
	return &changes[(first + i) % CHANGES];
}

static void forget_first(void)
{
	struct local_change *c = change_at(0);

	forgotten = c->revision;
	if (c->value)
		bytes -= c->value->len;
	local_value_unref(c->value);
	free(c->key);
	first = (first + 1) % CHANGES;
	n_changes--;
}

void local_change(const char *key, struct local_value *value, int64_t revision)
{
	char *copy = strdup(key);

	if (!changes)
		changes = calloc(CHANGES, sizeof(*changes));
	if (!changes || !copy) {
		free(copy);
		while (n_changes)
			forget_first();
		forgotten = revision;
		return;
	}
	bytes += value ? value->len : 0;
	while (n_changes == CHANGES || (n_changes && bytes > CHANGES_BYTES))
		forget_first();
	*change_at(n_changes++) = (struct local_change){
		.key = copy, .value = value ? local_value_ref(value) : NULL, .revision = revision
	};
}

/* With the lock. */
static int watch_remembers(const struct local_watch *w)
{
	return w->since >= forgotten ? 0
				     : fail(ELASTICD_OUT_OF_RANGE,
					       "the changes after revision %lld are forgotten",
					       (long long)w->since);
}

int local_watch_open(struct elasticd *h, const char *key, int64_t since, void **ret)
{
	struct local_watch *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return fail_memory();
	w->h = h;
	w->key = strdup(key);
	r = w->key ? local_enter(h) : fail_memory();
	if (!r) {
		w->since = since < 0 ? local_revision() : since;
		r = watch_remembers(w);
		local_unlock();
	}
	if (r)
		local_watch_close(w);
	else
		*ret = w;
	return r;
}

void local_watch_close(void *stream)
{
	struct local_watch *w = stream;

	free(w->key);
	free(w);
}

/* The first change after the watch's revision that is its business. */
static const struct local_change *watch_find(struct local_watch *w)
{
	size_t low = 0, high = n_changes;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (change_at(middle)->revision <= w->since)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < n_changes; low++) {
		const struct local_change *c = change_at(low);

		if (local_covers(w->key, c->key))
			return c;
		w->since = c->revision;
	}
	return NULL;
}

static int change_return(const struct local_change *c, struct elasticd_entry **ret)
{
	struct elasticd_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return fail_memory();
	e->key = strdup(c->key);
	e->value = c->value ? local_value_copy(c->value) : NULL;
	e->len = c->value ? c->value->len : 0;
	e->revision = c->revision;
	if (!e->key || (c->value && !e->value)) {
		elasticd_entries_free(e, 1);
		return fail_memory();
	}
	*ret = e;
	return 0;
}

static int watch_step(
	struct local_watch *w, struct local_wait *wait, int64_t end, struct elasticd_entry **ret)
{
	const struct local_change *c;
	int r;

	for (;;) {
		r = watch_remembers(w);
		if (r)
			return r;
		c = watch_find(w);
		if (c)
			break;
		r = local_wait_next(wait, end);
		if (r)
			return r;
	}
	r = change_return(c, ret);
	if (r == 0)
		w->since = c->revision;
	return r;
}

int local_watch_next(void *stream, int timeout_ms, struct elasticd_entry **ret)
{
	struct local_watch *w = stream;
	struct local_wait wait;
	int r = local_enter(w->h);

	if (r)
		return r;
	local_wait_begin(&wait, w->h);
	r = watch_step(w, &wait, clock_end(timeout_ms), ret);
	local_wait_end(&wait);
	local_unlock();
	return r;
}
