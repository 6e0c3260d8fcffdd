/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The workers' key-value store, on top of the store: flat keys in normal form, insert-once, gets
 * that wait, lists, subtree deletes, watches. Each attempt begins with the persistent keys only.
 * Knows no connection: a caller gets its answer by callback on a later turn, or cancels the call. A
 * persistent key and a key of the attempt never have the same name: inserting one while the other
 * exists is ALREADY_EXISTS, and overwriting replaces it, so the last write decides whether a key is
 * persistent (a watch sees that change as a deletion and a write). Callbacks may free anything, the
 * kv too.
 */

#include "agent/store/store.h"

enum { KV_KEY_MAX = 1024 }; /* bytes, normalised */

/* In the store, persistent keys begin with this, and end before KV_PERSISTENT_END. */
#define KV_PERSISTENT "kv/p/"
#define KV_PERSISTENT_END "kv/p0" /* '0' comes after '/' */

struct kv;
struct kv_call;	 /* an operation that has not been answered */
struct kv_watch; /* an open watch */

/* Keys in entries are the workers' own, normalised. */
typedef void (*kv_answer_fn)(void *arg, const struct store_answer *answer);

/* The store is empty, and outlives the kv. The attempt is 0 until the first kv_begin(). */
_must_check_ int kv_new(struct loop *loop, struct store *store, struct kv **ret);
struct kv *kv_free(struct kv *kv); /* open calls end without a callback */
DEFINE_CLEANUP(struct kv *, kv_free)

/*
 * Begins an attempt; numbers only grow. Deletes the keys of earlier attempts, and ends all open
 * calls and watches (CANCELLED). An attempt never sees another's keys, even while the store has not
 * deleted them yet: they have names of their own there.
 */
void kv_begin(struct kv *kv, int attempt);
/* Ends every wait and watch with this status and message, on a later turn. Until kv_begin(), new
 * ones end as soon as they would wait. */
void kv_stop(struct kv *kv, enum status status, const char *message);

/* Ends, on a later turn and with this status and message, each get that waits for a missing key. */
void kv_release(struct kv *kv, enum status status, const char *message);
/* Called when a get begins to wait. */
void kv_on_wait(struct kv *kv, void (*fn)(void *arg), void *arg);
/* True when call is a get that waits. */
bool kv_waits(const struct kv_call *call);

/* "//a//b/" -> "a/b". Returns an owned key ("" is left to the caller), or NULL without memory. */
char *kv_normalise(const char *key);

/* Each of these returns 0 and a handle (ret may be NULL), valid until its callback has returned, or
 * a negative errno without a callback (-EINVAL for a bad key or value, -ENOMEM; the text is in
 * err). key is as the worker wrote it. */
_must_check_ int kv_put(struct kv *kv, const char *key, const void *value, size_t len,
	bool overwrite, bool persistent, kv_answer_fn fn, void *arg, struct kv_call **ret,
	struct error *err);
/* Without wait, a missing key is NOT_FOUND at once. A wait ends with the first put of the key, even
 * if the key is deleted right after. timeout_ms < 0: no limit; 0: DEADLINE_EXCEEDED instead of
 * waiting. */
_must_check_ int kv_get(struct kv *kv, const char *key, bool wait, int64_t timeout_ms,
	kv_answer_fn fn, void *arg, struct kv_call **ret, struct error *err);
/* The keys below key, sorted; "" (also "/"): all. */
_must_check_ int kv_list(struct kv *kv, const char *key, kv_answer_fn fn, void *arg,
	struct kv_call **ret, struct error *err);
/* Deletes the key and all below it, in one revision. */
_must_check_ int kv_delete(struct kv *kv, const char *key, kv_answer_fn fn, void *arg,
	struct kv_call **ret, struct error *err);
/* The callback will not be called; the operation may still happen. NULL is accepted. */
struct kv_call *kv_cancel(struct kv_call *call);

/* As store_change_fn. The last call has entry NULL, and status says why the watch ended:
 * OUT_OF_RANGE (it missed changes, or since is too old), CANCELLED (the attempt is over), or the
 * status given to kv_stop(). Before that status is OK. */
typedef void (*kv_change_fn)(void *arg, const struct store_entry *entry, enum status status);
/* The revision of the newest change: a watch since then reports all later ones. */
int64_t kv_revision(const struct kv *kv);
/* Reports changes of key and of all below it ("": of all) after revision since, a number from an
 * earlier answer; since < 0: from now on. The caller frees the watch, before or after the kv. */
_must_check_ int kv_watch_new(struct kv *kv, const char *key, int64_t since, kv_change_fn fn,
	void *arg, struct kv_watch **ret, struct error *err);
struct kv_watch *kv_watch_free(struct kv_watch *w);
