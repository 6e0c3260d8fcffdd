/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/hosts/head.h"
#include "agent/hosts/lead.h"
#include "agent/store/kv.h"
#include "common/base/log.h"
#include "common/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Persistent keys of workers, in etcd: a head reads the keys that the head before has left, and
 * then writes changes in batches, each key with the value that it has by then.
 */

enum {
	KEYS_BATCH = 64,
	KEYS_BYTES = 1 << 20, /* of values in one batch; one value may be as large */
};

/* A batch on its way to etcd: keys, each with its value, or with NULL if it was deleted. */
struct keys_batch {
	int n;
	size_t bytes;
	struct {
		char *key;
		void *value;
		size_t len;
	} entries[KEYS_BATCH];
};

struct lead_keys {
	struct store_watch *changes;
	struct store_op *reading;
	struct keys_batch *batch; /* being read, or on its way to etcd */
	json_t *dirty;		  /* an object: keys whose values etcd does not have yet */
	bool loaded;		  /* the store has the keys of the head before */
	bool refill;		  /* etcd has lost all keys before they were loaded */
	int loading;		  /* how many the store is putting, and one more; 0: none */
	char *load_from;	  /* the next page begins there; NULL: there is none */
};

static struct store *keys_store(const struct lead *l)
{
	return sharing_group_store(l->hosts->head->sharing);
}

static void keys_fini(struct keys_batch *b)
{
	for (int i = 0; i < b->n; i++) {
		free(b->entries[i].key);
		free(b->entries[i].value);
	}
	b->n = 0;
	b->bytes = 0;
}

static struct keys_batch *keys_batch_free(struct keys_batch *b)
{
	if (b)
		keys_fini(b);
	free(b);
	return NULL;
}

/* Notes that etcd has another value than the store. */
static void keys_mark(struct lead *l, const char *key)
{
	if (json_put(l->persistent->dirty, key, json_true()) < 0)
		log_error("out of memory: the persistent key %.200s is not kept in etcd", key);
}

/* --- writing --- */

static void keys_collect(struct lead *l);

static void keys_written(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;
	struct lead_keys *k = l->persistent;
	struct keys_batch *b = k->batch;

	l->write = NULL;
	if (a->status != STATUS_OK || !a->succeeded)
		for (int i = 0; i < b->n; i++)
			keys_mark(l, b->entries[i].key);
	k->batch = keys_batch_free(b);
	lead_written(l, a);
	if (a->status != STATUS_OK)
		return; /* the next keep-alive that etcd answers flushes */
	if (a->succeeded || lead_check_refused(l, a))
		lead_flush(l);
}

static int keys_send(struct lead *l)
{
	struct keys_batch *b = l->persistent->batch;
	struct etcd_op ops[KEYS_BATCH];
	char *names[KEYS_BATCH];
	const struct etcd_compare own = { l->keys[LEAD_KEY], l->revision };
	struct etcd_txn t = { .compares = &own, .n_compares = 1, .then_ops = ops };
	int r = 0;

	for (int i = 0; i < b->n && r >= 0; i++) {
		r = asprintf(&names[i], "%s%s", l->keys[LEAD_KV], b->entries[i].key);
		if (r < 0)
			break;
		ops[t.n_then++] =
			(struct etcd_op){ .kind = b->entries[i].value ? ETCD_PUT : ETCD_DELETE,
				.key = names[i],
				.value = b->entries[i].value,
				.len = b->entries[i].len,
				.lease = b->entries[i].value ? l->group_lease : 0 };
	}
	r = r < 0 ? -ENOMEM : lead_write(l, &t, keys_written);
	for (size_t i = 0; i < t.n_then; i++)
		free(names[i]);
	return r;
}

