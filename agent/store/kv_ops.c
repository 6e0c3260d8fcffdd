/* SPDX-License-Identifier: Apache-2.0 */
/* Calls: their lives, and those that are one operation of the store. Gets are in kv_get.c. */
#include "agent/store/kv_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kv_call_new(struct kv *kv, const char *key, bool empty, kv_answer_fn fn, void *arg,
	struct kv_call **ret, struct error *err)
{
	char name[KV_KEY_MAX + 1];
	int len = kv_key(key, empty, name, err);
	struct kv_call *call;

	if (len < 0)
		return len;
	call = malloc(sizeof(*call) + (size_t)len + 1);
	if (!call)
		return error_set(err, -ENOMEM, "out of memory");
	*call = (struct kv_call){ .kv = kv, .fn = fn, .arg = arg };
	memcpy(call->key, name, (size_t)len + 1);
	link_init(&call->waits);
	link_init(&call->deadline);
	link_init(&call->all);
	link_before(&kv->calls, &call->all);
	*ret = call;
	return 0;
}

/* Removes the call from every list but that of open calls. */
static void call_detach(struct kv_call *call)
{
	call->op = store_cancel(call->op);
	link_remove(&call->deadline);
	link_remove(&call->waits);
	if (call->node)
		kv_node_put(call->kv, call->node);
	call->node = NULL;
}

struct kv_call *kv_call_free(struct kv_call *call)
{
	call_detach(call);
	link_remove(&call->all);
	free(call);
	return NULL;
}

struct kv_call *kv_cancel(struct kv_call *call)
{
	if (call && call->fn)
		kv_call_free(call);
	return NULL;
}

void kv_call_finish(struct kv_call *call, const struct store_answer *answer)
{
	kv_answer_fn fn = call->fn;
	struct kv *kv = call->kv;

	call_detach(call);
	link_remove(&call->all);
	call->fn = NULL;
	kv_enter(kv);
	fn(call->arg, answer);
	kv_leave(kv);
	free(call);
}

void kv_call_fail(struct kv_call *call, enum status status, const char *message)
{
	kv_call_finish(call, &(struct store_answer){ .status = status,
				     .message = message ? message : status_name(status),
				     .revision = call->kv->revision });
}

bool kv_waits(const struct kv_call *call)
{
	return call->node;
}

void kv_calls_end(struct kv *kv, enum status status, enum kv_which which)
{
	struct link *next;

	for (struct link *l = kv->calls.next; l != &kv->calls; l = next) {
		struct kv_call *call = link_entry(l, struct kv_call, all);

		next = l->next;
		if ((which == KV_WAITS && !call->wait) || (which == KV_WAITING && !kv_waits(call)))
			continue;
		call_detach(call);
		call->end = status;
		call->by_stop = which != KV_ALL;
		link_remove(l);
		link_before(&kv->ended, l);
	}
	kv_post_ended(kv);
}

void kv_call_finish_entry(
	struct kv_call *call, const struct store_answer *answer, const char *message)
{
	struct store_entry entry = answer->entries[0];
	struct store_answer a = *answer;

	entry.key = call->key;
	a.entries = &entry;
	a.n = 1;
	a.message = message;
	kv_call_finish(call, &a);
}

static void answer_exists(struct kv_call *call, const struct store_answer *answer)
{
	char text[KV_KEY_MAX + 64];

	snprintf(text, sizeof(text), "the key \"%s\" is there already", call->key);
	kv_call_finish_entry(call, answer, text);
}

/* Merges both sorted lists of an answer: first keys of the attempt, then persistent ones. */
static void merge_entries(struct kv *kv, const struct store_answer *a, struct store_entry *merged)
{
	size_t i = 0, split = 0, at = 0;

	while (split < a->n && strncmp(a->entries[split].key, kv->prefix, kv->prefix_len) == 0)
		split++;
	for (size_t j = split; at < a->n; at++) {
		const char *own = i < split ? kv_own(kv, a->entries[i].key) : NULL;
		const char *kept = j < a->n ? kv_own(kv, a->entries[j].key) : NULL;

		if (own && (!kept || strcmp(own, kept) < 0)) {
			merged[at] = a->entries[i++];
			merged[at].key = own;
		} else {
			merged[at] = a->entries[j++];
			merged[at].key = kept;
		}
	}
}

