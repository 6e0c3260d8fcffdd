/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key-value store of the workers. It keeps no keys itself: every call is one operation of the
 * store. The store has keys of two kinds, those of the attempt and persistent ones, and prevents
 * both from having the same name (store_put.other). Only waits and watches are kept here, by key,
 * so that a write costs nothing for those of other keys.
 */
#include "agent/store/kv.h"

#include "agent/store/kv_private.h"
#include "common/base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_ended(void *arg)
{
	struct kv *kv = arg;

	kv_enter(kv);
	while (!link_alone(&kv->ended)) {
		struct kv_call *call = link_entry(kv->ended.next, struct kv_call, all);

		kv_call_fail(call, call->end,
			call->by_stop ? kv->stop_message : "the group has begun another attempt");
	}
	while (!link_alone(&kv->ended_watches)) {
		struct kv_watch *w = link_entry(kv->ended_watches.next, struct kv_watch, all);

		link_remove(&w->all);
		w->fn(w->arg, NULL, w->end);
	}
	kv_leave(kv);
}

void kv_post_ended(struct kv *kv)
{
	if (loop_defer(kv->loop, on_ended, kv) < 0) {
		kv->timer_ms = 0;
		loop_timer_arm(kv->timer, 0);
	}
}

static void on_timer(void *arg)
{
	struct kv *kv = arg;

	kv_enter(kv);
	kv_deadlines_pass(kv);
	on_ended(kv);
	kv_leave(kv);
}

static void set_attempt(struct kv *kv, int attempt)
{
	int n = snprintf(kv->prefix, sizeof(kv->prefix), KV_ATTEMPTS "%010d/", attempt);

	kv->prefix_len = (size_t)n;
}

int kv_new(struct loop *loop, struct store *store, struct kv **ret)
{
	_cleanup_(kv_freep) struct kv *kv = calloc(1, sizeof(*kv));
	const struct store_span all = { .begin = KV_ROOT, .end = KV_ROOT_END };
	int r;

	if (!kv)
		return -ENOMEM;
	kv->loop = loop;
	kv->store = store;
	link_init(&kv->calls);
	link_init(&kv->ended);
	link_init(&kv->watches);
	link_init(&kv->ended_watches);
	link_init(&kv->deadlines);
	set_attempt(kv, 0);
	r = loop_timer_new(loop, on_timer, kv, &kv->timer);
	if (r >= 0)
		r = store_watch_new(store, &all, -1, kv_changed, kv, &kv->stream);
	if (r < 0)
		return r;
	*ret = TAKE_PTR(kv);
	return 0;
}

static void kv_destroy(struct kv *kv)
{
	chain_fini(&kv->nodes);
	free(kv->stop_message);
	free(kv);
}

void kv_enter(struct kv *kv)
{
	kv->busy++;
}

void kv_leave(struct kv *kv)
{
	if (--kv->busy == 0 && kv->dead)
		kv_destroy(kv);
}

/* A callback may free the kv while a function walks its lists: empty lists end that walk. */
struct kv *kv_free(struct kv *kv)
{
	if (!kv)
		return NULL;
	kv->dead = true;
	while (!link_alone(&kv->calls))
		kv_call_free(link_entry(kv->calls.next, struct kv_call, all));
	while (!link_alone(&kv->ended))
		kv_call_free(link_entry(kv->ended.next, struct kv_call, all));
	kv_watches_orphan(kv);
	loop_cancel(kv->loop, on_ended, kv);
	kv->timer = loop_timer_free(kv->timer);
	kv->stream = store_watch_free(kv->stream);
	if (!kv->busy)
		kv_destroy(kv);
	return NULL;
}

/* Deletes all keys of earlier attempts, which sort before this attempt's. */
static void delete_old_keys(struct kv *kv)
{
	const struct store_span old = { .begin = KV_ATTEMPTS, .end = kv->prefix };

	if (store_delete(kv->store, &old, 1, NULL, NULL, NULL) < 0)
		log_warning("out of memory: keys of earlier attempts stay until the next attempt");
}

void kv_begin(struct kv *kv, int attempt)
{
	kv_calls_end(kv, STATUS_CANCELLED, KV_ALL);
	kv_watches_end(kv, STATUS_CANCELLED);
	kv->stopped = false;
	set_attempt(kv, attempt);
	delete_old_keys(kv);
}

static void kv_set_message(struct kv *kv, const char *message)
{
	free(kv->stop_message);
	kv->stop_message = strdup(message);
}

void kv_release(struct kv *kv, enum status status, const char *message)
{
	kv_set_message(kv, message);
	kv_calls_end(kv, status, KV_WAITING);
}

void kv_on_wait(struct kv *kv, void (*fn)(void *arg), void *arg)
{
	kv->on_wait = fn;
	kv->on_wait_arg = arg;
}

void kv_stop(struct kv *kv, enum status status, const char *message)
{
	kv_set_message(kv, message);
	kv->stopped = true;
	kv->stop_status = status;
	kv_calls_end(kv, status, KV_WAITS);
	kv_watches_end(kv, status);
}
