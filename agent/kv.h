/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The workers' key-value store, over the store: normalised flat keys, insert-once, reads that wait,
 * lists, subtree deletes, watches; cleared with each incarnation of the group except for what is
 * persistent. Knows no connection: whoever asks gets an answer by callback, later, or takes the
 * question back. A persistent key and one of the incarnation never have the same name.
 */

#include "agent/store.h"

struct kv;
struct kv_call;  /* a question under way */
struct kv_watch; /* an open watch */

/* Keys in entries are the workers' own, normalised. */
typedef void (*kv_answer_fn)(void *arg, const struct store_answer *answer);

_must_check_ int kv_new(struct loop *loop, struct store *store, struct kv **ret);
struct kv *kv_free(struct kv *kv);
DEFINE_CLEANUP(struct kv *, kv_free)

/*
 * A new incarnation: the keys of the one before are deleted, what waits for it ends (CANCELLED), and
 * only then are questions of the new one answered. An attempt never sees another's keys, however
 * late the store does its work.
 */
void kv_begin(struct kv *kv, int attempt);
/* Ends every wait and watch with this status and message; new waits end at once until kv_begin(). */
void kv_stop(struct kv *kv, enum status status, const char *message);

/* "//a//b/" -> "a/b". Returns an owned key ("" is left to the caller), or NULL without memory. */
char *kv_normalise(const char *key);

/* Each: 0 and a handle, valid until its callback has returned, or a negative errno (-EINVAL with
 * err for a bad key or value) with no callback. key is as the worker wrote it. */
_must_check_ int kv_put(struct kv *kv, const char *key, const void *value, size_t len,
	bool overwrite, bool persistent, kv_answer_fn fn, void *arg, struct kv_call **ret,
	struct error *err);
/* timeout_ms < 0: none. Without wait: NOT_FOUND at once. One wait is answered by the put that ends
 * it, also where the key is deleted right after. */
_must_check_ int kv_get(struct kv *kv, const char *key, bool wait, int64_t timeout_ms,
	kv_answer_fn fn, void *arg, struct kv_call **ret, struct error *err);
_must_check_ int kv_list(struct kv *kv, const char *key, kv_answer_fn fn, void *arg,
	struct kv_call **ret, struct error *err);
_must_check_ int kv_delete(struct kv *kv, const char *key, kv_answer_fn fn, void *arg,
	struct kv_call **ret, struct error *err);
struct kv_call *kv_cancel(struct kv_call *call);

/* As store_change_fn; status is set when the watch is over: OUT_OF_RANGE (a gap), CANCELLED. */
typedef void (*kv_change_fn)(void *arg, const struct store_entry *entry, enum status status);
_must_check_ int kv_watch_new(struct kv *kv, const char *key, int64_t since, kv_change_fn fn,
	void *arg, struct kv_watch **ret, struct error *err);
struct kv_watch *kv_watch_free(struct kv_watch *w);