static void keys_sent(struct lead *l)
{
	struct lead_keys *k = l->persistent;
	bool sends = k->batch->n && !l->write; /* the end of another write flushes */
	int r = sends ? keys_send(l) : 0;

	if (!sends || r < 0) {
		for (int i = 0; i < k->batch->n; i++)
			keys_mark(l, k->batch->entries[i].key);
		k->batch = keys_batch_free(k->batch);
	}
	if (r < 0)
		log_error("persistent keys cannot be kept in etcd: %s", strerror(-r));
}

/* Adds to the batch the value that its next key has now. */
static void keys_read(void *arg, const struct store_answer *a)
{
	struct lead *l = arg;
	struct lead_keys *k = l->persistent;
	struct keys_batch *b = k->batch;
	const struct store_entry *e = a->status == STATUS_OK && a->n ? &a->entries[0] : NULL;
	void *copy = NULL;

	k->reading = NULL;
	if (e && b->n && b->bytes + e->len > KEYS_BYTES) {
		keys_mark(l, b->entries[b->n].key);
		free(b->entries[b->n].key);
		keys_sent(l);
		return;
	}
	if (e) {
		copy = malloc(e->len + 1);
		if (copy)
			memcpy(copy, e->value, e->len);
		b->bytes += e->len;
	}
	b->entries[b->n].value = copy;
	b->entries[b->n].len = e ? e->len : 0;
	b->n++;
	keys_collect(l);
}

/* Reads one key after the other, until the batch is full or has all. */
static void keys_collect(struct lead *l)
{
	struct lead_keys *k = l->persistent;
	struct keys_batch *b = k->batch;
	void *first = json_object_iter(k->dirty);
	char name[STORE_KEY_MAX + 1];
	const struct store_span span = { .begin = name };
	char *key = NULL;

	if (!first || b->n == KEYS_BATCH || !(key = strdup(json_object_iter_key(first)))) {
		keys_sent(l);
		return;
	}
	json_object_del(k->dirty, key);
	snprintf(name, sizeof(name), KV_PERSISTENT "%s", key);
	b->entries[b->n].key = key;
	if (store_range(keys_store(l), &span, 1, keys_read, l, &k->reading) == 0)
		return;
	keys_mark(l, key);
	free(key);
	keys_sent(l);
}

bool lead_keys_flush(struct lead *l)
{
	struct lead_keys *k = l->persistent;

	if (k->batch || k->reading)
		return true;
	if (!json_object_size(k->dirty))
		return false;
	k->batch = calloc(1, sizeof(*k->batch));
	if (k->batch)
		keys_collect(l);
	return k->batch;
}

/* --- changes --- */

static void keys_listed(void *arg, const struct store_answer *a)
{
	struct lead *l = arg;

	l->persistent->reading = NULL;
	for (size_t i = 0; i < a->n; i++)
		keys_mark(l, a->entries[i].key + strlen(KV_PERSISTENT));
	lead_flush(l);
}

static void keys_changed(void *arg, const struct store_entry *entry, bool gap);

static int keys_watch(struct lead *l)
{
	const struct store_span span = { KV_PERSISTENT, KV_PERSISTENT_END };

	return store_watch_new(keys_store(l), &span, -1, keys_changed, l, &l->persistent->changes);
}

static void keys_changed(void *arg, const struct store_entry *entry, bool gap)
{
	struct lead *l = arg;
	struct lead_keys *k = l->persistent;
	const struct store_span span = { KV_PERSISTENT, KV_PERSISTENT_END };

	if (!gap) {
		keys_mark(l, entry->key + strlen(KV_PERSISTENT));
		lead_flush(l);
		return;
	}
	k->changes = store_watch_free(k->changes);
	if (keys_watch(l) < 0 || (!k->reading && store_range(keys_store(l), &span, 1, keys_listed,
							 l, &k->reading) < 0))
		log_error("out of memory: persistent keys are no longer kept in etcd");
}

/* --- reading --- */

static void keys_loaded(struct lead *l)
{
	struct lead_keys *k = l->persistent;

	k->loaded = true;
	free(k->load_from);
	k->load_from = NULL;
	if (keys_watch(l) < 0)
		log_error("out of memory: persistent keys are not kept in etcd");
	if (k->refill) /* etcd has lost them */
		keys_changed(l, NULL, true);
	head_admit_waiting(l->hosts->head);
}

