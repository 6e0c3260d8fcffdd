/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads. A get that waits first asks the store. When the key is missing at revision R, the stream
 * reports every later write, unless it had already gone beyond R: then the get, which by now is
 * registered at its key, asks once more. It does the same when the stream broke meanwhile or the
 * store was unavailable.
 */
#include "agent/store/kv_private.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int wait_at_node(struct kv_call *call)
{
	if (call->node)
		return 0;
	call->node = kv_node_get(call->kv, call->key);
	if (!call->node)
		return -ENOMEM;
	link_before(&call->node->waits, &call->waits);
	return 0;
}

static void fail_deadline(struct kv_call *call)
{
	char text[KV_KEY_MAX + 96];

	snprintf(text, sizeof(text), "the key \"%s\" was not written within %lld ms", call->key,
		(long long)call->timeout_ms);
	kv_call_fail(call, STATUS_DEADLINE_EXCEEDED, text);
}

static void fail_stopped(struct kv_call *call)
{
	kv_call_fail(call, call->kv->stop_status, call->kv->stop_message);
}

static void answer_missing(struct kv_call *call, int64_t revision)
{
	struct kv *kv = call->kv;

	if (!call->wait) {
		char text[KV_KEY_MAX + 64];

		snprintf(text, sizeof(text), "there is no key \"%s\"", call->key);
		kv_call_fail(call, STATUS_NOT_FOUND, text);
	} else if (kv->stopped) {
		fail_stopped(call);
	} else if (call->timeout_ms == 0) {
		fail_deadline(call);
	} else if (wait_at_node(call) < 0) {
		kv_call_fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	} else {
		if (revision > call->floor)
			call->floor = revision;
		call->checked = kv->stream && (call->stream == kv->number || kv->seen <= revision);
		if (!call->checked && kv->stream)
			kv_get_check(call);
		else if (call->checked && kv->on_wait)
			kv->on_wait(kv->on_wait_arg);
	}
}

static void answer_unavailable(struct kv_call *call, const struct store_answer *answer)
{
	if (call->kv->stopped)
		fail_stopped(call);
	else if (!call->wait || call->timeout_ms == 0 || wait_at_node(call) < 0)
		kv_call_finish(call, answer);
	else
		kv_work_later(call->kv);
}

static void on_checked(void *arg, const struct store_answer *answer)
{
	struct kv_call *call = arg;

	call->op = NULL;
	kv_know(call->kv, answer->revision);
	if (answer->status == STATUS_OK && answer->n > 0) {
		struct store_entry entry = answer->entries[0];
		struct store_answer a = *answer;

		entry.key = call->key;
		a.entries = &entry;
		a.n = 1;
		kv_call_finish(call, &a);
	} else if (answer->status == STATUS_OK) {
		answer_missing(call, answer->revision);
	} else if (answer->status == STATUS_UNAVAILABLE) {
		answer_unavailable(call, answer);
	} else {
		kv_call_finish(call, answer);
	}
}

static int start_check(struct kv_call *call)
{
	struct kv *kv = call->kv;
	char own[KV_STORE_KEY], kept[KV_STORE_KEY];
	struct store_span spans[2] = {
		{ .begin = kv_join(own, kv->prefix, call->key, "") },
		{ .begin = kv_join(kept, KV_PERSISTENT, call->key, "") },
	};

	call->stream = call->node && kv->stream ? kv->number : 0;
	return store_range(kv->store, spans, 2, 0, on_checked, call, &call->op);
}

void kv_get_check(struct kv_call *call)
{
	if (start_check(call) < 0)
		kv_work_later(call->kv);
}

static void arm_timer_by(struct kv *kv, uint64_t deadline_ms, uint64_t now)
{
	if (loop_timer_armed(kv->timer) && kv->timer_ms <= deadline_ms)
		return;
	kv->timer_ms = deadline_ms;
	loop_timer_arm(kv->timer, deadline_ms > now ? deadline_ms - now : 0);
}

static void set_deadline(struct kv_call *call)
{
	struct kv *kv = call->kv;
	uint64_t now = loop_now_ms();
	struct link *at = &kv->deadlines;

	call->deadline_ms = now + (uint64_t)call->timeout_ms;
	while (at->prev != &kv->deadlines &&
		link_entry(at->prev, struct kv_call, deadline)->deadline_ms > call->deadline_ms)
		at = at->prev;
	link_before(at, &call->deadline);
	arm_timer_by(kv, call->deadline_ms, now);
}

/* A get answered in time leaves the timer armed: it then only finds the next deadline. */
void kv_deadlines_pass(struct kv *kv)
{
	while (!link_alone(&kv->deadlines)) {
		struct kv_call *call = link_entry(kv->deadlines.next, struct kv_call, deadline);
		uint64_t now = loop_now_ms();

		if (call->deadline_ms > now) {
			arm_timer_by(kv, call->deadline_ms, now);
			return;
		}
		fail_deadline(call);
	}
}

int kv_get(struct kv *kv, const char *key, bool wait, int64_t timeout_ms, kv_answer_fn fn,
	void *arg, struct kv_call **ret, struct error *err)
{
	char name[KV_KEY_MAX + 1];
	struct kv_call *call;
	int r = kv_key(key, false, name, err);

	if (r < 0)
		return r;
	call = kv_call_new(kv, KV_GET, name, fn, arg);
	if (!call)
		return error_set(err, -ENOMEM, "out of memory");
	call->wait = wait;
	call->timeout_ms = timeout_ms;
	call->floor = kv->known;
	if (start_check(call) < 0) {
		kv_call_free(call);
		return error_set(err, -ENOMEM, "out of memory");
	}
	if (wait && timeout_ms > 0)
		set_deadline(call);
	if (ret)
		*ret = call;
	return 0;
}
