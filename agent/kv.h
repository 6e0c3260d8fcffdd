/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The workers' key-value store, over the store: normalised flat keys, insert-once, reads that wait,
 * lists, subtree deletes, watches; cleared with each incarnation of the group except for what is
 * persistent. Knows no connection: whoever asks gets an answer by callback, on a later turn, or
 * takes the question back. A persistent key and one of the incarnation never have the same name: to
 * insert one where the other is there is ALREADY_EXISTS, and to overwrite replaces it, so that the
 * last write decides whether a key is persistent (a watch sees such a change of kind as a deletion
 * and a write). Callbacks may free anything, the kv too.
 */

#include "agent/store.h"

enum { KV_KEY_MAX = 1024 }; /* bytes, normalised */

struct kv;
struct kv_call;	 /* a question under way */
struct kv_watch; /* an open watch */

/* Keys in entries are the workers' own, normalised. */
typedef void (*kv_answer_fn)(void *arg, const struct store_answer *answer);

/* The store must outlive it. Until the first kv_begin() it is attempt 0. */
_must_check_ int kv_new(struct loop *loop, struct store *store, struct kv **ret);
struct kv *kv_free(struct kv *kv); /* open questions end without a callback */
DEFINE_CLEANUP(struct kv *, kv_free)

/*
 * A new incarnation (attempts only grow): the keys of those before are deleted, and all questions
 * and watches that are open end (CANCELLED). An attempt never sees another's keys, however late the
 * store does its work: each has a place of its own there.
 */
void kv_begin(struct kv *kv, int attempt);
/* Ends every wait and watch with this status and message, on a later turn; new ones end as soon as
 * they would wait, until kv_begin(). */
void kv_stop(struct kv *kv, enum status status, const char *message);

/* Ends each get that waits for a key that is not there with this status and message, on a later
 * turn. */
void kv_release(struct kv *kv, enum status status, const char *message);
/* Called when a get begins to wait. */
void kv_on_wait(struct kv *kv, void (*fn)(void *arg), void *arg);
/* Whether call is a get that waits. */
bool kv_waits(const struct kv_call *call);

/* A new descriptor, owned, of the mirror of this kv, or a negative errno. From the first time on it
 * shows entries (common/key_mirror.h), by the workers' keys. What is found there is what kv_get()
 * would answer now, as far as anybody knows who was given an answer or told a change; after
 * kv_begin() those who have opened it before find nothing. */
_must_check_ int kv_mirror_fd(struct kv *kv);

/* "//a//b/" -> "a/b". Returns an owned key ("" is left to the caller), or NULL without memory. */
char *kv_normalise(const char *key);

/* Each: 0 and a handle (ret may be NULL), valid until its callback has returned, or a negative
 * errno
 * (-EINVAL for a bad key or value, -ENOMEM; err says it) with no callback. key is as the worker
 * wrote it. */
_must_check_ int kv_put(struct kv *kv, const char *key, const void *value, size_t len,
	bool overwrite, bool persistent, kv_answer_fn fn, void *arg, struct kv_call **ret,
	struct error *err);
/* Without wait: NOT_FOUND at once. A wait ends by the put that it waited for, also where the key is
 * deleted right after; it outlives a store that is not there for a while. timeout_ms < 0: none;
 * 0: DEADLINE_EXCEEDED where it would wait. */
_must_check_ int kv_get(struct kv *kv, const char *key, bool wait, int64_t timeout_ms,
	kv_answer_fn fn, void *arg, struct kv_call **ret, struct error *err);
/* What is below key, sorted; "" (also "/"): all. */
_must_check_ int kv_list(struct kv *kv, const char *key, kv_answer_fn fn, void *arg,
	struct kv_call **ret, struct error *err);
/* Deletes the key and what is below it, in one revision. */
_must_check_ int kv_delete(struct kv *kv, const char *key, kv_answer_fn fn, void *arg,
	struct kv_call **ret, struct error *err);
/* There will be no callback. What the question does may still happen. NULL is accepted. */
struct kv_call *kv_cancel(struct kv_call *call);

/* As store_change_fn; when the watch is over, entry is NULL and status says why: OUT_OF_RANGE (it
 * has missed changes, or since is too long ago), CANCELLED (the incarnation is over), or that of
 * kv_stop(). Until then status is OK. */
typedef void (*kv_change_fn)(void *arg, const struct store_entry *entry, enum status status);
/* Changes of key and of all below it ("": of all) after revision since, as the answers have it;
 * since < 0: from now on. Who made a watch frees it, before or after the kv. */
_must_check_ int kv_watch_new(struct kv *kv, const char *key, int64_t since, kv_change_fn fn,
	void *arg, struct kv_watch **ret, struct error *err);
struct kv_watch *kv_watch_free(struct kv_watch *w);