static void keys_put(void *arg, const struct store_answer *a)
{
	struct lead *l = arg;
	struct lead_keys *k = l->persistent;

	if (a->status != STATUS_OK)
		log_error("a persistent key of the head before is lost: %s", a->message);
	if (!--k->loading && !k->load_from)
		keys_loaded(l);
	else if (!k->loading)
		lead_keys_load(l);
}

static int keys_put_loaded(struct lead *l, const struct etcd_entry *e)
{
	char name[STORE_KEY_MAX + 1];
	const struct store_put put = { .key = name, .value = e->value, .len = e->len };
	int n = snprintf(name, sizeof(name), KV_PERSISTENT "%s", e->key + strlen(l->keys[LEAD_KV]));

	if (n >= (int)sizeof(name) || e->len > STORE_VALUE_MAX)
		return -EINVAL; /* no head has written it */
	return store_put(keys_store(l), &put, keys_put, l, NULL);
}

static void keys_page(void *arg, const struct etcd_answer *a)
{
	struct lead *l = arg;
	struct lead_keys *k = l->persistent;
	const struct etcd_result *page = a->status == STATUS_OK ? &a->results[0] : NULL;
	char *last = NULL;

	l->call = NULL;
	if (!page) {
		lead_report(l, a->text); /* the next keep-alive tries again */
		return;
	}
	/* The key after the last one of the page. */
	if (page->count > (int64_t)page->n && page->n &&
		asprintf(&last, "%s\x01", page->entries[page->n - 1].key) < 0)
		return;
	free(k->load_from);
	k->load_from = last;
	k->loading = 1;
	for (size_t i = 0; i < page->n; i++)
		if (keys_put_loaded(l, &page->entries[i]) == 0)
			k->loading++;
	keys_put(l, &(struct store_answer){ .status = STATUS_OK });
}

void lead_keys_load(struct lead *l)
{
	struct lead_keys *k = l->persistent;
	const struct etcd_op get = { .kind = ETCD_GET,
		.key = k->load_from ? k->load_from : l->keys[LEAD_KV],
		.end = l->keys[LEAD_KV_END],
		.limit = KEYS_BATCH / 4 };
	const struct etcd_txn t = { .then_ops = &get, .n_then = 1 };

	if (k->loaded || k->loading || l->call)
		return;
	if (!l->seen[LEAD_STATE].value)
		keys_loaded(l); /* a new group has none */
	else if (etcd_txn(l->etcd, &t, lead_limit_ms(l), keys_page, l, &l->call) < 0)
		lead_report(l, "out of memory");
}

void lead_keys_refill(struct lead *l)
{
	struct lead_keys *k = l->persistent;

	if (k->loaded)
		keys_changed(l, NULL, true);
	else
		k->refill = true;
}

void lead_keys_end(struct lead *l)
{
	struct lead_keys *k = l->persistent;

	if (!k)
		return;
	k->changes = store_watch_free(k->changes);
	k->reading = store_cancel(k->reading);
	k->batch = keys_batch_free(k->batch);
	json_object_clear(k->dirty);
	free(k->load_from);
	k->load_from = NULL;
	k->loading = 0;
	k->loaded = k->refill = false;
}

bool lead_keys_are_loaded(const struct lead *l)
{
	return l->persistent->loaded;
}

int lead_keys_new(struct lead *l)
{
	l->persistent = calloc(1, sizeof(*l->persistent));
	if (!l->persistent)
		return -ENOMEM;
	l->persistent->dirty = json_object();
	return l->persistent->dirty ? 0 : -ENOMEM;
}

void lead_keys_free(struct lead *l)
{
	lead_keys_end(l);
	if (l->persistent)
		json_decref(l->persistent->dirty);
	free(l->persistent);
}