static void on_listed(void *arg, const struct store_answer *answer)
{
	_cleanup_free_ struct store_entry *merged = NULL;
	struct store_answer a = *answer;
	struct kv_call *call = arg;

	call->op = NULL;
	if (a.n > 0) {
		merged = calloc(a.n, sizeof(*merged));
		if (!merged) {
			kv_call_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
			return;
		}
		merge_entries(call->kv, answer, merged);
		a.entries = merged;
	}
	kv_call_finish(call, &a);
}

static void on_answer(void *arg, const struct store_answer *answer)
{
	struct kv_call *call = arg;

	call->op = NULL;
	if (answer->status == STATUS_ALREADY_EXISTS)
		answer_exists(call, answer);
	else
		kv_call_finish(call, answer);
}

/* All keys below key: from "a/" to "a0", since '0' is the character after '/'. */
struct subtree {
	char begin[KV_STORE_KEY], end[KV_STORE_KEY];
};

static struct store_span span_below(struct subtree *t, const char *prefix, const char *key)
{
	kv_join(t->begin, prefix, key, *key ? "/" : "");
	kv_join(t->end, prefix, key, *key ? "/" : "");
	t->end[strlen(t->end) - 1] = '/' + 1;
	return (struct store_span){ .begin = t->begin, .end = t->end };
}

int kv_call_started(struct kv_call *call, int r, struct kv_call **ret, struct error *err)
{
	if (r < 0) {
		kv_call_free(call);
		return error_set(err, r, "out of memory");
	}
	if (ret)
		*ret = call;
	return 0;
}

int kv_put(struct kv *kv, const char *key, const void *value, size_t len, bool overwrite,
	bool persistent, kv_answer_fn fn, void *arg, struct kv_call **ret, struct error *err)
{
	char own[KV_STORE_KEY], kept[KV_STORE_KEY];
	struct store_put put = { .value = value, .len = len, .create = !overwrite };
	struct kv_call *call;
	int r;

	if (len > STORE_VALUE_MAX)
		return error_field(err, -EINVAL, "value", "it has %zu bytes, expected at most %d",
			len, (int)STORE_VALUE_MAX);
	r = kv_call_new(kv, key, false, fn, arg, &call, err);
	if (r < 0)
		return r;
	kv_join(own, kv->prefix, call->key, "");
	kv_join(kept, KV_PERSISTENT, call->key, "");
	put.key = persistent ? kept : own;
	put.other = persistent ? own : kept;
	r = store_put(kv->store, &put, on_answer, call, &call->op);
	return kv_call_started(call, r, ret, err);
}

int kv_list(struct kv *kv, const char *key, kv_answer_fn fn, void *arg, struct kv_call **ret,
	struct error *err)
{
	struct subtree own, kept;
	struct store_span spans[2];
	struct kv_call *call;
	int r = kv_call_new(kv, key, true, fn, arg, &call, err);

	if (r < 0)
		return r;
	spans[0] = span_below(&own, kv->prefix, call->key);
	spans[1] = span_below(&kept, KV_PERSISTENT, call->key);
	r = store_range(kv->store, spans, 2, on_listed, call, &call->op);
	return kv_call_started(call, r, ret, err);
}

int kv_delete(struct kv *kv, const char *key, kv_answer_fn fn, void *arg, struct kv_call **ret,
	struct error *err)
{
	char own_key[KV_STORE_KEY], kept_key[KV_STORE_KEY];
	struct subtree own, kept;
	struct store_span spans[4] = { { .begin = own_key }, { .begin = kept_key } };
	struct kv_call *call;
	int r = kv_call_new(kv, key, false, fn, arg, &call, err);

	if (r < 0)
		return r;
	kv_join(own_key, kv->prefix, call->key, "");
	kv_join(kept_key, KV_PERSISTENT, call->key, "");
	spans[2] = span_below(&own, kv->prefix, call->key);
	spans[3] = span_below(&kept, KV_PERSISTENT, call->key);
	r = store_delete(kv->store, spans, 4, on_answer, call, &call->op);
	return kv_call_started(call, r, ret, err);
}
