/* SPDX-License-Identifier: Apache-2.0 */
/* The store: an array sorted by key, so that all below a key lie side by side. */
#include "worker/local.h"

#include <string.h>

struct local_item {
	char *key;
	struct local_value *value;
	int64_t revision;
	bool persistent;
};

static struct local_item *items;
static size_t n_items, items_room;
static int64_t revision;

int64_t local_revision(void)
{
	return revision;
}

/* Where key is, or would be. */
static size_t item_find(const char *key, bool *ret_there)
{
	size_t low = 0, high = n_items;

	*ret_there = false;
	while (low < high && !*ret_there) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(items[middle].key, key);

		*ret_there = order == 0;
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
		if (*ret_there)
			low = middle;
	}
	return low;
}

static bool item_insert(size_t at, char *key)
{
	if (n_items == items_room) {
		size_t room = items_room ? 2 * items_room : 64;
		struct local_item *grown = realloc(items, room * sizeof(*items));

		if (!grown)
			return false;
		items = grown;
		items_room = room;
	}
	memmove(items + at + 1, items + at, (n_items - at) * sizeof(*items));
	items[at] = (struct local_item){ .key = key };
	n_items++;
	return true;
}

/* Those who wait for it have it, whatever becomes of it until they run. */
static void item_tell(const struct local_item *item)
{
	struct local_wait *w;

	for (w = local_first_wait(); w; w = TAILQ_NEXT(w, entry))
		if (w->key && !w->value && strcmp(w->key, item->key) == 0)
			w->value = local_value_ref(item->value);
}

static int item_write(size_t at, struct local_value *value, bool persistent)
{
	struct local_item *item = &items[at];

	local_value_unref(item->value);
	item->value = value;
	item->persistent = persistent;
	item->revision = ++revision;
	local_change(item->key, value, item->revision);
	item_tell(item);
	local_wake();
	return 0;
}

static int put_locked(const char *key, struct local_value *value, int flags)
{
	bool there;
	size_t at = item_find(key, &there);
	char *copy;

	if (there && !(flags & ELASTICD_OVERWRITE))
		return fail(ELASTICD_ALREADY_EXISTS, "key %s is there already", key);
	if (there && items[at].persistent != !!(flags & ELASTICD_PERSISTENT))
		return fail(ELASTICD_FAILED_PRECONDITION, "key %s is there already and %s", key,
			items[at].persistent ? "persistent" : "not persistent");
	copy = there ? NULL : strdup(key);
	if (!there && (!copy || !item_insert(at, copy))) {
		free(copy);
		return fail_memory();
	}
	return item_write(at, local_value_ref(value), flags & ELASTICD_PERSISTENT);
}

int local_put(struct elasticd *h, const char *key, const void *value, size_t len, int flags)
{
	struct local_value *v = local_value_new(value, len);
	int r;

	if (!v)
		return fail_memory();
	r = local_enter(h);
	if (r) {
		local_value_unref(v);
		return r;
	}
	r = put_locked(key, v, flags);
	local_value_unref(v);
	local_unlock();
	return r;
}

/* Waits until key is there; w->value is then what was put. */
static int get_wait(struct elasticd *h, const char *key, int timeout_ms, struct local_wait *w)
{
	int64_t end = clock_end(timeout_ms);
	int r = 0;

	local_wait_begin(w, h);
	w->key = key;
	while (!w->value && !r)
		r = local_wait_next(w, end);
	/* It came with the last moment. */
	return w->value ? 0 : r;
}

static int value_return(const struct local_value *v, void **ret, size_t *ret_len)
{
	void *copy = local_value_copy(v);

	if (!copy)
		return fail_memory();
	*ret = copy;
	*ret_len = v->len;
	return 0;
}

int local_get(struct elasticd *h, const char *key, int timeout_ms, void **ret, size_t *ret_len)
{
	struct local_wait w;
	bool there;
	size_t at;
	int r = local_enter(h);

	if (r)
		return r;
	at = item_find(key, &there);
	if (there) {
		r = value_return(items[at].value, ret, ret_len);
	} else if (timeout_ms == 0) {
		r = fail(ELASTICD_NOT_FOUND, "key %s is not there", key);
	} else {
		r = get_wait(h, key, timeout_ms, &w);
		if (r == 0)
			r = value_return(w.value, ret, ret_len);
		local_wait_end(&w);
	}
	local_unlock();
	return r;
}

bool local_covers(const char *key, const char *name)
{
	size_t len = strlen(key);

	return !len || (strncmp(key, name, len) == 0 && (name[len] == '/' || !name[len]));
}

int local_delete(struct elasticd *h, const char *key, int64_t *ret)
{
	size_t kept = 0;
	int64_t deleted = 0;
	int r = local_enter(h);

	if (r)
		return r;
	for (size_t i = 0; i < n_items; i++) {
		if (!local_covers(key, items[i].key)) {
			items[kept++] = items[i];
			continue;
		}
		local_change(items[i].key, NULL, ++revision);
		local_value_unref(items[i].value);
		free(items[i].key);
		deleted++;
	}
	n_items = kept;
	if (deleted)
		local_wake();
	local_unlock();
	*ret = deleted;
	return 0;
}

static bool entry_fill(struct elasticd_entry *e, const struct local_item *item)
{
	e->key = strdup(item->key);
	e->value = local_value_copy(item->value);
	e->len = item->value->len;
	e->revision = item->revision;
	return e->key && e->value;
}

static int list_locked(const char *key, struct elasticd_entry **ret, size_t *ret_n)
{
	struct elasticd_entry *entries = calloc(n_items + 1, sizeof(*entries));
	size_t n = 0;

	if (!entries)
		return fail_memory();
	for (size_t i = 0; i < n_items; i++) {
		if (!local_covers(key, items[i].key) || strcmp(key, items[i].key) == 0)
			continue;
		if (!entry_fill(&entries[n++], &items[i])) {
			elasticd_entries_free(entries, n);
			return fail_memory();
		}
	}
	*ret = entries;
	*ret_n = n;
	return 0;
}

int local_list(struct elasticd *h, const char *key, struct elasticd_entry **ret, size_t *ret_n)
{
	int r = local_enter(h);

	if (r)
		return r;
	r = list_locked(key, ret, ret_n);
	local_unlock();
	return r;
}
